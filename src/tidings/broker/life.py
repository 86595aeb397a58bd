"""Signs of life, both ways: who is silent for too long is asked, then cut off; who wants to hear from us does."""

import logging
from typing import TYPE_CHECKING

from tidings.broker.connection import Silence
from tidings.broker.logs import note
from tidings.errors import SecurityError

if TYPE_CHECKING:
    from tidings.broker.server import Broker

log = logging.getLogger("tidings.broker")


def give_signs(broker: "Broker", now_ms: int) -> None:
    """To be called several times a second."""
    for connection in broker.beating:
        if connection.beat_due(now_ms):
            broker.forwarder.send(connection.number, connection.session.ping())
    for gateway in list(broker.gateways):
        gateway.tick(now_ms)


def check_silence(broker: "Broker", now_ms: int) -> None:
    """To be called about once a second."""
    for connection in list(broker.connections.values()):
        match connection.silence(now_ms, broker.limits):
            case Silence.NO_LOGIN:
                broker.fail(connection, SecurityError("E_LOGIN_TIMEOUT", "no log-in in time", fatal=True))
            case Silence.LONG:
                broker.forwarder.send(connection.number, connection.session.ping())
            case Silence.TOO_LONG:
                note(log, logging.INFO, "no sign of life", address=connection.address)
                connection.abort()
            case Silence.NONE:
                pass


def one_less(counts: dict[str, int], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
