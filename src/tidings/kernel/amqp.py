"""The kernel's path for plain AMQP messages, and the counters it shares with the state machines."""

from tidings._kernel import (
    AmqpLinkCounters,
    AmqpSessionCounters,
    AmqpTransfers,
    amqp_read_plain,
    amqp_write_plain,
)

__all__ = ["AmqpLinkCounters", "AmqpSessionCounters", "AmqpTransfers", "amqp_read_plain", "amqp_write_plain"]
