"""Kills a broker under MQTT clients whose sessions survive: QoS 1 loses nothing, QoS 2 neither loses nor doubles.

    python -m hardening.kills.mqtt KILLS [SEED] [FILE]

For each quality of service one client publishes and one subscribes. They keep their own session state in memory, as
the standard says, which not all libraries do: paho-mqtt 2.1 forgets PUBREC at the second attempt to connect again.
"""

import asyncio
import multiprocessing
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hardening.record import noted
from hardening.support.mqtt_driver import MqttClientModel
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.node.settings import NodeSettings
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.properties import Property
from tidings.protocols.mqtt.session import MqttNativeSession, MqttSession
from tidings.store.sqlite.store import SqliteStore

START_SECONDS = 60.0
SETTLE_SECONDS = 120.0
UNDER_WAY = 50  # publications that wait for their confirmation
context = multiprocessing.get_context("forkserver")


def serve(path: str, port: int, ready: Connection) -> None:
    """The body of the broker process; it ends by being killed."""

    async def main() -> None:
        broker = Broker(NodeSettings(last_values=True), SqliteStore(path))
        await broker.start([])
        gateway = partial(MqttSession, MqttClients())
        ready.send(await broker.listen(ListenerSettings(MqttNativeSession, port=port, make_gateway=gateway)))
        await asyncio.Event().wait()

    asyncio.run(main())


@dataclass(slots=True)
class MqttBrokerProcess:
    path: Path
    port: int = 0
    process: Any = None

    def start(self) -> None:
        mine, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=serve, args=(str(self.path), self.port, theirs), daemon=True)
        self.process.start()
        theirs.close()
        assert mine.poll(START_SECONDS), "the broker does not start"
        self.port = mine.recv()
        mine.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


class SocketLine:
    """A client's connection to the broker process."""

    def __init__(self, port: int) -> None:
        self.broken = False
        self._output = b""
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)
            self._socket.setblocking(False)
        except OSError:
            self.broken = True

    @property
    def output(self) -> bytes:
        """Bytes received so far."""
        while not self.broken:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self._output += data
            if not data:
                self.lose()
        return self._output

    @output.setter
    def output(self, left: bytes) -> None:
        self._output = left

    def receive(self, data: bytes) -> None:
        if self.broken:
            return
        try:
            self._socket.setblocking(True)
            self._socket.sendall(data)
            self._socket.setblocking(False)
        except OSError:
            self.lose()

    def lose(self) -> None:
        if not self.broken:
            self.broken = True
            self._socket.close()


@dataclass(slots=True)
class ProcessPlace:
    process: MqttBrokerProcess

    def open_line(self) -> SocketLine:
        return SocketLine(self.process.port)

    def pump(self) -> None:
        time.sleep(0.001)  # it works in a process of its own


@dataclass(slots=True)
class MqttLedger:
    """A publisher and a subscriber of one quality of service."""

    qos: int
    reader: MqttClientModel
    writer: MqttClientModel
    published: int = 0

    @property
    def seen(self) -> Counter[int]:
        return Counter(int(one.payload) for one in self.reader.messages)

    @property
    def lost(self) -> int:
        return len(set(map(int, self.writer.confirmed)) - self.seen.keys())

    @property
    def doubled(self) -> int:
        return sum(count - 1 for count in self.seen.values())

    def work(self, *, publish: bool) -> None:
        for one in (self.writer, self.reader):
            if not one.connected:
                one.connect()
            one.flush()
            one.read()
        if publish and self.writer.present and len(self.writer.unfinished) < UNDER_WAY:
            self.writer.publish(f"kills/{self.qos}", str(self.published).encode(), self.qos)
            self.published += 1


def _ledger(place: ProcessPlace, qos: int) -> MqttLedger:
    """Both clients have sessions, and the subscriber has subscribed."""
    limit = {Property.SESSION_EXPIRY: 3600, Property.RECEIVE_MAXIMUM: UNDER_WAY}
    reader, writer = (
        MqttClientModel(place, f"{name}-{qos}", properties=limit, ids=1000) for name in ("reader", "writer")
    )
    reader.subscribe(f"kills/{qos}", qos)
    for one in (reader, writer):
        subscribe = list(one._sent)
        one.connect()
        one._sent.extend(subscribe)
        end = time.monotonic() + START_SECONDS
        while len(one.packets) <= len(subscribe):
            assert time.monotonic() < end, "no answer"
            one.flush()
            one.read()
            place.pump()
        one.connect()  # the session is there from now on
    return MqttLedger(qos, reader, writer)


def run(kills: int, *, seed: int) -> dict[int, MqttLedger]:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        broker = MqttBrokerProcess(Path(folder) / "store.db")
        broker.start()
        ledgers = {qos: _ledger(ProcessPlace(broker), qos) for qos in (1, 2)}
        try:
            for _ in range(kills):
                _work(ledgers, rng.uniform(0.1, 0.6))
                broker.kill()
                broker.start()
            _work(ledgers, 0.3)
            _settle(ledgers)
        finally:
            for one in ledgers.values():
                one.reader.lose()
                one.writer.lose()
            broker.kill()
    return ledgers


def _work(ledgers: dict[int, MqttLedger], seconds: float, *, publish: bool = True) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one in ledgers.values():
            one.work(publish=publish)
        time.sleep(0.0005)


def _settle(ledgers: dict[int, MqttLedger]) -> None:
    """Wait until all is confirmed and has come, and then a little for what comes twice."""
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end and any(one.writer.unfinished or one.lost for one in ledgers.values()):
        _work(ledgers, 0.05, publish=False)
    _work(ledgers, 0.5, publish=False)


def total(ledgers: dict[int, MqttLedger]) -> dict[str, int]:
    return {
        "published": sum(one.published for one in ledgers.values()),
        "unconfirmed": sum(len(one.writer.unfinished) for one in ledgers.values()),
        "lost": sum(one.lost for one in ledgers.values()),
        "doubled_qos_1": ledgers[1].doubled,
        "doubled_qos_2": ledgers[2].doubled,
    }


def main(arguments: list[str]) -> None:
    kills, seed = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1
    target = arguments[2] if len(arguments) > 2 else None
    found = noted(target, "MQTT sessions", lambda: total(run(kills, seed=seed)), kills=kills, seed=seed)
    sys.stdout.write(f"{found}\n")
    if found["lost"] or found["unconfirmed"] or found["doubled_qos_2"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
