"""What one broker records: its histories and who was attached. Ids go in, effects come out, questions are answered.

    published(ids)            H_P
    routed(ids)               H_b, by the origin in each id; own messages are in H_P already
    forwarded(d, ids)         H_{b,d}, if wanted
    delivered(s, ids)         H_{b,s}

Nothing here writes: `Store` and `StoreAttachment` ask the driver to. It calls `tick` when `next_ms` has come, and
`close` before it ends. A filter in memory dies with the process: what a killed broker had recorded since its last
store is a *gap*, about which its successor says "unknown" where otherwise it could say "no".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import TypeAlias

import numpy as np

from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.archive import Archive
from tidings.tracking.attachments import Attachment, AttachmentKind, AttachmentMap
from tidings.tracking.history import Entry, History, Key, Kind, Span, efpp
from tidings.tracking.ids import Ids, as_ids, id_origins
from tidings.tracking.strategies import BloomStrategy, NoStrategy, Strategy

TIME_MAX_MS = 2**48


@dataclass(frozen=True, slots=True)
class Store:
    """Append this entry. Until it is on disk, keep it where the archive finds it."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class StoreAttachment:
    """Append this change, and let it be on disk before the change takes effect."""

    change: Attachment


Effect: TypeAlias = Store | StoreAttachment


@dataclass(frozen=True, slots=True)
class Settings:
    strategy: Strategy = field(default_factory=BloomStrategy)
    persist_ms: int = 1000  # T_p
    skew_between_brokers_ms: int = 1000  # widens the time that is looked up; T_s + T_j at least
    forwards: bool = False  # record H_{b,d} too: fewer questions at path reconstruction

    def __post_init__(self) -> None:
        if self.persist_ms < 1 or self.skew_between_brokers_ms < 0:
            raise UsageError("E_TRACKING_TIME", "T_p is at least 1 ms, a skew is not negative")


class Verdict(Enum):
    HELD = "held"  # it passed here, unless this is a false positive
    ABSENT = "absent"  # it certainly did not
    UNKNOWN = "unknown"  # the records of that time are lost or gone


@dataclass(frozen=True, slots=True)
class Statement:
    """Somebody got the message; `probability` of saying so of one that did not."""

    peer: str
    probability: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker knows about one message."""

    broker: int
    verdict: Verdict
    probability: float = 0.0  # of claiming a message that did not pass
    neighbours: tuple[int, ...] = ()  # at the time of the message
    forwarded: tuple[int, ...] | None = None  # to these neighbours at most; None: not recorded
    subscribers: tuple[Statement, ...] = ()
    filters: int = 0  # how many were asked
    incomplete: bool = False  # records of that time may be lost: who is not named may have got it all the same


@dataclass(frozen=True, slots=True)
class Finding:
    held: bool
    probability: float
    filters: int


class Recorder:
    def __init__(self, broker: int, settings: Settings, incarnation: int) -> None:
        self.broker = broker
        self.attachments = AttachmentMap()
        self._settings, self._incarnation = settings, incarnation
        self._gaps: list[Span] = []
        self._numbers = count()
        self._histories: dict[Key, History] = {}
        self._due: dict[Key, int] = {}  # dirty histories and when T_p has passed; in that order, T_p being the same
        self._now_ms = 0

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
        return sum(history.memory_bytes for history in self._histories.values())

    @property
    def next_ms(self) -> int | None:
        """When `tick` has something to do."""
        return next(iter(self._due.values()), None)

    def published(self, ids: Ids, now_ms: int) -> list[Effect]:
        return self._add(Key(Kind.PUBLISH, self.broker), ids, now_ms)

    def routed(self, ids: Ids, now_ms: int) -> list[Effect]:
        return self._by_origin(Kind.ROUTE, "", ids, now_ms)

    def forwarded(self, neighbour: int, ids: Ids, now_ms: int) -> list[Effect]:
        return self._by_origin(Kind.FORWARD, str(neighbour), ids, now_ms) if self._settings.forwards else []

    def delivered(self, subscriber: str, ids: Ids, now_ms: int) -> list[Effect]:
        return self._by_origin(Kind.DELIVER, subscriber, ids, now_ms)

    def attach(self, kind: AttachmentKind, peer: str, now_ms: int) -> list[Effect]:
        known = self.attachments.is_attached(kind, peer)
        return [] if known else self._change(kind, peer, now_ms, attached=True)

    def detach(self, kind: AttachmentKind, peer: str, now_ms: int) -> list[Effect]:
        """Also stores the histories that will not grow any more."""
        if not self.attachments.is_attached(kind, peer):
            return []
        of = Kind.DELIVER if kind is AttachmentKind.SUBSCRIBER else Kind.FORWARD
        ended = [key for key in self._histories if (key.kind, key.peer) == (of, peer)]
        stored = [effect for key in ended for effect in self._forget(key, now_ms)]
        return [*stored, *self._change(kind, peer, now_ms, attached=False)]

    def tick(self, now_ms: int) -> list[Effect]:
        self._clock(now_ms)
        effects: list[Effect] = []
        while (due_ms := self.next_ms) is not None and due_ms <= now_ms:
            key = next(iter(self._due))
            del self._due[key]
            effects += map(Store, self._histories[key].persist(now_ms))
        return effects

    def close(self, now_ms: int) -> list[Effect]:
        """Store everything: the process ends."""
        stored = [effect for key in list(self._histories) for effect in self._forget(key, now_ms)]
        return [*stored, *self._change(AttachmentKind.ERA, self._settings.strategy.name, now_ms, attached=False)]

    def answer(self, message: MessageId, archive: Archive) -> Answer:
        first = message.ms - self._settings.skew_between_brokers_ms
        last = message.ms + self._settings.skew_between_brokers_ms
        neighbours = tuple(sorted(map(int, self.attachments.between(AttachmentKind.NEIGHBOUR, first, last))))
        kind = Kind.PUBLISH if message.broker == self.broker else Kind.ROUTE
        found = self._find(Key(kind, message.broker), message, archive)
        if not found.held:
            incomplete = self._incomplete(first, last, archive)
            verdict = Verdict.UNKNOWN if incomplete else Verdict.ABSENT
            return Answer(self.broker, verdict, 0.0, neighbours, None, (), found.filters, incomplete)
        filters, forwarded = found.filters, None
        if self._settings.forwards:
            asked = [self._find(Key(Kind.FORWARD, message.broker, str(peer)), message, archive) for peer in neighbours]
            filters += sum(finding.filters for finding in asked)
            if not self._incomplete(first, last, archive):
                forwarded = tuple(peer for peer, finding in zip(neighbours, asked, strict=True) if finding.held)
        subscribers = []
        for peer in self.attachments.between(AttachmentKind.SUBSCRIBER, first, last):
            finding = self._find(Key(Kind.DELIVER, message.broker, peer), message, archive)
            filters += finding.filters
            if finding.held:
                subscribers.append(Statement(peer, finding.probability))
        incomplete = self._incomplete(first, last, archive)  # asked last: what is missing may have shown only now
        statements = (neighbours, forwarded, tuple(subscribers))
        return Answer(self.broker, Verdict.HELD, found.probability, *statements, filters, incomplete)

    def _find(self, key: Key, message: MessageId, archive: Archive) -> Finding:
        """The matching set, in memory and stored, and whether one of it holds the message."""
        one = bytes(message)
        history = self._histories.get(key)
        current = None if history is None else history.matching(message.ms)
        searchable = [] if current is None else [current]
        for entry in archive.matching(self.broker, key, message.ms):
            growing = history is not None and entry.sequence == history.sequence
            if not (growing and entry.incarnation == self._incarnation):  # else a copy of what is in memory
                searchable.append(entry.opened())
        held = any(bool(each.contains(one)[0]) for each in searchable)
        return Finding(held, efpp(each.fpp() for each in searchable), len(searchable))

    def _incomplete(self, first_ms: int, last_ms: int, archive: Archive) -> bool:
        """Whether records of this time may be missing."""
        began_ms = self.attachments.first_ms
        if began_ms is None or last_ms < max(began_ms, archive.since_ms):
            return True
        return any(start <= last_ms and end >= first_ms for start, end in self._gaps)

    def _by_origin(self, kind: Kind, peer: str, ids: Ids, now_ms: int) -> list[Effect]:
        array = as_ids(ids)
        if not len(array):
            return []
        origins = id_origins(array)
        if (origins == origins[0]).all():
            groups = [(int(origins[0]), array)]
        else:
            groups = [(int(origin), array[origins == origin]) for origin in np.unique(origins)]
        return [
            effect
            for origin, part in groups
            if kind is not Kind.ROUTE or origin != self.broker
            for effect in self._add(Key(kind, origin, peer), part, now_ms)
        ]

    def _clock(self, now_ms: int) -> None:
        if now_ms < self._now_ms:  # it was set back: deadlines of the old time may never come
            latest_ms = now_ms + self._settings.persist_ms
            self._due = {key: min(due_ms, latest_ms) for key, due_ms in self._due.items()}
        self._now_ms = now_ms

    def _add(self, key: Key, ids: Ids, now_ms: int) -> list[Effect]:
        self._clock(now_ms)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = self._settings.strategy.open(key, self._incarnation, self._numbers)
        effects: list[Effect] = [Store(entry) for entry in history.add(ids, now_ms)]
        if effects:
            self._due.pop(key, None)  # whatever is in memory now is younger than that
        if history.dirty and key not in self._due:
            self._due[key] = now_ms + self._settings.persist_ms
        return effects

    def _forget(self, key: Key, now_ms: int) -> list[Effect]:
        self._due.pop(key, None)
        return [Store(entry) for entry in self._histories.pop(key).close(now_ms)]

    def _change(self, kind: AttachmentKind, peer: str, now_ms: int, *, attached: bool) -> list[Effect]:
        change = Attachment(kind, peer, now_ms, attached, self._incarnation)
        self.attachments.apply(change)
        return [StoreAttachment(change)]
