"""Output reaches each socket in the order in which the forwarder gave it."""

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from tidings.broker.connection import ClientConnection
from tidings.broker.flushing import FLUSH_BYTES, Flushing
from tidings.broker.links import BrokerLinks
from tidings.broker.server import Broker


class Plane:
    """A forwarder with this output for each round: connection, bytes, how many are left."""

    def __init__(self, rounds: list[list[tuple[int, bytes, int]]]) -> None:
        self._rounds = rounds

    def fresh_bytes(self) -> int:
        return FLUSH_BYTES + 1  # there is more already

    def write_all(self, bytes_max: int, now_ms: int) -> list[tuple[int, bytes, int]]:
        return self._rounds.pop(0) if self._rounds else []

    def set_writable(self, number: int, writable: bool) -> None: ...
    def has_events(self) -> bool:
        return False

    def has_resumable(self) -> bool:
        return False


class Socket:
    writable, sent_bytes = True, 0

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


class Dead:
    """A client's connection whose transport the event loop has closed without a word."""

    _finished, _direct, writable, closing = False, None, True, False

    def __init__(self, host: "Host") -> None:
        self.broker, self._transport = host, SimpleNamespace(write=self._refuse, abort=lambda: None)

    def _refuse(self, data: bytes) -> None:
        raise RuntimeError("the handler is closed")

    def write(self, data: bytes) -> None:
        ClientConnection.write(cast(ClientConnection, self), data)


class Host:
    """A broker with two links, of which the first has more output than one write takes."""

    now_ms = staticmethod(lambda: 0)

    def __init__(self, rounds: list[list[tuple[int, bytes, int]]]) -> None:
        self.forwarder, self.connections = Plane(rounds), dict[int, Any]()
        self.sockets = {1: Socket(), 2: Socket()}
        self.links = self.loop = self.clients = self
        self._by_number, self._broker, self._forwarder = self.sockets, self, self.forwarder  # as links see it
        self.later: list[Any] = []
        self.gone: list[Any] = []
        self.flushing = Flushing(cast(Broker, self))
        self.flush_soon = self.flushing.soon

    def call_soon(self, call: Any, *arguments: Any) -> None:
        self.later.append(partial(call, *arguments))

    def lost(self, connection: Any) -> None:
        self.gone.append(connection)

    def write(self, number: int, data: bytes, left: int) -> None:
        BrokerLinks.write(cast(BrokerLinks, self), number, data, left)


def test_a_link_with_more_to_write_lets_nothing_overtake_what_others_get() -> None:
    host = Host([[(1, b"first ", 7), (2, b"first ", 0)], [(1, b"second", 0), (2, b"second", 0)]])
    host.flushing.now()
    while host.later:
        host.later.pop(0)()
    assert {number: socket.written for number, socket in host.sockets.items()} == dict.fromkeys((1, 2), b"first second")


def test_a_write_that_the_event_loop_refuses_spoils_nobody_elses() -> None:
    host = Host([[(3, b"lost", 0), (1, b"first", 0), (2, b"first", 0)]])
    host.connections[3] = dead = Dead(host)
    host.flushing.now()
    assert {number: socket.written for number, socket in host.sockets.items()} == dict.fromkeys((1, 2), b"first")
    while host.later:
        host.later.pop(0)()
    assert host.gone == [dead]
