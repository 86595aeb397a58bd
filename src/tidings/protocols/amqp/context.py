"""Shared context of the links of one AMQP connection."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.kernel.amqp import AmqpTransfers
from tidings.model.message_id import MessageId
from tidings.protocols.native.peer import NativePeer

Permits: TypeAlias = Callable[[str, str], bool]


@dataclass(slots=True)
class Context:
    peer: NativePeer
    transfers: AmqpTransfers  # it numbers messages
    publisher: int
    broker: int
    permits: Permits  # access check of the connected user: operation, destination
    plain_is_queue: bool
    frame_bytes_max: int
    now_ms: int
    container: str = ""
    partial_bytes: int = 0  # of messages that are not complete
    _numbers: int = field(default=0)

    def next_number(self) -> int:
        """For a subscription, or for the name of a temporary queue."""
        self._numbers += 1
        return self._numbers

    def next_id(self) -> MessageId:
        return MessageId(self.publisher, self.broker, *self.transfers.next_id(self.now_ms))

    def next_temporary(self) -> str:
        """A unique name: this broker gives a publisher's number to one connection only."""
        return f"tmp.{self.broker}.{self.publisher}.{self.next_number()}"
