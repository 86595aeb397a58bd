"""The sockets of all clients: counted, read from as the forwarding plane allows, and closed as the engine asks."""

import logging
import time
from collections.abc import Callable
from typing import assert_never

from tidings.broker.connections.connection import ClientConnection, Silence
from tidings.broker.connections.connection_limits import ConnectionLimits
from tidings.broker.connections.gateway_connection import GatewayConnection
from tidings.broker.connections.output_flush import OutputFlush
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.errors import SecurityError
from tidings.kernel.clock import now_ms
from tidings.kernel.forwarder import Flag, Forwarder
from tidings.node.effects import ClientReady, CloseClient
from tidings.node.inputs import ClientLost, ClientOpened, EndClient, FailClient, Input, PingClient, RefuseClient
from tidings.node.limits import BrokerLimits

log = logging.getLogger("tidings.broker")

TURN_SECONDS = 0.01  # of a turn, for input that was put off
BRISK_MS = 5_000  # who promised heartbeats this often is looked at several times a second
EVENTS, BLOCKED = int(Flag.EVENTS), int(Flag.BLOCKED)


class ClientSockets:
    """`step`: an input for the engine. `handle_events`: the plane has some. `next_turn`: to be called soon, but after
    others were read."""

    def __init__(
        self,
        forwarder: Forwarder,
        connection_limits: ConnectionLimits,
        flushing: OutputFlush,
        step: Callable[[Input], None],
        handle_events: Callable[[], None],
        next_turn: Callable[[], None],
        lines: LogRateLimit,
    ) -> None:
        self.connections: dict[int, ClientConnection] = {}
        self.protocols: list[str] = []  # in the order in which the forwarding plane counts their messages
        self.gateways: set[GatewayConnection] = set()  # those of them that have timers of their own
        self.beating: set[ClientConnection] = set()  # those that asked for heartbeats
        self.brisk: set[ClientConnection] = set()  # those that promised frequent ones
        self.connection_limits = connection_limits
        self.closed = False  # new connections are refused
        self._forwarder, self._flushing = forwarder, flushing
        self._step, self._handle_events, self._next_turn, self._lines = step, handle_events, next_turn, lines

    # --- called by connections ----------------------------------------------------------------------------------------

    def opened(self, connection: ClientConnection) -> None:
        room = self.connection_limits.enter(connection.address)
        if connection.protocol not in self.protocols:
            self.protocols.append(connection.protocol)
        connection.number = number = self._forwarder.open(self.protocols.index(connection.protocol))
        self.connections[number] = self._flushing.ends[number] = connection
        self._step(ClientOpened(number, connection.session, connection.address))
        if not room or self.closed:
            self._step(RefuseClient(number, "too many connections"))

    def foreign(self, connection: ClientConnection, why: str) -> None:
        """It speaks a protocol that its port does not."""
        self._lines.note(log, logging.WARNING, f"wrong protocol: {why}", connection.address)

    def lost(self, connection: ClientConnection) -> None:
        """Its socket is gone."""
        number = connection.number
        if number not in self.connections:
            return
        try:
            self._step(ClientLost(number))
        finally:
            del self.connections[number], self._flushing.ends[number]
            self.beating.discard(connection)
            self.brisk.discard(connection)
            connection.number = -1
            self.connection_limits.leave(connection.address)
            self._forwarder.close(number)
        self.after()

    def react(self, connection: ClientConnection, flags: int, *, flush: bool) -> None:
        """Follow up the flags that `feed` returned; `flush`: write the resulting output at once."""
        if flags & EVENTS:
            self._handle_events()
        if flags & BLOCKED and connection.number >= 0:
            # Handling events may have unblocked it: ask again, which also parses what was kept.
            if self._forwarder.resume(connection.number, now_ms()) & BLOCKED:
                connection.pause_reading()
            else:
                connection.resume_reading()
        self.after(flush=flush)

    def after(self, *, flush: bool = False) -> None:
        """Follow up whatever was just done: publishers to resume, output to write."""
        for number in self._forwarder.take_resumable():
            resumed = self.connections.get(number)
            if resumed is not None and not self._forwarder.resume(number, now_ms()) & BLOCKED:
                resumed.resume_reading()
        if self._forwarder.has_tired():
            self._next_turn()
        if not (self._forwarder.has_output() or self._forwarder.has_events()):
            return
        if flush:
            self._flushing.now()
        else:
            self._flushing.soon()

    def rest(self) -> None:
        """A new turn: go on with the input of those that have used up their share of an earlier one. Who does not get
        to it stays in the line."""
        end = time.monotonic() + TURN_SECONDS
        while (number := self._forwarder.rest()) >= 0:
            if not self._forwarder.resume(number, now_ms()) & BLOCKED:
                self.resume_reading(number)
            if time.monotonic() >= end:
                break

    # --- effects of the engine ----------------------------------------------------------------------------------------

    def ready(self, effect: ClientReady) -> None:
        connection = self.connections.get(effect.connection)
        if connection is None:  # of the management API: it has no socket
            return
        connection.logged_in, connection.user = True, effect.user
        connection.heartbeat_ms, connection.beat_ms = effect.silence_ms, effect.beat_ms
        if effect.beat_ms:
            self.beating.add(connection)
        if 0 < effect.silence_ms < BRISK_MS:
            self.brisk.add(connection)

    def resume_reading(self, number: int) -> None:
        if (connection := self.connections.get(number)) is not None:
            connection.resume_reading()

    def close(self, effect: CloseClient) -> None:
        connection = self.connections.get(effect.connection)
        if connection is None:
            return
        connection.begin_closing(linger=effect.linger)
        self._flushing.now()
        if connection.number >= 0 and not self._forwarder.output_bytes(connection.number):
            connection.close()  # it had no output, so the flush did not come by

    # --- the broker's -------------------------------------------------------------------------------------------------

    def end_all(self, code: str, reason: str, *, users: frozenset[str] | None = None) -> int:
        """End the connections of these users (None: all); they may connect again, under the current rules."""
        ended = [one for one in self.connections.values() if users is None or (one.logged_in and one.user in users)]
        for connection in ended:
            self._step(EndClient(connection.number, code, reason))
        return len(ended)

    def send_heartbeats(self, now: int) -> None:
        """Send the heartbeats that are due; called several times a second."""
        for connection in list(self.beating):
            if connection.beat_due(now):
                self._step(PingClient(connection.number))
        for gateway in list(self.gateways):
            gateway.alone(gateway.tick, now)

    def check_silence(self, now: int, limits: BrokerLimits, *, brisk: bool = False) -> None:
        """Pings clients that were silent for long, and cuts off those silent for too long.

        About once a second; for those that promised frequent heartbeats (`brisk`) several times a second."""
        for connection in list(self.brisk if brisk else self.connections.values()):
            connection.alone(self._check, connection, now, limits)

    def _check(self, connection: ClientConnection, now: int, limits: BrokerLimits) -> None:
        match silence := connection.silence(now, limits):
            case Silence.NO_LOGIN:
                reason = f"client did not log in within {limits.login_seconds:g} s"
                self._step(FailClient(connection.number, SecurityError("E_LOGIN_TIMEOUT", reason, fatal=True)))
            case Silence.LONG:
                if connection.ping_due(now):
                    self._step(PingClient(connection.number))
            case Silence.TOO_LONG:
                self._lines.note(log, logging.INFO, "client silent for too long, disconnected", connection.address)
                connection.abort()
            case Silence.NONE:
                pass
            case _:
                assert_never(silence)
