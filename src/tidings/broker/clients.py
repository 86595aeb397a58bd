"""Who is connected, how many of whom, and how a connection ends.

What ends one is said to the client first; then the connection closes when that is written. Nothing is added to its
output meanwhile.
"""

import logging
from collections import Counter
from collections.abc import Callable

from tidings.broker.connection import ClientConnection
from tidings.broker.crowd import Crowd
from tidings.broker.gateway_connection import GatewayConnection
from tidings.broker.logs import note
from tidings.errors import LimitError, RemoteProtocolError, SecurityError, TidingsError
from tidings.kernel.forwarder import Forwarder
from tidings.node.requests import Accepted, Answer

log = logging.getLogger("tidings.broker")


class Clients:
    def __init__(
        self, forwarder: Forwarder, crowd: Crowd, left: Callable[[int], None], flush: Callable[[], None]
    ) -> None:
        """`left`: the node is to forget this connection. `flush`: write output."""
        self.connections: dict[int, ClientConnection] = {}
        self.gateways: set[GatewayConnection] = set()  # those of them that want to be told the time
        self.beating: set[ClientConnection] = set()  # those that want to hear from us every now and then
        self.per_user: Counter[str] = Counter()
        self.protocol_errors: Counter[str] = Counter()  # by code
        self.crowd = crowd
        self.closed = False  # nobody else is let in
        self._forwarder = forwarder
        self._left = left
        self._flush = flush

    def opened(self, connection: ClientConnection) -> None:
        room = self.crowd.enter(connection.address)
        connection.number = self._forwarder.open()
        connection.session.opened(self._forwarder, connection.number)
        self.connections[connection.number] = connection
        if not room or self.closed:
            self.turn_away(connection, "too many connections")

    def turn_away(self, connection: ClientConnection, reason: str) -> None:
        self.crowd.refused += 1
        error = LimitError("E_CONNECTIONS", reason, fatal=True)
        self._forwarder.send(connection.number, connection.session.error(error))
        self.close(connection)

    def lost(self, connection: ClientConnection) -> None:
        """Its socket is gone."""
        number = connection.number
        del self.connections[number]
        self.beating.discard(connection)
        connection.number = -1
        self.crowd.leave(connection.address)
        if connection.logged_in:
            _one_less(self.per_user, connection.user)
        try:
            self._left(number)
        finally:
            self._forwarder.close(number)

    def answer(self, connection: ClientConnection, answer: Answer) -> None:
        if connection.closing and connection.session.ended:
            return
        if isinstance(answer, Accepted):
            self._forwarder.confirm(connection.number, answer.receipts)
        elif data := connection.session.answer(answer):
            self._forwarder.send(connection.number, data)
        if connection.session.ended:
            self.close(connection, linger=True)

    def fail(self, connection: ClientConnection, error: TidingsError, receipt: int = 0) -> None:
        """The stream is broken: say why, and close."""
        fatal = RemoteProtocolError(error.code, error.reason, position=error.position)
        if not isinstance(error, SecurityError):
            self.protocol_errors[error.code] += 1
            note(log, logging.INFO, "protocol error", address=connection.address, error=error)
        self._forwarder.send(connection.number, connection.session.error(fatal, receipt))
        self.close(connection, linger=True)

    def end(self, connection: ClientConnection, code: str, reason: str) -> None:
        if connection.closing:
            return
        self._forwarder.send(connection.number, connection.session.close(code, reason))
        self.close(connection)

    def end_all(self, code: str, reason: str, *, users: frozenset[str] | None = None) -> int:
        """End the connections of these users (None: all); they may connect again, under what applies now."""
        ended = [one for one in self.connections.values() if users is None or (one.logged_in and one.user in users)]
        for connection in ended:
            self.end(connection, code, reason)
        return len(ended)

    def close(self, connection: ClientConnection, *, linger: bool = False) -> None:
        """Close after what is in its output, to which nothing is added now. `linger`: go on reading, and throw away
        what comes, or the system would answer it with a reset, which overtakes our last words."""
        if connection.closing:
            return
        connection.begin_closing(linger=linger)
        if linger:
            self._forwarder.ignore(connection.number)
        self._left(connection.number)
        self._flush()
        if connection.number >= 0 and not self._forwarder.output_bytes(connection.number):
            connection.close()  # it had no output, so the flush did not come by


def _one_less(counts: dict[str, int], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
