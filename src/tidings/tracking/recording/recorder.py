"""Recorder of one broker: histories of message ids, and attachments. Takes ids, returns effects, answers questions.

    published(ids)            H_P
    routed(ids)               H_b, by the origin in each id
    forwarded(d, ids)         H_{b,d}, if wanted
    delivered(s, ids)         H_{b,s}

Nothing here writes: `StoreEntries` and `StoreAttachment` ask the driver to. It calls `tick` every now and then, and
`close` before it ends. A filter in memory dies with the process: what a killed broker had recorded since its last
store is a *gap*, about which its successor says "unknown" where otherwise it could say "no".
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.ids import Ids
from tidings.tracking.moments import Span, utc
from tidings.tracking.plan.limits import BETWEEN_BROKERS_MS
from tidings.tracking.query.archive import Archive, KeyArchive, RecordArchive
from tidings.tracking.recording.attachments import Attachment, AttachmentKind, AttachmentMap
from tidings.tracking.recording.history import UNKNOWN_ORIGIN, HistoryEntry, HistoryKind, Key, efpp
from tidings.tracking.recording.key_notes import KeyBatch
from tidings.tracking.recording.losses import LOSS_DETAILS, LossCause, TraceReason, loss_peer
from tidings.tracking.recording.recorder_backend import Current, KernelBackend, PlainBackend, RecorderBackend
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy, NoStrategy, RunStrategy, Strategy
from tidings.tracking.trace_answer import KeyAnswer, KeyQuery, Statement, TraceAnswer, TraceVerdict

TIME_MAX_MS = 2**48
SPANS_SHOWN = 3
PASSING = (HistoryKind.PUBLISH, HistoryKind.ROUTE)  # what came by here is in one of them


@dataclass(frozen=True, slots=True)
class StoreEntries:
    """Append this entry. Until it is on disk, keep it where the archive finds it."""

    entry: HistoryEntry


@dataclass(frozen=True, slots=True)
class StoreAttachment:
    """Append this change, and let it be on disk before the change takes effect."""

    change: Attachment


@dataclass(frozen=True, slots=True)
class StoreKeys:
    """Append these notes of keys. Until they are on disk, keep them where the archive finds them."""

    batch: KeyBatch


Effect: TypeAlias = StoreEntries | StoreAttachment | StoreKeys


@dataclass(frozen=True, slots=True)
class TrackingSettings:
    strategy: Strategy = field(default_factory=RunStrategy)
    persist_ms: int = 1000  # T_p
    skew_between_brokers_ms: int = BETWEEN_BROKERS_MS  # widens the time that is looked up; T_s + T_j at least
    forwards: bool = False  # record H_{b,d} too: fewer questions at path reconstruction
    attachments_max: int | None = 100_000  # detached subscribers that are remembered; None: all
    numbering: int = 0  # key of the numbers of the broker's publishers: lists that know it are smaller
    keys: tuple[str, ...] = ()  # attributes by whose values messages can be found (`key_notes`)

    @property
    def skew_ms(self) -> int | None:
        """T_s; None: nothing is recorded."""
        match self.strategy:
            case BloomStrategy(settings=bloom):
                return bloom.skew_ms
            case AsyncStrategy(skew_ms=skew_ms) | RunStrategy(skew_ms=skew_ms):
                return skew_ms
            case _:
                return None

    def plain_backend(self, broker: int, incarnation: int) -> RecorderBackend:
        """A backend in plain Python."""
        return PlainBackend(broker, self.strategy, incarnation, persist_ms=self.persist_ms, forwards=self.forwards)

    def kernel_backend(self, broker: int, incarnation: int) -> KernelBackend | None:
        """A backend that a forwarding plane fills; None: nothing is recorded."""
        if self.strategy.name == NoStrategy().name:
            return None
        return KernelBackend(
            broker,
            self.strategy,
            incarnation,
            persist_ms=self.persist_ms,
            forwards=self.forwards,
            numbering=self.numbering,
            keys=self.keys,
        )

    def __post_init__(self) -> None:
        if self.persist_ms < 1 or self.skew_between_brokers_ms < 0:
            raise UsageError("E_TRACKING_TIME", "T_p must be at least 1 ms, and a skew must not be negative")
        if self.attachments_max is not None and self.attachments_max < 1:
            raise UsageError("E_TRACKING_ATTACHMENTS", "attachments_max must be at least 1")


def keys_of(kind: HistoryKind, message: MessageId, peer: str = "") -> tuple[Key, ...]:
    """The histories that may have a message: of the broker that it names, and of brokers that were not known."""
    origins = (message.broker,) if message.broker == UNKNOWN_ORIGIN else (message.broker, UNKNOWN_ORIGIN)
    return tuple(Key(kind, origin, peer) for origin in origins)


@dataclass(frozen=True, slots=True)
class RecordFinding:
    held: bool
    probability: float
    filters: int
    between: Span | None = None  # when it was recorded: in the time of the filters that hold it

    @classmethod
    def of(cls, *parts: "RecordFinding") -> "RecordFinding":
        """Of several histories together."""
        probability = efpp(part.probability for part in parts)
        spans = [part.between for part in parts if part.between is not None]
        between = (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None
        return cls(any(part.held for part in parts), probability, sum(part.filters for part in parts), between)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question as far as memory answers it; `Recorder.resolve` asks the archive for the rest, anywhere, any time."""

    message: MessageId
    neighbours: tuple[int, ...]  # since the time of the message
    subscribers: tuple[str, ...]  # attached at that time, or given it later as far as memory knows
    current: Mapping[Key, Current]  # filters in memory that match
    since_ms: int = 0  # who had gone before this may be forgotten
    publisher: str = ""
    why: str = ""  # the subscriber in question: why it did or did not get the message
    attached: tuple[Span, ...] = ()  # when that one was attached
    moved: bool = False
    asked_ms: int = 0  # by this broker's clock


class Recorder:
    def __init__(
        self, broker: int, settings: TrackingSettings, incarnation: int, backend: RecorderBackend | None = None
    ) -> None:
        self.broker = broker
        self.attachments = AttachmentMap(settings.attachments_max)
        self._settings, self._incarnation = settings, incarnation
        self._backend = backend or settings.plain_backend(broker, incarnation)
        self._gaps: list[Span] = []
        self._now_ms = self._keys_ms = 0

    def start(
        self, now_ms: int, past: Iterable[Attachment] = (), stored_ms: Mapping[int, int] | None = None
    ) -> list[Effect]:
        """Begin an era; `past` is what was stored in earlier ones, in order, and `stored_ms` when each of them, by
        incarnation, last stored an entry. One that ended without `close`, or recorded nothing, has left a gap."""
        opened: Attachment | None = None
        strategy = self._settings.strategy.name
        own = Attachment(AttachmentKind.ERA, strategy, now_ms, attached=True, incarnation=self._incarnation)
        for change in (*past, own):
            if change.kind is AttachmentKind.ERA:
                if opened is not None:
                    self._end_era(opened, change, (stored_ms or {}).get(opened.incarnation, opened.ms))
                opened = change if change.attached else None
            self.attachments.apply(change)
        if strategy == NoStrategy().name:
            self._gaps.append((now_ms, TIME_MAX_MS))
        return [StoreAttachment(own)]

    def _end_era(self, opened: Attachment, end: Attachment, stored_ms: int) -> None:
        if opened.peer == NoStrategy().name:
            self._gaps.append((opened.ms, end.ms))
        elif end.attached:  # the next one has begun: this one was killed
            self._gaps.append((min(stored_ms, end.ms) - self._settings.persist_ms, end.ms))

    @property
    def memory_bytes(self) -> int:
        return self._backend.memory_bytes

    def published(self, ids: Ids, now_ms: int) -> list[Effect]:
        return self._add(HistoryKind.PUBLISH, "", ids, now_ms)

    def routed(self, ids: Ids, now_ms: int) -> list[Effect]:
        return self._add(HistoryKind.ROUTE, "", ids, now_ms)

    def forwarded(self, neighbour: int, ids: Ids, now_ms: int) -> list[Effect]:
        return self._add(HistoryKind.FORWARD, str(neighbour), ids, now_ms)

    def delivered(self, subscriber: str, ids: Ids, now_ms: int) -> list[Effect]:
        return self._add(HistoryKind.DELIVER, subscriber, ids, now_ms)

    def attach(self, kind: AttachmentKind, peer: str, now_ms: int) -> list[Effect]:
        known = self.attachments.is_attached(kind, peer)
        return [] if known else self._change(kind, peer, now_ms, attached=True)

    def publisher(self, number: int, about: str, now_ms: int, *, attached: bool) -> list[Effect]:
        """A client that publishes under this number has connected, or left."""
        return self._change(AttachmentKind.PUBLISHER, f"{number} {about}", now_ms, attached=attached)

    def detach(self, kind: AttachmentKind, peer: str, now_ms: int) -> list[Effect]:
        """Also stores the histories that will not grow any more."""
        if not self.attachments.is_attached(kind, peer):
            return []
        of = HistoryKind.DELIVER if kind is AttachmentKind.SUBSCRIBER else HistoryKind.FORWARD
        stored = map(StoreEntries, self._backend.end(of, peer, now_ms))
        return [*stored, *self._change(kind, peer, now_ms, attached=False)]

    def tick(self, now_ms: int, *, full: bool = True) -> list[Effect]:
        """Every now and then: what is due, and what is full. `full=False`: that may wait for company on its way."""
        self._now_ms = now_ms
        return [*map(StoreEntries, self._backend.take(now_ms, full=full)), *self._keys(now_ms, full=full)]

    def _keys(self, now_ms: int, *, full: bool) -> list[Effect]:
        if not full and abs(now_ms - self._keys_ms) < self._settings.persist_ms:
            return []
        self._keys_ms = now_ms
        return list(map(StoreKeys, self._backend.take_keys()))

    def close(self, now_ms: int) -> list[Effect]:
        """Store everything: the process ends."""
        stored = [*map(StoreEntries, self._backend.end_all(now_ms)), *self._keys(now_ms, full=True)]
        return [*stored, *self._change(AttachmentKind.ERA, self._settings.strategy.name, now_ms, attached=False)]

    def answer(self, message: MessageId, archive: Archive) -> TraceAnswer:
        return self.resolve(self.ask(message), archive)

    def ask(self, message: MessageId, why: str = "") -> Inquiry:
        """`why`: a subscriber; the answer then gives reasons why it did or did not get the message."""
        first, last = self._around(message)
        # It may have been kept for long, and sent to a neighbour that came later.
        neighbours = tuple(sorted(map(int, self.attachments.between(AttachmentKind.NEIGHBOUR, first, TIME_MAX_MS))))
        attached = self.attachments.between(AttachmentKind.SUBSCRIBER, first, last)
        late = self._backend.stragglers(message, self._now_ms)
        subscribers = tuple(sorted({*attached, *late}))
        forwards = neighbours if self._settings.forwards else ()
        losses = [loss_peer(why, cause) for cause in LossCause] if why else []
        keys = [
            *(key for kind in PASSING for key in keys_of(kind, message)),
            *(key for peer in forwards for key in keys_of(HistoryKind.FORWARD, message, str(peer))),
            *(key for peer in subscribers for key in keys_of(HistoryKind.DELIVER, message, peer)),
            *(key for peer in losses for key in keys_of(HistoryKind.DELIVER, message, peer)),
        ]
        found = ((key, self._backend.find(key, message, self._now_ms)) for key in keys)
        current = {key: one for key, one in found if one is not None}
        publisher = self.attachments.publisher(message.publisher, first, last) if message.broker == self.broker else ""
        spans = tuple(self.attachments.spans(AttachmentKind.SUBSCRIBER, why)) if why else ()
        moved = message.broker == self.broker and self.attachments.may_have_moved(message.publisher)
        since_ms = self.attachments.since_ms
        now_ms = self._now_ms
        return Inquiry(message, neighbours, subscribers, current, since_ms, publisher, why, spans, moved, now_ms)

    def resolve(self, inquiry: Inquiry, archive: Archive) -> TraceAnswer:
        """Looks at nothing that changes while the broker runs."""
        answer = replace(self._resolve(inquiry, archive), moved=inquiry.moved)
        return replace(answer, reasons=tuple(self._reasons(inquiry, answer, archive))) if inquiry.why else answer

    def _reasons(self, inquiry: Inquiry, answer: TraceAnswer, archive: Archive) -> Iterator[TraceReason]:
        if any(one.peer == inquiry.why for one in answer.subscribers):
            yield TraceReason("delivered")
        for cause in LossCause:
            if self._find(HistoryKind.DELIVER, loss_peer(inquiry.why, cause), inquiry, archive).held:
                yield TraceReason(cause.value, LOSS_DETAILS[cause])
        first_ms, last_ms = self._around(inquiry.message)
        if inquiry.attached and not any(start <= last_ms and end >= first_ms for start, end in inquiry.attached):
            yield TraceReason("not-attached", _spans_text(inquiry.attached))
        if inquiry.attached and answer.verdict is TraceVerdict.ABSENT:
            yield TraceReason("not-here", "the message did not come to this broker")

    def _resolve(self, inquiry: Inquiry, archive: Archive) -> TraceAnswer:
        message, neighbours, publisher = inquiry.message, inquiry.neighbours, inquiry.publisher
        entered, passed = (self._find(kind, "", inquiry, archive) for kind in PASSING)
        found = RecordFinding.of(entered, passed)
        if not found.held:
            incomplete = self._incomplete(inquiry, archive)
            verdict = TraceVerdict.UNKNOWN if incomplete else TraceVerdict.ABSENT
            return TraceAnswer(
                self.broker, verdict, 0.0, neighbours, None, (), found.filters, incomplete, publisher=publisher
            )
        filters, forwarded = found.filters, None
        if self._settings.forwards:
            asked = [self._find(HistoryKind.FORWARD, str(peer), inquiry, archive) for peer in neighbours]
            filters += sum(finding.filters for finding in asked)
            if not self._incomplete(inquiry, archive) and not self.lost_since(message):
                forwarded = tuple(peer for peer, finding in zip(neighbours, asked, strict=True) if finding.held)
        subscribers = []
        origins = {message.broker, UNKNOWN_ORIGIN}
        late = {peer for origin in origins for peer in archive.stragglers(self.broker, origin, message.ms)}
        for peer in sorted({*inquiry.subscribers, *late}):
            finding = self._find(HistoryKind.DELIVER, peer, inquiry, archive)
            filters += finding.filters
            if finding.held:
                subscribers.append(Statement(peer, finding.probability, finding.between))
        incomplete = self._incomplete(inquiry, archive)  # asked last: what is missing may have shown only now
        return TraceAnswer(
            self.broker,
            TraceVerdict.HELD,
            found.probability,
            neighbours,
            forwarded,
            tuple(subscribers),
            filters,
            incomplete,
            entered.held,
            publisher,
            between=found.between,
        )

    def look_up(self, asked: Inquiry | KeyQuery, archive: RecordArchive) -> TraceAnswer | KeyAnswer:
        """The answer to either; may be called from another thread."""
        return self.resolve_key(asked, archive) if isinstance(asked, KeyQuery) else self.resolve(asked, archive)

    def resolve_key(self, query: KeyQuery, archive: KeyArchive) -> KeyAnswer:
        """Messages that were published here with a value of an attribute. Looks at nothing that changes meanwhile."""
        found = archive.find_key(self.broker, query)
        lost_ms = max((end for start, end in self._gaps if start <= query.last_ms), default=0)
        since_ms = max(found.since_ms, min(lost_ms, TIME_MAX_MS), self.attachments.first_ms or 0)
        return replace(found, since_ms=since_ms, recorded=found.recorded and query.name in self._settings.keys)

    def unsure(self, inquiry: Inquiry | KeyQuery) -> TraceAnswer | KeyAnswer:
        """The answer of a broker whose archive cannot be read."""
        if isinstance(inquiry, KeyQuery):
            return KeyAnswer(self.broker, since_ms=TIME_MAX_MS)
        return TraceAnswer(self.broker, TraceVerdict.UNKNOWN, neighbours=inquiry.neighbours, incomplete=True)

    def _around(self, message: MessageId) -> Span:
        """The time of a message by the clocks of brokers."""
        skew_ms = self._settings.skew_between_brokers_ms
        return message.ms - skew_ms, message.ms + skew_ms

    def _find(self, kind: HistoryKind, peer: str, inquiry: Inquiry, archive: Archive) -> RecordFinding:
        """The matching set, in memory and stored, and whether one of it holds the message."""
        found = [self._find_one(key, inquiry, archive) for key in keys_of(kind, inquiry.message, peer)]
        return RecordFinding.of(*found)

    def _find_one(self, key: Key, inquiry: Inquiry, archive: Archive) -> RecordFinding:
        one, current = bytes(inquiry.message), inquiry.current.get(key)
        held, fpps = current is not None and current.held, [] if current is None else [current.fpp]
        made_ms = self._around(inquiry.message)[0]
        spans: list[Span] = [(made_ms, inquiry.asked_ms)] if held else []
        for entry in archive.matching(self.broker, key, inquiry.message.ms):
            growing = current is not None and entry.sequence == current.sequence
            if not (growing and entry.incarnation == self._incarnation):  # else a copy of what is in memory
                opened = entry.opened()
                if opened.contains(one)[0]:
                    held = True
                    spans.append((max(made_ms, entry.opened_ms), entry.stored_ms))
                fpps.append(opened.fpp())
        times = [(first, last) for first, last in spans if first <= last]  # else a clock was set meanwhile
        between = (min(first for first, _ in times), max(last for _, last in times)) if times else None
        return RecordFinding(held, efpp(fpps), len(fpps), between)

    def _incomplete(self, inquiry: Inquiry, archive: Archive) -> bool:
        """Reports whether records of this time may be missing."""
        first_ms, last_ms = self._around(inquiry.message)
        began_ms = self.attachments.first_ms
        if began_ms is None or last_ms < began_ms or first_ms < max(archive.since_ms, inquiry.since_ms):
            return True
        return any(start <= last_ms and end >= first_ms for start, end in self._gaps)

    def lost_since(self, message: MessageId) -> bool:
        """Reports whether records of a later time are missing: a message may be forwarded long after it came."""
        return any(end >= message.ms for _, end in self._gaps)

    def _add(self, kind: HistoryKind, peer: str, ids: Ids, now_ms: int) -> list[Effect]:
        self._backend.add(kind, peer, ids, now_ms)
        return self.tick(now_ms)

    def _change(self, kind: AttachmentKind, peer: str, now_ms: int, *, attached: bool) -> list[Effect]:
        change = Attachment(kind, peer, now_ms, attached, self._incarnation)
        self.attachments.apply(change)
        return [StoreAttachment(change)]


def _spans_text(spans: Iterable[Span]) -> str:
    """The times at which a subscriber was attached, the last one first."""
    times = [f"{utc(first)} to {'now' if last >= TIME_MAX_MS else utc(last)}" for first, last in spans]
    return f"it was attached from {', and from '.join(times[-SPANS_SHOWN:][::-1])}"
