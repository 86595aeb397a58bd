"""A node with the real forwarding plane and a store, driven by hand: no socket, no clock, no thread."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings.broker.guard import Anybody
from tidings.delivery.store import MemoryStore, Store
from tidings.errors import StoreError, TidingsError
from tidings.kernel.codec import decode_message, encode_message
from tidings.kernel.events import MemoryShort, OutputRoom, Published, SlowConsumer, Transacted
from tidings.kernel.forwarder import Forwarder
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.node.effects import Close, Effect, Load, Log, Persist, Reply
from tidings.node.node import Node
from tidings.node.requests import Accepted, Ack, Answer, Begin, Commit, Refused, Request, Rollback, Subscribe, Verdict
from tidings.node.session import Principal
from tidings.node.settings import Settings
from tidings.protocols.frames import FrameSplitter, FrameType, encode_publish

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Got:
    """A delivery as a client sees it."""

    subscription: int
    attempt: int
    tag: int
    message: Message

    @property
    def body(self) -> bytes:
        return self.message.body


class NodeDriver:
    """`hold_writes`: batches wait in `writes` until `write` is called; `failure`: the store refuses with it."""

    def __init__(self, store: Store | None = None, settings: Settings | None = None, **plane: int) -> None:
        self.store = store or MemoryStore()
        self.settings = settings or Settings()
        self.now_ms = 1_000_000
        self.hold_writes = False
        self.failure: StoreError | None = None
        self.read_failure = False
        self.writes: list[Persist] = []
        self.closed: list[int] = []
        self.logs: list[Log] = []
        self._plane_options = plane
        self._ids = 0
        self.start()

    def start(self) -> None:
        """The broker process begins: all that is left of the last one is in the store."""
        self.plane = Forwarder(**self._plane_options)
        self.node = Node(self.plane, self.settings)
        self.clients: dict[int, DrivenClient] = {}
        self.writes.clear()
        self.node.recover(self.store.recover())

    crash = start

    def connect(self, client_id: str = "", principal: Principal | None = None) -> "DrivenClient":
        number = self.plane.open()
        self.plane.log_in(number, 16 * MEGABYTE, False)
        self.node.connected(number, principal or Anybody(), client_id)
        self.clients[number] = DrivenClient(self, number)
        return self.clients[number]

    def message(
        self,
        destination: str,
        body: bytes = b"",
        properties: Mapping[str, Value] | None = None,
        *,
        persistent: bool = True,
        priority: int = 4,
        expiration_ms: int | None = None,
    ) -> bytes:
        self._ids += 1
        message = Message(
            Destination.parse(destination),
            properties or {},
            body,
            id=MessageId(1, 1, self._ids, 0),
            persistent=persistent,
            priority=priority,
            expiration_ms=expiration_ms,
        )
        return encode_message(message)

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(number, answer):
                    self.clients[number].answers.append(answer)
                case Persist():
                    self.writes.append(effect)
                    if not self.hold_writes:
                        self.write()
                case Load(seqs):
                    self.load(seqs)
                case Close(number, _, _):
                    self.closed.append(number)
                case Log():
                    self.logs.append(effect)

    def write(self) -> None:
        """The oldest batch that waits reaches the disk, or is refused."""
        batch = self.writes.pop(0)
        error: TidingsError | None = self.failure
        if error is None:
            self.store.append(batch.records)
        self.carry_out([*self.node.persisted(batch.ticket, error), *self.node.turn(self.now_ms)])

    def load(self, seqs: tuple[int, ...]) -> None:
        found: dict[int, bytes] = {}
        for seq in () if self.read_failure else seqs:
            try:
                found[seq] = self.store.read([seq])[0]
            except TidingsError:
                continue
        self.carry_out(self.node.loaded(self.now_ms, seqs, found))

    def turn(self) -> None:
        """Handle what the forwarding plane hands over, until there is nothing more."""
        while events := self.plane.events():
            for event in events:
                match event:
                    case Published():
                        self.node.publishing.message(
                            event.connection,
                            event.receipt,
                            event.message,
                            event.sinks,
                            expires_ms=event.expires_ms,
                            perhaps_sent=event.perhaps_sent,
                        )
                    case Transacted():
                        self.node.transacted(self.now_ms, event.connection, event.session, event.receipt, event.message)
                    case OutputRoom():
                        self.carry_out(self.node.room(self.now_ms, event.connection))
                    case SlowConsumer() | MemoryShort():
                        self.closed.append(event.connection)
            self.carry_out(self.node.turn(self.now_ms))

    def tick(self, ms: int = 1000) -> None:
        self.now_ms += ms
        self.plane.check_stalls(self.now_ms)
        self.carry_out(self.node.tick(self.now_ms))
        self.turn()


@dataclass(slots=True)
class DrivenClient:
    driver: NodeDriver
    number: int
    answers: list[Answer] = field(default_factory=list)
    _splitter: FrameSplitter = field(default_factory=lambda: FrameSplitter(64 * MEGABYTE))
    _receipts: int = 0
    _kept: list[Got] = field(default_factory=list)

    def ask(self, request: Request) -> None:
        driver = self.driver
        driver.carry_out(driver.node.request(driver.now_ms, self.number, request))
        driver.turn()

    def next_receipt(self) -> int:
        self._receipts += 1
        return self._receipts

    def subscribe(self, subscription: int, destination: str, **options: object) -> int:
        """Returns the request's receipt."""
        receipt = self.next_receipt()
        self.ask(Subscribe(receipt, subscription, destination, **options))  # type: ignore[arg-type]
        return receipt

    def publish(self, message: bytes, *, session: int = 0, flags: int = 0) -> int:
        """Returns the receipt number."""
        receipt = self.next_receipt()
        frame = encode_publish(receipt, message, session, flags)
        self.driver.plane.feed_bytes(self.number, frame, self.driver.now_ms)
        self.driver.turn()
        return receipt

    def ack(
        self, *deliveries: Got, verdict: Verdict = Verdict.DONE, session: int = 0, cumulative: bool = False
    ) -> None:
        for one in deliveries:
            self.ask(Ack(one.subscription, (one.tag,), cumulative, verdict, session))

    def begin(self, session: int) -> None:
        self.ask(Begin(self.next_receipt(), session))

    def commit(self, session: int) -> int:
        receipt = self.next_receipt()
        self.ask(Commit(receipt, session))
        return receipt

    def rollback(self, session: int) -> None:
        self.ask(Rollback(self.next_receipt(), session))

    def leave(self) -> None:
        driver = self.driver
        del driver.clients[self.number]
        driver.carry_out(driver.node.lost(driver.now_ms, self.number))
        driver.plane.close(self.number)
        driver.turn()

    def receive(self) -> list[Got]:
        """All deliveries since the last call."""
        self._read()
        got, self._kept = self._kept, []
        return got

    def bodies(self) -> list[bytes]:
        return [one.body for one in self.receive()]

    @property
    def accepted(self) -> set[int]:
        """Receipts of publications that the broker promised to keep."""
        self._read()
        return {receipt for one in self.answers if isinstance(one, Accepted) for receipt in one.receipts}

    @property
    def refused(self) -> dict[int, str]:
        return {one.receipt: one.error.code for one in self.answers if isinstance(one, Refused)}

    def answer(self, receipt: int) -> Answer | None:
        """What was said to this request; None: nothing yet."""
        found = [one for one in self.answers if not isinstance(one, Accepted) and one.receipt == receipt]
        assert len(found) <= 1, "every request is answered once"
        return found[0] if found else None

    def _read(self) -> None:
        plane = self.driver.plane
        while data := plane.take(self.number, MEGABYTE, self.driver.now_ms):
            for frame in self._splitter.feed(data):
                if frame.type == FrameType.DELIVER:
                    head = frame.payload
                    subscription, attempt, tag = struct.unpack_from("<IIQ", head)
                    self._kept.append(Got(subscription, attempt, tag, decode_message(head[16:])))
                elif frame.type == FrameType.RECEIPTS:
                    size = len(frame.payload)
                    got = (int.from_bytes(frame.payload[at : at + 4], "little") for at in range(4, size, 4))
                    self.answers.append(Accepted(tuple(got)))
            self.driver.turn()
