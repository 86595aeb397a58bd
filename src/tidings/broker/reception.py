"""From a greeting to a client that is known: log-in, limits, welcome."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidings.broker.connection import ClientConnection
from tidings.broker.logs import note
from tidings.broker.numbering import publisher_numbers
from tidings.broker.session import ClockSession, Hello
from tidings.errors import RemoteProtocolError, SecurityError
from tidings.kernel.forwarder import Flag
from tidings.node.session import Principal
from tidings.tracking.skew import SkewWatch

if TYPE_CHECKING:
    from tidings.broker.server import Broker

log = logging.getLogger("tidings.broker")

LOGIN_THREADS = 2  # a memory-hard hash takes tens of megabytes: so many at a time
BLOCKED = int(Flag.BLOCKED)


class Reception:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._pool = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="log-in")
        # Others at every start: what is named by one, as a temporary queue is, must not be a stranger's afterwards.
        self._publishers = publisher_numbers()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def log_in(self, connection: ClientConnection, hello: Hello) -> None:
        number, shown = connection.number, ""
        try:
            if self._broker.guard.open:
                principal = self._broker.guard.log_in(hello, connection.address, "")
            else:
                shown = connection.certificate_name()
                principal = await asyncio.get_running_loop().run_in_executor(
                    self._pool, self._prove, connection, hello, shown
                )
                if not self._broker.guard.still(principal):
                    raise SecurityError("E_ACCESS_CHANGED", "what you may do has changed; log in again", fatal=True)
        except SecurityError as error:
            self._broker.refused_logins[error.code] += 1
            fields = {"user": (hello.user or shown)[:100], "address": connection.address, "code": error.code}
            note(log, logging.WARNING, "log-in refused", **fields)
            if connection.number == number:
                self._broker.clients.fail(connection, error)
                self._broker.after()
            return
        if connection.number == number:
            self._logged_in(connection, hello, principal)

    def _prove(self, connection: ClientConnection, hello: Hello, certificate: str) -> Principal:
        """On a thread of the pool."""
        if connection.number < 0:  # it has gone while it waited for its turn: no need to work for it
            raise SecurityError("E_LOGIN_GONE", "the client left before it was its turn", fatal=True)
        return self._broker.guard.log_in(hello, connection.address, certificate)

    def _logged_in(self, connection: ClientConnection, hello: Hello, principal: Principal) -> None:
        number, client_id = connection.number, hello.client_id
        if not self._broker.guard.open:
            if self._broker.clients.per_user[principal.name] >= self._broker.limits.connections_per_user_max:
                self._broker.clients.turn_away(connection, "too many connections of this user")
                return
            # Clients choose their ids. What one user keeps here must not be another's for the asking.
            client_id = f"{principal.name}/{client_id}"
        connection.logged_in = True
        self._broker.clients.per_user[principal.name] += 1
        connection.user = principal.name
        longest_ms = self._broker.limits.heartbeat_ms
        connection.heartbeat_ms, connection.beat_ms = connection.session.heartbeats(hello, longest_ms)
        if connection.beat_ms:
            self._broker.clients.beating.add(connection)
        self._broker.node.connected(number, principal, client_id)
        admission = self._broker.admission
        asks = not self._broker.guard.open or (admission is not None and admission.refuses)
        self._broker.forwarder.log_in(number, self._broker.limits.frame_bytes_max, asks)
        welcome = connection.session.welcome(
            {
                "server": self._broker.name,
                "broker": self._broker.settings.broker_id,
                "publisher": next(self._publishers),
                "time_ms": self._broker.now_ms(),
                "delta_ms": self._delta_ms(connection, hello),
                "frame_max": self._broker.limits.frame_bytes_max,
                "heartbeat_ms": connection.heartbeat_ms,
                "subscriptions_max": self._broker.settings.subscriptions_max,
            }
        )
        self._broker.forwarder.send(number, welcome)
        flags = self._broker.forwarder.handled(number, self._broker.now_ms())
        if not flags & BLOCKED:
            connection.resume_reading()
        self._broker.react(connection, flags, flush=False)

    # --- clocks ---------------------------------------------------------------------------------------------------

    def _delta_ms(self, connection: ClientConnection, hello: Hello) -> int:
        """δ, what the client has to add to its clock; from now on it is watched, if anything is recorded here."""
        tolerance_ms = self._broker.node.tracking.skew_ms
        if not hello.time_ms or not isinstance(connection.session, ClockSession):
            return 0
        connection.skew = SkewWatch(0 if tolerance_ms is None else tolerance_ms)
        if tolerance_ms is not None:
            self._broker.forwarder.watch_clock(connection.number, tolerance_ms)
        return connection.skew.connect(hello.time_ms, self._broker.now_ms()).delta_ms

    def correct(self, connection: ClientConnection, sent_ms: int) -> None:
        """A message came with a time that is off by more than T_s: tell the client, once until it confirms."""
        assert connection.skew is not None
        assert isinstance(connection.session, ClockSession)
        correction = connection.skew.observe(sent_ms, self._broker.now_ms())
        if correction is None:  # it is not any more
            self._watch(connection)
        else:
            self._broker.forwarder.send(connection.number, connection.session.clock(correction))

    def confirmed(self, connection: ClientConnection, number: int) -> None:
        """Messages after this one have the corrected time."""
        try:
            if connection.skew is None:
                raise RemoteProtocolError("E_SKEW_CONFIRM", "no correction was sent")
            connection.skew.confirm(number)
        except RemoteProtocolError as error:
            self._broker.clients.fail(connection, error)
        else:
            self._watch(connection)

    def _watch(self, connection: ClientConnection) -> None:
        assert connection.skew is not None
        self._broker.forwarder.watch_clock(connection.number, connection.skew.tolerance_ms)
