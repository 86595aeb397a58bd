"""A whole broker in virtual time: the node and the kernel's forwarder that ship, with the driver's part played here.

Links carry bytes: the forwarder's output goes into the simulated stream as it is, and what arrives is fed to the
forwarder. Writing to disk takes a moment in two halves, so that a crash can fall before or after the write. Clients are
calls: `subscribe`, `publish`, `connect`; what they are sent is parsed from their connection's output.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from tidings.errors import RemoteProtocolError, StoreError
from tidings.kernel.events import (
    ControlFrame,
    FrameError,
    PlaneEvent,
    Published,
    PublishedToRouters,
    PublishedToScheme,
    Relayed,
    RemoteMessage,
    Transacted,
)
from tidings.kernel.forwarder import FRAME_HEADER_BYTES, Forwarder
from tidings.model.codec import encode_frame
from tidings.node import effects as nfx
from tidings.node.network_settings import NetworkSettings
from tidings.node.node import Node
from tidings.node.requests import Accepted, Done, Failed, Request
from tidings.node.settings import Settings
from tidings.overlay import effects as fx
from tidings.sim.host import Host
from tidings.tracking.path import Path
from tidings.tracking.path_json import from_json

PUBLISH, DELIVER = 0x10, 0x11
TICK_MS, TAKE_BYTES = 1000.0, 1 << 20
FRAME_BYTES_MAX = 16 << 20  # as real brokers have it, unless told otherwise
DELIVERIES_MAX = 1_000_000  # nothing becomes a dead letter, however often its consumers go away
ID = slice(4, 20)


class Delivery(NamedTuple):
    subscription: int
    attempt: int
    tag: int
    message: bytes
    at: float  # when it came, by the calendar


@dataclass(slots=True)
class SimClient:
    """A client of one broker; gone when the broker crashes."""

    number: int
    life: int = 0  # which of the broker's lives it is a client of
    deliveries: list[Delivery] = field(default_factory=list)
    receipts: set[int] = field(default_factory=set)  # of accepted publications
    done: set[int] = field(default_factory=set)  # receipts of requests that were carried out
    failures: list[Failed] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)  # of messages that were traced
    tail: bytes = b""

    def feed(self, data: bytes, now: float) -> None:
        data = self.tail + data
        at = 0
        while len(data) - at >= FRAME_HEADER_BYTES:
            end = at + FRAME_HEADER_BYTES + int.from_bytes(data[at : at + 4], "little")
            if end > len(data):
                break
            payload = data[at + FRAME_HEADER_BYTES : end]
            if data[at + 4] == DELIVER:
                subscription, attempt = (int.from_bytes(payload[i : i + 4], "little") for i in (0, 4))
                tag = int.from_bytes(payload[8:16], "little")
                self.deliveries.append(Delivery(subscription, attempt, tag, payload[16:], now))
            else:  # RECEIPTS
                self.receipts |= {int.from_bytes(payload[i : i + 4], "little") for i in range(4, len(payload), 4)}
            at = end
        self.tail = data[at:]


class Everyone:
    """A principal that may do everything."""

    name = "everyone"

    def may(self, operation: str, destination: str) -> bool:
        return True

    def restriction(self, destination: str, operation: str = "subscribe") -> str:
        return ""


class SimBroker:
    def __init__(self, network: NetworkSettings, host: Host, incarnation: int, rng: Random) -> None:
        self.forwarder = Forwarder(read_bytes=4096)
        settings = Settings(broker_id=network.router, deliveries_max=DELIVERIES_MAX)
        tracking = host.records.settings
        self.node = Node(self.forwarder, settings, network, tracking=tracking, incarnation=incarnation, rng=rng)
        assert self.node.network is not None
        self.network = self.node.network
        self.clients: dict[int, SimClient] = {}
        host.lives += 1
        self.life = host.lives
        self._host, self._records = host, host.records
        self._links: dict[str, int] = {}  # connection -> the forwarder's number
        self._unwritten: list[nfx.Persist] = []
        self._written: list[tuple[int, StoreError | None]] = []

    # --- the machine ----------------------------------------------------------------------------------------------

    def start(self, now: float) -> list[Any]:
        self.node.recover(self._host.store.recover(), now)
        stored_ms = self._records.archive.stored_ms(self.network.settings.router)
        self.node.start_tracking(self._wall(now), self._records.changes, stored_ms)
        self.network.address = str(self.network.settings.router)  # as the driver knows it
        self.network.start(now)
        return [*self._finish(now), fx.SetTimer("tick", now + TICK_MS)]

    def _wall(self, now: float) -> int:
        """The clock on the wall, in whole milliseconds."""
        return int(now + self._host.ahead_ms)

    def step(self, now: float, told: fx.Input) -> list[Any]:
        match told:
            case fx.Received(connection=connection, message=data):
                assert isinstance(data, bytes)
                if connection in self._links:
                    self.forwarder.feed_bytes(self._links[connection], data, self._wall(now))
            case fx.Accepted(connection=connection) | fx.Connected(connection=connection):
                self._links[connection] = self.forwarder.open()
                self.network.opened(connection, self._links[connection])
                self.network.step(now, told)
            case fx.Lost(connection=connection):
                self.network.step(now, told)
                self._close(connection)
            case fx.Timer(name="tick"):
                effects = [*self.node.tick(self._wall(now)), *self.node.track(self._wall(now))]
                return [*self._finish(now, effects), fx.SetTimer("tick", now + TICK_MS)]
            case fx.Timer(name="write"):
                return self._write(now)
            case fx.Timer(name="written"):
                return self._finish(now, self._tell_written(now))
            case _:
                self.network.step(now, told)
        return self._finish(now)

    # --- clients --------------------------------------------------------------------------------------------------

    def connect(self, client_id: str = "") -> SimClient:
        client = SimClient(self.forwarder.open(), self.life)
        self.clients[client.number] = client
        self.forwarder.log_in(client.number, FRAME_BYTES_MAX, False)
        self.node.connected(client.number, Everyone(), client_id)
        return client

    def disconnect(self, now: float, client: SimClient) -> list[Any]:
        effects = self.node.lost(self._wall(now), client.number)
        del self.clients[client.number]
        out = self._finish(now, effects)
        self.forwarder.close(client.number)
        return out

    def request(self, now: float, client: SimClient, request: Request) -> list[Any]:
        return self._finish(now, self.node.request(self._wall(now), client.number, request))

    def publish(
        self, now: float, client: SimClient, message: bytes, receipt: int = 0, *, flags: int = 0, session: int = 0
    ) -> list[Any]:
        frame = encode_frame(PUBLISH, receipt.to_bytes(4, "little") + message, flags, session)
        self.forwarder.feed_bytes(client.number, frame, self._wall(now))
        return self._finish(now)

    # --- what a driver does ---------------------------------------------------------------------------------------

    def _finish(self, now: float, effects: list[nfx.Effect] | None = None) -> list[Any]:
        """Handle what came of it until nothing more does; then output, and what the links ask for."""
        self.network.clock.at(now)
        out = self._carry_out(now, effects or [])
        while True:
            while events := self.forwarder.events():
                for event in events:
                    self._event(now, event)
            effects = self.node.turn(self._wall(now))
            out += self._carry_out(now, effects)
            for number in self.forwarder.take_resumable():
                self.forwarder.resume(number, int(now))
            if not effects and not self.forwarder.has_events():
                break
        out += self._output(now)
        for effect in self.network.take():
            out.append(effect)
            if isinstance(effect, fx.Close):
                self._close(effect.connection)
        return out

    def _event(self, now: float, event: PlaneEvent) -> None:
        number = event.connection
        match event:
            case ControlFrame():
                self.network.control(now, number, event.type, event.payload)
                if number in self._links.values():
                    self.forwarder.handled(number, self._wall(now))
            case Published():
                self.node.publishing.message(
                    number,
                    event.receipt,
                    event.message,
                    event.sinks,
                    expires_ms=event.expires_ms,
                    perhaps_sent=event.perhaps_sent,
                )
            case Transacted():
                self.node.transacted(self._wall(now), number, event.session, event.receipt, event.message)
            case RemoteMessage() | Relayed() | PublishedToRouters() | PublishedToScheme():
                self.node.publishing.from_network(self._wall(now), event)
            case FrameError():
                wrong = RemoteProtocolError(event.code, event.reason, position=event.position)
                self.network.broken(now, number, wrong)

    def _carry_out(self, now: float, effects: list[nfx.Effect]) -> list[Any]:
        out: list[Any] = []
        for effect in effects:
            match effect:
                case nfx.Reply(connection=number, answer=Accepted(receipts=receipts)):
                    self.clients[number].receipts.update(receipts)
                case nfx.Reply(connection=number, answer=Done(receipt=receipt, fields=fields)):
                    self.clients[number].done.add(receipt)
                    if "path" in fields:
                        self.clients[number].paths.append(from_json(str(fields["path"])))
                case nfx.Track(changes=changes, entries=entries):
                    self._records.changes += changes
                    self._records.archive.store(self.network.settings.router, entries)
                case nfx.Inquire(number=number, inquiry=inquiry):
                    answer = self.node.tracking.recorder.resolve(inquiry, self._records.archive)
                    out += self._carry_out(now, self.node.resolved(self._wall(now), number, answer))
                case nfx.Reply(connection=number, answer=Failed() as failure):
                    self.clients[number].failures.append(failure)
                case nfx.Persist():
                    if not self._unwritten:
                        out.append(fx.SetTimer("write", now + self._host.write_ms / 2))
                    self._unwritten.append(effect)
                    self._host.asked(effect.records)
                case nfx.Load(seqs=seqs):
                    loaded = dict(zip(seqs, self._host.store.read(seqs), strict=True))
                    out += self._carry_out(now, self.node.loaded(self._wall(now), seqs, loaded))
                case nfx.Log(fields={"exception": trace}):
                    raise AssertionError(f"a fault of ours, which a real broker would survive:\n{trace}")
                case _:
                    pass
        return out

    def _write(self, now: float) -> list[Any]:
        """The disk has it; the broker does not know yet."""
        writes, self._unwritten = self._unwritten, []
        self._written += [(write.ticket, self._host.write(write.records)) for write in writes]
        return [fx.SetTimer("written", now + self._host.write_ms / 2)]

    def _tell_written(self, now: float) -> list[nfx.Effect]:
        written, self._written = self._written, []
        effects = [effect for ticket, error in written for effect in self.node.persisted(ticket, error)]
        return [*effects, *self.node.turn(self._wall(now))]

    def _output(self, now: float) -> list[Any]:
        names = {number: connection for connection, number in self._links.items()}
        out: list[Any] = []
        while dirty := self.forwarder.take_dirty():
            for number in dirty:
                data = self.forwarder.take(number, TAKE_BYTES, self._wall(now))
                if number in names:
                    out.append(fx.Transmit(names[number], data))  # type: ignore[arg-type]  # bytes, not messages
                elif number in self.clients:
                    self.clients[number].feed(data, now)
                if self.forwarder.output_bytes(number):
                    self.forwarder.set_writable(number, True)
        return out

    def _close(self, connection: str) -> None:
        number = self._links.pop(connection, None)
        if number is not None:
            self.forwarder.close(number)


Action = Callable[[SimBroker, float], list[Any]]
