"""STOMP over WebSocket: a JavaScript client that others wrote, the handshake, and what RFC 6455 asks of a server."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import CloseCode
from websockets.typing import Origin, Subprotocol

from tidings.protocols.websocket.frames import WebSocketLayer
from tidings.testing.local_broker import BrokerThread

ROOT = Path(__file__).parents[4]
SECONDS = 60
CONNECT = "CONNECT\naccept-version:1.2\nhost:x\n\n\0"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


def test_a_javascript_client(broker: BrokerThread) -> None:
    subprocess.run([ROOT / "scripts" / "node-packages"], check=True, timeout=300)
    node = shutil.which("node")
    assert node is not None, "make setup installs it"
    script = shutil.copy(
        ROOT / "tests" / "integration" / "protocols" / "node" / "client.mjs", ROOT / "build" / "node" / "client.mjs"
    )
    url = f"ws://127.0.0.1:{broker.websocket_port}"
    done = subprocess.run([node, script, url], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["version"] == "1.2"
    assert seen["selected"] == ["20.5", "300"]
    assert seen["bodies"] == [[0, 255, 0, 10], list(("grüße " * 3).encode())]
    assert seen["redelivered"] == ["true"]
    assert seen["transacted"] == ["yes"]
    assert seen["error"] == "E_SELECTOR_SYNTAX"
    assert len(seen["receipts"]) == 4


def run(work: object) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await work  # type: ignore[misc]

    asyncio.run(bounded())


def stomp_url(broker: BrokerThread) -> str:
    return f"ws://127.0.0.1:{broker.websocket_port}"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["v10.stomp", "v12.stomp"], "v12.stomp"), (["v11.stomp"], "v11.stomp"), (["chat"], None), ([], None)],
)
def test_subprotocols(broker: BrokerThread, offered: list[str], chosen: str | None) -> None:
    async def check() -> None:
        wanted = [Subprotocol(one) for one in offered] or None
        async with connect(stomp_url(broker), subprotocols=wanted) as socket:
            assert socket.subprotocol == chosen
            await socket.send(CONNECT)
            assert str(await socket.recv()).startswith("CONNECTED\n")

    run(check())


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://pages.example", True),
        ("https://pages.example.evil", False),
        ("http://evil.example", False),
        ("null", False),
        ("http://[::1", False),
        (None, True),
    ],
)
def test_origins(broker: BrokerThread, origin: str | None, allowed: bool) -> None:
    async def check() -> None:
        coming = connect(stomp_url(broker), origin=None if origin is None else Origin(origin))
        if allowed:
            async with coming as socket:
                await socket.send(CONNECT)
                assert str(await socket.recv()).startswith("CONNECTED\n")
        else:
            with pytest.raises(InvalidStatus) as refused:
                await coming
            assert refused.value.response.status_code == 403

    run(check())


def test_frames_of_stomp_may_be_cut_into_messages_anywhere(broker: BrokerThread) -> None:
    async def check() -> None:
        async with connect(stomp_url(broker)) as socket:
            for character in CONNECT:
                await socket.send(character)
            assert str(await socket.recv()).startswith("CONNECTED\n")
            both = "SUBSCRIBE\nid:1\ndestination:/topic/w\n\n\0SEND\ndestination:/topic/w\n\nhi\0"
            await socket.send([both[:30], both[30:]])  # one message in two fragments
            assert str(await socket.recv()).endswith("\n\nhi\0")

    run(check())


@pytest.mark.parametrize(
    ("first", "code"),
    [(b"\x81\x85\0\0\0\0\xff\xff\xff\xff\xff", CloseCode.INVALID_DATA), (b"\x81\x05hello", CloseCode.PROTOCOL_ERROR)],
)
def test_broken_frames_end_the_connection(broker: BrokerThread, first: bytes, code: int) -> None:
    async def check() -> None:
        async with connect(stomp_url(broker)) as socket:
            socket.transport.write(first)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == code

    run(check())


def test_what_is_no_handshake_is_refused(broker: BrokerThread) -> None:
    async def check() -> None:
        plain, folded = b"GET / HTTP/1.1\r\nHost: x", b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b"
        for request in (plain, folded, b"HELLO\naccept-version:1.2\n\n\0" * 3, b"\0" * 50):
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.websocket_port)
            writer.write(request + b"\r\n\r\n")
            answer = await reader.read()
            status = b"426" if request == plain else b"400"
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.count(b"HTTP/") == 1
            writer.close()
            await writer.wait_closed()

    run(check())


def handshake(version: int = 13) -> tuple[WebSocketLayer, bytes]:
    layer = WebSocketLayer()
    key = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    key += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: %d\r\n\r\n" % version
    assert layer.receive(key) == b""
    return layer, layer.to_send()


def test_who_speaks_another_version_is_told_ours() -> None:
    _, answer = handshake(8)
    assert answer.startswith(b"HTTP/1.1 426 ")
    assert b"\r\nSec-WebSocket-Version: 13\r\n" in answer


def test_a_text_that_is_written_in_two_pieces_is_text() -> None:
    layer, _ = handshake()
    whole = "RECEIPT\nreceipt-id:é\n\n\0".encode()
    middle = whole.index(b"\xa9")
    assert [layer.wrap(piece)[0] for piece in (whole[:middle], whole[middle:])] == [0x81, 0x81]


def test_before_the_log_in_messages_are_short() -> None:
    layer, answer = handshake()
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert layer.receive(b"\x82\xff" + (100_000).to_bytes(8, "big") + b"\0\0\0\0") == b""
    assert layer.ended
    assert layer.to_send()[2:4] == CloseCode.MESSAGE_TOO_BIG.to_bytes(2, "big")
