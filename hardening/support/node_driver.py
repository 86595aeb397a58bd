"""The engine with the real forwarding plane and a store, driven by hand: no socket, no clock, no thread."""

import struct
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import assert_never

from tidings.broker.security.guard import Anybody
from tidings.delivery.store import MemoryStore, Store
from tidings.errors import StoreError, TidingsError
from tidings.kernel.codec import decode_message, encode_message
from tidings.kernel.forwarder import Forwarder
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.node import inputs
from tidings.node.clients.client_sessions import ClientOptions
from tidings.node.clients.publish_dedup import recent_ids
from tidings.node.clients.session import Principal
from tidings.node.effects import (
    AuditAction,
    AuditRefusal,
    ClientReady,
    CloseClient,
    Effect,
    Inquire,
    Inspection,
    LinkEffect,
    LoadMessages,
    Log,
    LogIn,
    Persist,
    PersistNow,
    ResumeReading,
    Track,
)
from tidings.node.engine import Engine
from tidings.node.inputs import Input, Now
from tidings.node.node import Node
from tidings.node.protocol_session import Hello
from tidings.node.requests import (
    Accepted,
    Ack,
    Answer,
    Begin,
    Commit,
    Outcome,
    Refused,
    Request,
    Rollback,
    Subscribe,
    Verdict,
)
from tidings.node.settings import NodeSettings
from tidings.overlay import effects as fx
from tidings.protocols.native.frames import FrameSplitter, FrameType, decode_fields, encode_publish
from tidings.protocols.native.session import NativeSession

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


class RecordingSession(NativeSession):
    """A native session that keeps answers as records beside their frames."""

    def __init__(self) -> None:
        super().__init__()
        self.said: deque[Outcome] = deque()

    def answer(self, answer: Outcome) -> bytes:
        self.said.append(answer)
        return super().answer(answer)


class NodeDriver:
    """`hold_writes`: batches wait in `writes` until `write` is called; `failure`: the store refuses with it.
    `write_now`: a single publisher's messages are written at once, or late if writes are held."""

    def __init__(self, store: Store | None = None, settings: NodeSettings | None = None, **plane: int) -> None:
        self.store = store or MemoryStore()
        self.settings = settings or NodeSettings()
        self.now_ms = 1_000_000
        self.hold_writes = False
        self.write_now = True
        self.failure: StoreError | None = None
        self.read_failure = False
        self.writes: list[Persist] = []
        self.closed: list[int] = []
        self.logs: list[Log] = []
        self.audited: list[AuditAction | AuditRefusal] = []
        self.for_links: list[LinkEffect] = []  # there are none
        self._plane_options = plane
        self._ids = 0
        self.start()

    def start(self) -> None:
        """The broker process begins: all that is left of the last one is in the store."""
        self.plane = Forwarder(**self._plane_options)
        self.engine = self.make_engine()
        self.clients: dict[int, DrivenClient] = {}
        self.writes.clear()
        recovered = self.store.recover()
        self.engine.recover(self.now, recovered, recent_ids(self.store, recovered))

    crash = start

    def make_engine(self) -> Engine:
        return Engine(self.plane, self.settings, ClientOptions(count(1)))

    @property
    def now(self) -> Now:
        return Now(self.now_ms, float(self.now_ms))

    @property
    def node(self) -> Node:
        return self.engine.node

    def connect(self, client_id: str = "", principal: Principal | None = None) -> "DrivenClient":
        number = self.plane.open()
        client = self.clients[number] = DrivenClient(self, number)
        self.step(inputs.ClientOpened(number, client.session))
        self.step(inputs.LoggedIn(number, Hello("", "", client_id, 0), principal or Anybody()))
        return client

    def step(self, told: Input) -> None:
        for effect in self.engine.step(self.now, told):
            self._carry_out(effect)

    def message(
        self,
        destination: str,
        body: bytes = b"",
        properties: Mapping[str, Value] | None = None,
        *,
        persistent: bool = True,
        priority: int = 4,
        expiration_ms: int | None = None,
        deliver_at_ms: int | None = None,
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
            deliver_at_ms=deliver_at_ms,
        )
        return encode_message(message)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Persist():
                self.writes.append(effect)
                if not self.hold_writes:
                    self.write()
            case PersistNow():
                self._persist_now(effect)
            case LoadMessages(seqs):
                self.load(seqs)
            case CloseClient(number):
                self.closed.append(number)
            case Log():
                self.logs.append(effect)
            case AuditAction() | AuditRefusal():
                self.audited.append(effect)
            case ClientReady() | ResumeReading() | Track():
                pass  # there are no sockets, and nothing is recorded
            case LogIn() | Inspection() | Inquire():
                raise AssertionError(f"not driven by hand: {effect}")
            case fx.Dial() | fx.CloseLink() | fx.SetTimer() | fx.Authenticate() | fx.Report():
                self.for_links.append(effect)
            case _:
                assert_never(effect)

    def write(self) -> None:
        """The oldest batch that waits reaches the disk, or is refused."""
        batch = self.writes.pop(0)
        error: TidingsError | None = self.failure
        if error is None:
            self.store.append(batch.records)
        self.step(inputs.Persisted((batch.ticket,), error))
        self.step(inputs.Turn())

    def _persist_now(self, effect: PersistNow) -> None:
        if self.hold_writes and self.write_now:  # begun, and slow
            self.writes.append(Persist(effect.ticket, effect.records))
            self.step(inputs.PersistLate())
        elif not self.write_now:
            self.step(inputs.NotPersisted())
        else:
            if self.failure is None:
                self.store.append(effect.records)
            self.step(inputs.PersistedNow(self.failure))
        self.step(inputs.Turn())

    def load(self, seqs: tuple[int, ...]) -> None:
        found: dict[int, bytes] = {}
        for seq in () if self.read_failure else seqs:
            try:
                found[seq] = self.store.read([seq])[0]
            except TidingsError:
                continue
        self.step(inputs.Loaded(seqs, found))

    def turn(self) -> None:
        """Handle what the forwarding plane hands over, until there is nothing more."""
        while self.engine.has_requests or self.plane.has_events():
            self.step(inputs.PlaneReady())

    def tick(self, ms: int = 1000) -> None:
        self.now_ms += ms
        self.plane.check_stalls(self.now_ms)
        self.step(inputs.Tick())
        self.turn()


@dataclass(slots=True)
class DrivenClient:
    driver: NodeDriver
    number: int
    session: RecordingSession = field(default_factory=RecordingSession)
    _dropped: Counter[tuple[object, object]] = field(default_factory=Counter)
    _answers: list[Answer] = field(default_factory=list)
    _splitter: FrameSplitter = field(default_factory=lambda: FrameSplitter(64 * MEGABYTE))
    _receipts: int = 0
    _kept: list[Got] = field(default_factory=list)

    @property
    def answers(self) -> list[Answer]:
        """All answers so far, in the order in which they were sent."""
        self._read()
        return self._answers

    def ask(self, request: Request) -> None:
        self.driver.step(inputs.ClientRequest(self.number, request))
        self.driver.turn()

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
        driver.step(inputs.ClientLost(self.number))
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
    def dropped(self) -> Counter[tuple[object, object]]:
        """Messages that the broker says it has dropped, by subscription and reason."""
        self._read()
        return self._dropped

    @property
    def accepted(self) -> set[int]:
        """Receipts of publications that the broker promised to keep."""
        return {receipt for one in self.answers if isinstance(one, Accepted) for receipt in one.receipts}

    @property
    def refused(self) -> dict[int, str]:
        return {one.receipt: one.error.code for one in self.answers if isinstance(one, Refused)}

    def answer(self, receipt: int) -> Answer | None:
        """The answer to this request; None if there is none yet."""
        found = [one for one in self.answers if not isinstance(one, Accepted) and one.receipt == receipt]
        assert len(found) <= 1, "every request is answered once"
        return found[0] if found else None

    def _read(self) -> None:
        plane = self.driver.plane
        if self.driver.clients.get(self.number) is not self:
            return  # it has left, or its broker has ended
        while data := plane.take(self.number, MEGABYTE, self.driver.now_ms):
            for frame in self._splitter.feed(data):
                if frame.type == FrameType.DELIVER:
                    head = frame.payload
                    subscription, attempt, tag = struct.unpack_from("<IIQ", head)
                    self._kept.append(Got(subscription, attempt, tag, decode_message(head[16:])))
                elif frame.type == FrameType.RECEIPTS:
                    size = len(frame.payload)
                    got = (int.from_bytes(frame.payload[at : at + 4], "little") for at in range(4, size, 4))
                    self._answers.append(Accepted(tuple(got)))
                elif frame.type == FrameType.DROPPED:
                    fields = decode_fields(frame.payload)
                    self._dropped[fields["subscription"], fields["reason"]] += int(str(fields["count"]))
                elif frame.type in (FrameType.OK, FrameType.REFUSED) or (
                    frame.type == FrameType.ERROR and self.session.said
                ):
                    self._answers.append(self.session.said.popleft())
            self.driver.turn()
