"""Kills a broker under MQTT clients whose sessions survive: QoS 1 loses nothing, QoS 2 neither loses nor doubles.

    python -m hardening.kills.mqtt KILLS [SEED] [FILE]

The clients are paho-mqtt's, one that publishes and one that subscribes for each quality of service; they connect again
by themselves, and keep their own session state in memory. paho-mqtt 2.1 forgets at the second attempt to connect that it
had PUBREC for a message, and publishes it again; `ExactClient` does not.
"""

import asyncio
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MessageState, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from hardening.record import noted
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.server import Broker
from tidings.node.settings import NodeSettings
from tidings.protocols.mqtt.clients import MqttClients
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


@dataclass(slots=True)
class MqttLedger:
    """Counts of what was published and what came, of one quality of service."""

    qos: int
    published: int = 0
    confirmed: set[int] = field(default_factory=set)
    seen: Counter[int] = field(default_factory=Counter)

    @property
    def lost(self) -> int:
        return len(self.confirmed - self.seen.keys())

    @property
    def doubled(self) -> int:
        return sum(count - 1 for count in self.seen.values())


class ExactClient(paho.Client):
    """A client that after PUBREC sends nothing but PUBREL, however often it has to connect [MQTT-4.3.3-6]."""

    def _messages_reconnect_reset_out(self) -> None:
        for message in self._out_messages.values():
            if message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                message.state = MessageState.MQTT_MS_WAIT_FOR_PUBCOMP
        super()._messages_reconnect_reset_out()


def _client(broker: MqttBrokerProcess, name: str) -> paho.Client:
    client = ExactClient(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
    client.reconnect_delay_set(0.02, 0.2)
    client.max_inflight_messages_set(UNDER_WAY)
    stays = Properties(PacketTypes.CONNECT)
    stays.SessionExpiryInterval = 3600
    client.connect("127.0.0.1", broker.port, clean_start=False, properties=stays)
    return client


def _start(broker: MqttBrokerProcess, ledger: MqttLedger) -> tuple[paho.Client, paho.Client]:
    """A subscriber, once it has subscribed, and a publisher."""
    topic, subscribed = f"kills/{ledger.qos}", threading.Event()
    reader = _client(broker, f"reader-{ledger.qos}")
    reader.on_connect = lambda client, *_: client.subscribe(topic, ledger.qos)
    reader.on_subscribe = lambda *_: subscribed.set()
    reader.on_message = lambda _, __, message: ledger.seen.update((int(message.payload),))
    reader.loop_start()
    assert subscribed.wait(START_SECONDS)
    writer, numbers = _client(broker, f"writer-{ledger.qos}"), dict[int, int]()
    lock = threading.Lock()

    def confirmed(_: object, __: object, mid: int, *___: object) -> None:
        with lock:
            ledger.confirmed.add(numbers.pop(mid))

    def publish() -> None:
        with lock:
            numbers[writer.publish(topic, str(ledger.published), ledger.qos).mid] = ledger.published
            ledger.published += 1

    writer.on_publish = confirmed
    writer.loop_start()
    writer.user_data_set((publish, numbers))
    return reader, writer


def run(kills: int, *, seed: int) -> dict[int, MqttLedger]:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        broker = MqttBrokerProcess(Path(folder) / "store.db")
        broker.start()
        ledgers = {qos: MqttLedger(qos) for qos in (1, 2)}
        clients = {qos: _start(broker, ledger) for qos, ledger in ledgers.items()}
        try:
            for _ in range(kills):
                _publish_for(clients, rng.uniform(0.1, 0.6))
                broker.kill()
                broker.start()
            _publish_for(clients, 0.3)
            _settle(ledgers)
        finally:
            for reader, writer in clients.values():
                for one in (reader, writer):
                    one.disconnect()
                    one.loop_stop()
            broker.kill()
    return ledgers


def _publish_for(clients: dict[int, tuple[paho.Client, paho.Client]], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _, writer in clients.values():
            publish, numbers = writer.user_data_get()
            if len(numbers) < UNDER_WAY:
                publish()
        time.sleep(0.001)


def _settle(ledgers: dict[int, MqttLedger]) -> None:
    """Wait until all is confirmed and has come, and then a little for what comes twice."""
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        if all(len(one.confirmed) == one.published and not one.lost for one in ledgers.values()):
            break
        time.sleep(0.05)
    time.sleep(1.0)


def total(ledgers: dict[int, MqttLedger]) -> dict[str, int]:
    return {
        "published": sum(one.published for one in ledgers.values()),
        "unconfirmed": sum(one.published - len(one.confirmed) for one in ledgers.values()),
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
