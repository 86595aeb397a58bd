"""MQTT with the JavaScript client MQTT.js: over TCP, TLS and WebSocket, in both versions."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hardening.support.certificates import Authority
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.typing import Subprotocol

from tidings.broker.config.tls import TlsTable
from tidings.broker.security.tls import server_context
from tidings.node.settings import NodeSettings
from tidings.testing.local_broker import BrokerThread

ROOT = Path(__file__).parents[4]
SECONDS = 120
CONNECT = bytes.fromhex("101000044d51545404020000000477656273")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[BrokerThread]:
    tls = server_context(TlsTable(certificate=str(authority.sign("broker", "server.pem"))))
    with BrokerThread(NodeSettings(last_values=True), mqtt_tls=tls) as running:
        yield running


@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws"])
def test_mqtt_js(broker: BrokerThread, authority: Authority, scheme: str, version: str) -> None:
    subprocess.run([ROOT / "scripts" / "node-packages"], check=True, timeout=300)
    node = shutil.which("node")
    assert node is not None, "make setup installs it"
    script = shutil.copy(ROOT / "tests/integration/protocols/node/mqtt.mjs", ROOT / "build/node/mqtt.mjs")
    ports = {"mqtt": broker.mqtt_port, "mqtts": broker.mqtt_tls_port, "ws": broker.mqtt_websocket_port}
    arguments = [f"{scheme}://127.0.0.1:{ports[scheme]}", version]
    if scheme == "mqtts":
        arguments.append(str(authority.path))
    done = subprocess.run([node, script, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["present"] == [True]
    assert seen["messages"] == ["1", "2"]
    assert seen["retained"] == [["last", True]]
    assert seen["filtered"] == (["50"] if version == "5" else [])
    assert seen["properties"] == ({"a": "b"} if version == "5" else {})


def run(work: object) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work  # type: ignore[misc]

    asyncio.run(bounded())


def test_packets_may_be_cut_and_joined_and_must_be_binary(broker: BrokerThread) -> None:
    """[MQTT-6.0.0-1], [MQTT-6.0.0-2], [MQTT-6.0.0-4]."""
    url = f"ws://127.0.0.1:{broker.mqtt_websocket_port}"

    async def cut() -> None:
        async with connect(url, subprotocols=[Subprotocol("mqtt")]) as socket:
            assert socket.subprotocol == "mqtt"
            for place in range(len(CONNECT)):
                await socket.send(CONNECT[place : place + 1])
            assert await socket.recv() == b"\x20\x02\0\0"
            await socket.send(b"\xc0\0\xc0\0")
            assert await socket.recv() == b"\xd0\0\xd0\0"

    async def text() -> None:
        async with connect(url, subprotocols=[Subprotocol("mqtt")]) as socket:
            await socket.send("text")
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == CloseCode.UNSUPPORTED_DATA

    run(cut())
    run(text())
