"""Connections of simulated MQTT clients: the gateway in front of a simulated broker, and a client that comes again.

MqttClientModel ──packets──► MqttSession (gateway) ──native frames──► SimBroker
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hardening.simulate.wire_ledger import Ledger, Party
from hardening.support.mqtt_driver import MqttClientModel
from tidings.errors import TidingsError
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.packets import V5
from tidings.protocols.mqtt.properties import Property
from tidings.protocols.mqtt.session import MqttSession
from tidings.protocols.session import Caller
from tidings.sim.broker import SimBroker
from tidings.sim.client import SimClient

PUMP_MS, FROZEN_MS = 0.5, 50.0
FRAME_BYTES_MAX = 1 << 20
ANSWERS_MAX = 6  # publications without an answer, at most


class MqttPlaces:
    """The state that the MQTT connections of a broker share, in each of its lives."""

    def __init__(self) -> None:
        self._clients: dict[tuple[int, int], MqttClients] = {}

    def of(self, router: int, life: int) -> MqttClients:
        return self._clients.setdefault((router, life), MqttClients())


@dataclass(slots=True, eq=False)
class GatewayClient(SimClient):
    """To its broker a native client; the frames that it gets go to a gateway."""

    hear: Callable[[bytes], None] = field(default=lambda data: None)

    def receive(self, data: bytes, now: float) -> None:
        self.hear(data)


def _numbered(client: GatewayClient, number: int, life: int) -> GatewayClient:
    client.number, client.life = number, life
    return client


class SimMqttLine:
    def __init__(self, party: "MqttParty", places: MqttPlaces) -> None:
        self._party, self._pumping, self._failed, self._over = party, False, False, False
        self.output = b""
        made: list[GatewayClient] = []

        def act(machine: SimBroker, now: float) -> list[Any]:
            made.append(GatewayClient(0))
            machine.open(now, lambda number, life: _numbered(made[0], number, life))
            return []

        party.call(act)
        self._client = made[0]
        self._client.hear = self._hear
        caller = Caller("", True, FRAME_BYTES_MAX, lambda *_: True, self._wake)
        self._gateway = MqttSession(places.of(party.router, self._client.life), caller)

    @property
    def broken(self) -> bool:
        broker = self._party.brokers.broker(self._party.router)
        return self._over or broker is None or broker.clients.get(self._client.number) is not self._client

    def _hear(self, data: bytes) -> None:
        """From the broker, which must not be called now."""
        try:
            self._gateway.frames(data, self._party.wall_ms)
        except TidingsError:
            self._failed = True
        self._wake()

    def _wake(self) -> None:
        if not self._pumping:
            self._pumping = True
            self._party.brokers.calendar.after(PUMP_MS, self._woken)

    def _woken(self) -> None:
        self._pumping = False
        broker = self._party.brokers.broker(self._party.router)
        if broker is not None and not self._party.there:
            self._pumping = True
            self._party.brokers.calendar.after(FROZEN_MS, self._woken)
        else:
            self.pump()

    def receive(self, data: bytes) -> None:
        if self.broken:
            return
        try:
            self._gateway.receive(data, self._party.wall_ms)
        except TidingsError:
            self._failed = True
        self.pump()

    def pump(self) -> None:
        """Pass on what the gateway has for client and broker."""
        if self._over:
            return
        self.output += self._gateway.take_output()
        if self.broken:
            self._end()
        elif frames := self._gateway.take_frames():
            self._party.call(lambda machine, now: machine.send(now, self._client, frames))
        if self._failed:
            self.lose()

    def lose(self) -> None:
        if self.broken or not self._party.there:
            return
        self._end()
        self._party.call(lambda machine, now: machine.disconnect(now, self._client))

    def _end(self) -> None:
        """The connection is gone; in the broker's memory this is known."""
        lost = self.broken
        self._over = True
        self._gateway.lost()
        if (frames := self._gateway.take_frames()) and not lost:
            self._party.call(lambda machine, now: machine.send(now, self._client, frames))


class MqttParty(Party):
    """A client with a session that outlives its connections, and perhaps its broker."""

    def __init__(self, ledger: Ledger, router: int, name: str, places: MqttPlaces, version: int = V5) -> None:
        super().__init__(ledger, router, name)
        self._places, self._lines = places, list[SimMqttLine]()
        properties = {Property.SESSION_EXPIRY: 3600, Property.RECEIVE_MAXIMUM: self.rng.choice((1, 3, 100))}
        self.model = MqttClientModel(self, name, version, properties=properties if version == V5 else {})

    @property
    def wall_ms(self) -> int:
        return int(self.brokers.calendar.now + self.brokers.hosts[self.router].ahead_ms)

    def open_line(self) -> SimMqttLine:
        self._lines = [one for one in self._lines if not one.broken]
        self._lines.append(SimMqttLine(self, self._places))
        return self._lines[-1]

    def pump(self) -> None:
        """The calendar does so."""

    @property
    def ready(self) -> bool:
        return self.there and self.model.connected and self.model.present is not None

    def work(self, *, steady: bool = False) -> None:
        """`steady`: all packets go, and the connection stays."""
        if not self.there:
            return
        for line in self._lines:
            line.pump()
        if not self.model.connected:
            self.model.connect()
        elif not steady and self.rng.random() < 0.1:
            self.model.lose()
        elif not steady and self.rng.random() < 0.05:
            self.model.connect()  # takes over
        if steady or self.rng.random() < 0.8:
            self.model.read()
        self.model.flush(1_000_000 if steady else self.rng.randint(0, 4))


class MqttWriter(MqttParty):
    """Publishes numbered messages, and values that are retained, each topic its own."""

    def __init__(self, ledger: Ledger, router: int, name: str, places: MqttPlaces, qos: int, version: int) -> None:
        super().__init__(ledger, router, name, places, version)
        self.qos = qos
        self.published: list[bytes] = []
        self.values: list[tuple[str, bytes]] = []  # that are retained, with their topics

    def work(self, *, steady: bool = False) -> None:
        if not steady and self.ready and len(self.model.unfinished) < ANSWERS_MAX:
            payload = f"{self.name} {len(self.published) + len(self.values)} {self.rng.random()}".encode()
            if self.rng.random() < 0.2:
                topic = f"state/{self.name}/{self.rng.randint(1, 2)}"
                self.values.append((topic, payload))
                self.model.publish(topic, payload, 1, retain=True)
            else:
                self.published.append(payload)
                self.model.publish(f"t/{self.rng.randint(1, 3)}", payload, self.qos)
        super().work(steady=steady)

    def promised(self) -> list[bytes]:
        """Payloads that the broker has confirmed: a full disk refuses some."""
        confirmed = set(self.model.confirmed)
        return [one for one in self.published if one in confirmed]

    def last_values(self) -> dict[str, list[bytes]]:
        """By topic: the last confirmed value, and later ones. Of these a first copy may have been stored before its
        connection was lost, though the second was refused."""
        confirmed = set(self.model.confirmed)
        found: dict[str, list[bytes]] = {}
        for topic, value in self.values:
            if value in confirmed:
                found[topic] = [value]
            elif topic in found:
                found[topic].append(value)
        return found
