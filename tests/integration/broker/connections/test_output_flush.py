"""Output reaches each socket in the order in which the forwarder gave it."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from tidings.broker.connections.connection import ClientConnection, ConnectionServices
from tidings.broker.connections.output_flush import FLUSH_BYTES, OutputFlush
from tidings.broker.links.link_batching import LinkBatching
from tidings.broker.links.link_connection import LinkConnection, LinkTable
from tidings.broker.tuning.read_moderation import ReadModeration
from tidings.kernel.forwarder import Forwarder
from tidings.protocols.native.session import NativeSession


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


class Link(LinkConnection):
    """A link's connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__(cast(LinkTable, SimpleNamespace(batching=lambda: LinkBatching(0.0))), "to:1")
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def flushing(rounds: list[list[tuple[int, bytes, int]]]) -> tuple[OutputFlush, dict[int, Link]]:
    made, links = OutputFlush(cast(Forwarder, Plane(rounds)), lambda: None), {1: Link(), 2: Link()}
    made.ends.update(links)
    return made, links


def test_a_link_with_more_to_write_lets_nothing_overtake_what_others_get() -> None:
    async def check() -> None:
        made, links = flushing([[(1, b"first ", 7), (2, b"first ", 0)], [(1, b"second", 0), (2, b"second", 0)]])
        made.now()
        await asyncio.sleep(0)
        assert [link.written for link in links.values()] == [b"first second"] * 2

    asyncio.run(check())


def test_a_write_that_the_event_loop_refuses_spoils_nobody_elses() -> None:
    """The event loop has closed a client's transport without a word."""
    gone: list[ClientConnection] = []

    def refuse(data: bytes) -> None:
        raise RuntimeError("the handler is closed")

    class Table:
        def opened(self, connection: ClientConnection) -> None: ...

        def lost(self, connection: ClientConnection) -> None:
            gone.append(connection)

        def react(self, connection: ClientConnection, flags: int, *, flush: bool) -> None: ...

        def foreign(self, connection: ClientConnection, why: str) -> None: ...

    async def check() -> None:
        made, links = flushing([[(3, b"lost", 0), (1, b"first", 0), (2, b"first", 0)]])
        plane = Forwarder()
        services = ConnectionServices(plane, Table(), made, ReadModeration(plane.received), memoryview(b""))
        dead = ClientConnection(services, NativeSession())
        closed: Any = SimpleNamespace(
            write=refuse,
            abort=lambda: None,
            set_write_buffer_limits=lambda **_: None,
            get_extra_info=lambda name: None,
        )
        dead.connection_made(closed)
        made.ends[3] = dead
        made.now()
        assert [link.written for link in links.values()] == [b"first"] * 2
        await asyncio.sleep(0)
        assert gone == [dead]

    asyncio.run(check())
