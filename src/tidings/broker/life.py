"""Signs of life, both ways: who is silent for too long is asked, then cut off; who wants to hear from us does."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVarTuple

from tidings.broker.connection import ClientConnection, Silence
from tidings.broker.logs import note
from tidings.errors import SecurityError

if TYPE_CHECKING:
    from tidings.broker.server import Broker

log = logging.getLogger("tidings.broker")
Ts = TypeVarTuple("Ts")


def failure(broker: "Broker") -> str:
    """Why a broker that has begun is no longer what it should be, so that only a restart helps; empty: it is."""
    if not broker.ready or broker.writer is None:
        return ""
    if not broker.writer.alive:
        return "the store's thread has ended"
    return broker.tasks.failure or ("" if broker.tracking.alive else "the thread of tracking has ended")


def give_signs(broker: "Broker", now_ms: int) -> None:
    """To be called several times a second."""
    for connection in list(broker.clients.beating):
        if connection.beat_due(now_ms):
            broker.forwarder.send(connection.number, connection.session.ping())
    for gateway in list(broker.clients.gateways):
        _alone(gateway, gateway.tick, now_ms)


def check_silence(broker: "Broker", now_ms: int) -> None:
    """To be called about once a second."""
    for connection in list(broker.clients.connections.values()):
        _alone(connection, _check, broker, connection, now_ms)


def _check(broker: "Broker", connection: ClientConnection, now_ms: int) -> None:
    match connection.silence(now_ms, broker.limits):
        case Silence.NO_LOGIN:
            broker.clients.fail(connection, SecurityError("E_LOGIN_TIMEOUT", "no log-in in time", fatal=True))
        case Silence.LONG:
            broker.forwarder.send(connection.number, connection.session.ping())
        case Silence.TOO_LONG:
            note(log, logging.INFO, "no sign of life", address=connection.address)
            connection.abort()
        case Silence.NONE:
            pass


def _alone(connection: ClientConnection, work: Callable[[*Ts], None], *arguments: *Ts) -> None:
    """A fault of ours must cost one connection, not all of them."""
    try:
        work(*arguments)
    except Exception:
        log.exception("internal error while serving %s", connection.address)
        connection.abort()
