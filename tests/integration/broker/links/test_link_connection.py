"""What a link's connection writes when: real time in an event loop, but no assertion on how long anything takes."""

import asyncio
from typing import cast

from hardening.support.links import eventually

from tidings.broker.links.link_batching import LinkBatching
from tidings.broker.links.link_connection import GATHER_BYTES, SEGMENT_BYTES, LinkConnection
from tidings.broker.links.links import BrokerLinks
from tidings.model.codec import encode_frame

MESSAGE, CONTROL = 0x41, 0x40
LONG_MS = 1e9  # so that nothing goes because its time is over


class Written(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[bytes] = []

    def write(self, data: object) -> None:
        self.blocks.append(bytes(cast(bytes, data)))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Links:
    """As much of BrokerLinks as a connection asks for."""

    def __init__(self, gather_ms: float) -> None:
        self._gather_ms = gather_ms
        self.ended: list[str] = []

    def batching(self) -> LinkBatching:
        return LinkBatching(self._gather_ms)

    def lost(self, connection: LinkConnection, reason: str, code: str = "") -> None:
        self.ended.append(reason)

    def opened(self, connection: LinkConnection) -> None: ...

    def delay_ms(self, connection: LinkConnection) -> float:
        return 0.0


def linked(gather_ms: float) -> tuple[LinkConnection, list[bytes]]:
    connection, transport = LinkConnection(cast(BrokerLinks, Links(gather_ms)), "to:1"), Written()
    connection.connection_made(transport)
    return connection, transport.blocks


def message(size: int = 100) -> bytes:
    return encode_frame(MESSAGE, bytes(size))


def test_on_a_busy_link_messages_travel_together() -> None:
    async def check() -> None:
        connection, blocks = linked(LONG_MS)
        connection._wrote_at = asyncio.get_running_loop().time()  # just now
        for _ in range(3):
            connection.write(message())
        assert blocks == []
        connection.write(message(GATHER_BYTES))
        assert blocks == [message() * 3 + message(GATHER_BYTES)]
        connection.write(message())
        connection.write(encode_frame(CONTROL, b"ping"))  # is not kept waiting, nor overtakes
        assert blocks[1:] == [message() + encode_frame(CONTROL, b"ping")]
        connection.write(message())
        connection.close()
        assert blocks[2:] == [message()]

    asyncio.run(check())


def test_full_segments_do_not_wait() -> None:
    async def check() -> None:
        connection, blocks = linked(LONG_MS)
        connection._wrote_at = asyncio.get_running_loop().time()
        sent = [message(500 + size) for size in range(9)]
        for one in sent:
            connection.write(one)
        assert blocks
        assert {len(block) for block in blocks} == {SEGMENT_BYTES}
        connection.close()
        assert b"".join(blocks) == b"".join(sent)

    asyncio.run(check())


def test_after_a_pause_a_message_goes_at_once() -> None:
    async def check() -> None:
        connection, blocks = linked(20.0)
        connection.write(message())
        assert blocks == [message()]
        connection.write(message())
        connection.write(b"x")  # the rest of a frame may be as short
        await eventually(lambda: b"".join(blocks) == message() * 2 + b"x")

    asyncio.run(check())


def test_without_gathering_everything_goes_at_once() -> None:
    async def check() -> None:
        connection, blocks = linked(0.0)
        connection.write(message())
        connection.write(message())
        assert blocks == [message()] * 2

    asyncio.run(check())


class Dead(Written):
    """As uvloop leaves a transport whose dial was cancelled: it does not say that it is closed."""

    def write(self, data: object) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")


def test_a_write_that_the_event_loop_refuses_is_the_loss_of_this_connection() -> None:
    async def check() -> None:
        links = Links(0.0)
        connection = LinkConnection(cast(BrokerLinks, links), "to:1")
        connection.connection_made(Dead())
        connection.write(message())
        assert links.ended == []  # not while others are being written to
        await eventually(lambda: bool(links.ended))
        assert links.ended == ["unable to perform operation; the handler is closed"]
        connection.close()

    asyncio.run(check())
