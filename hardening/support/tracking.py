"""A small world to test tracking in: brokers in a tree, messages that flow through it, and the truth about them.

Publishers' clocks stray by up to T_s, messages are late by up to T_j in all (order kept), old messages are sent again,
brokers end in order or are killed and restart from the stored data. The world knows what every broker recorded and
whether that was on disk when its process died, so it can tell what must be found again.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import assert_never

from tidings.model.message_id import MessageId, MessageIdSource
from tidings.tracking.query.archive import Archive, MemoryArchive
from tidings.tracking.query.path import Path, PathSearch
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import (
    BloomSettings,
    FilterEncoding,
    HistoryEntry,
    HistoryKind,
    Key,
    Mode,
    newest,
)
from tidings.tracking.recording.recorder import (
    Effect,
    Recorder,
    StoreAttachment,
    StoreEntries,
    StoreKeys,
    TrackingSettings,
)

START_MS = 1_762_000_000_000


@dataclass
class Truth:
    """Messages that one broker has recorded, by history."""

    safe: dict[Key, set[MessageId]] = field(default_factory=dict)
    lost: dict[Key, set[MessageId]] = field(default_factory=dict)
    growing: dict[Key, list[MessageId]] = field(default_factory=dict)  # in the filter in memory, in order

    def added(self, key: Key, message: MessageId) -> None:
        self.growing.setdefault(key, []).append(message)

    def stored(self, entry: HistoryEntry, *, closed: bool) -> None:
        ids = self.growing[entry.key]
        self.safe.setdefault(entry.key, set()).update(ids[: entry.count])
        if closed:
            del ids[: entry.count]

    def died(self) -> None:
        for key, ids in self.growing.items():
            gone = set(ids) - self.safe.get(key, set())
            self.lost.setdefault(key, set()).update(gone)
        self.growing = {}

    def held(self) -> dict[Key, set[MessageId]]:
        """Messages that a trace must find, by history."""
        keys = self.safe.keys() | self.growing.keys()
        return {key: self.safe.get(key, set()) | set(self.growing.get(key, ())) for key in keys}


class World:
    def __init__(self, rng: random.Random, settings: TrackingSettings, bloom: BloomSettings, brokers: int = 5) -> None:
        self.rng, self.settings, self.bloom = rng, settings, bloom
        self.now_ms = START_MS
        self.links: dict[int, set[int]] = {1: set()}
        for broker in range(2, brokers + 1):
            other = rng.randrange(1, broker)
            self.links[broker] = {other}
            self.links[other].add(broker)
        self.archive = MemoryArchive()
        self.changes: dict[int, list[Attachment]] = {broker: [] for broker in self.links}
        self.truth = {broker: Truth() for broker in self.links}
        # Half of the jitter is clocks, half is the way; what is constant between two brokers is harmless.
        self.offset_ms = {broker: rng.randint(0, bloom.jitter_ms // 4) for broker in self.links}
        self.incarnation = 0
        self.sources = {broker: MessageIdSource(100 + broker, broker) for broker in self.links}
        self.busy_ms = dict.fromkeys(((o, b) for o in self.links for b in self.links), 0)
        self.sent: list[tuple[MessageId, set[int]]] = []
        self.recorders: dict[int, Recorder] = {}
        for broker in self.links:
            self._start(broker)

    def clock(self, broker: int) -> int:
        return self.now_ms + self.offset_ms[broker]

    def run(self, messages: int, *, again: float = 0.0, end: float = 0.0) -> None:
        """Publish messages, no faster than n in T_f; send old ones again and end processes with these probabilities."""
        for _ in range(messages):
            self.now_ms += self.rng.randint(1, 3)
            for broker, recorder in self.recorders.items():
                self._apply(broker, recorder.tick(self.clock(broker)))
            self.publish(self.rng.choice(sorted(self.links)))
            if self.sent and self.rng.random() < again:
                self._spread(*self.rng.choice(self.sent))
            if self.rng.random() < end:
                self.restart(self.rng.choice(sorted(self.links)), killed=self.rng.random() < 0.7)

    def publish(self, origin: int) -> MessageId:
        strayed = self.clock(origin) + self.rng.randint(-self.bloom.skew_ms, self.bloom.skew_ms)
        message = self.sources[origin].next(strayed)
        assert message is not None
        now_ms = self.clock(origin)
        self.truth[origin].added(Key(HistoryKind.PUBLISH, origin), message)
        self._apply(origin, self.recorders[origin].published(bytes(message), now_ms))
        wanted = {broker for broker in self.links if self.rng.random() < 0.4}
        self.sent.append((message, wanted))
        self._spread(message, wanted)
        return message

    def restart(self, broker: int, *, killed: bool) -> None:
        if not killed:
            self._apply(broker, self.recorders[broker].close(self.clock(broker)))
        self.truth[broker].died()
        self.now_ms += self.rng.randint(1, 50)
        self._start(broker)

    def trace(self, message: MessageId, unreachable: Iterable[int] = (), archive: Archive | None = None) -> Path:
        search = PathSearch(message, self.links)
        questions = search.start()
        while questions:
            broker = questions.pop(self.rng.randrange(len(questions))).broker
            if broker in set(unreachable):
                questions += search.failed(broker, "no route")
            else:
                questions += search.answered(self.recorders[broker].answer(message, archive or self.archive))
        assert search.done
        return search.report()

    def route(self, message: MessageId, wanted: set[int]) -> dict[int, int | None]:
        """The brokers that a message passes, each with its sender."""
        senders: dict[int, int | None] = {message.broker: None}
        order = [message.broker]
        for broker in order:
            for other in sorted(self.links[broker] - senders.keys()):
                senders[other] = broker
                order.append(other)
        needed: set[int] = {message.broker}
        for target in wanted:
            at: int | None = target
            while at is not None:
                needed.add(at)
                at = senders[at]
        return {broker: senders[broker] for broker in order if broker in needed}

    def _start(self, broker: int) -> None:
        self.incarnation += 1
        recorder = self.recorders[broker] = Recorder(broker, self.settings, self.incarnation)
        stored = self.archive.stored_ms(broker)
        past = list(self.changes[broker])
        self._apply(broker, recorder.start(self.clock(broker), past, stored))
        for other in sorted(self.links[broker]):
            self._apply(broker, recorder.attach(AttachmentKind.NEIGHBOUR, str(other), self.clock(broker)))
        self._apply(broker, recorder.attach(AttachmentKind.SUBSCRIBER, f"s{broker}", self.clock(broker)))

    def _spread(self, message: MessageId, wanted: set[int]) -> None:
        """Through the tree, late by up to half of T_j in all, in order for each origin and broker."""
        route = self.route(message, wanted)
        for broker, sender in route.items():
            late_ms = self.rng.randint(0, self.bloom.jitter_ms // 2) if sender is not None else 0
            at_ms = max(self.clock(broker) + late_ms, self.busy_ms[message.broker, broker])
            self.busy_ms[message.broker, broker] = at_ms
            recorder, one = self.recorders[broker], bytes(message)
            if sender is not None:
                self.truth[broker].added(Key(HistoryKind.ROUTE, message.broker), message)
                self._apply(broker, recorder.routed(one, at_ms))
            for other in (b for b, s in route.items() if s == broker):
                if self.settings.forwards:
                    self.truth[broker].added(Key(HistoryKind.FORWARD, message.broker, str(other)), message)
                self._apply(broker, recorder.forwarded(other, one, at_ms))
            if broker in wanted:
                self.truth[broker].added(Key(HistoryKind.DELIVER, message.broker, f"s{broker}"), message)
                self._apply(broker, recorder.delivered(f"s{broker}", one, at_ms))

    def _apply(self, broker: int, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case StoreEntries(entry):
                    rotated = self.bloom.mode is Mode.ROTATE or self.settings.strategy.name == "runs"
                    rotated = rotated or entry.encoding is FilterEncoding.IDS
                    self.truth[broker].stored(entry, closed=entry.full or rotated)
                    self.archive.store(broker, [entry])
                case StoreAttachment(change):
                    self.changes[broker].append(change)
                case StoreKeys(batch):
                    self.archive.store_keys(broker, [batch])
                case _:
                    assert_never(effect)


def check_archive(
    make: Callable[[list[tuple[int, HistoryEntry]]], Archive], stored: list[tuple[int, HistoryEntry]]
) -> None:
    """Every archive gives the matching sets that the plain definition gives, at every time that matters."""
    archive = make(stored)
    moments = {m for _, e in stored for end in (*(e.span or ()), *e.singles) for m in (end - 1, end, end + 1)}
    for broker, key in {(broker, entry.key) for broker, entry in stored} | {(0, Key(HistoryKind.PUBLISH, 0))}:
        own = [entry for of, entry in stored if (of, entry.key) == (broker, key)]
        for moment in sorted(moments):
            found = archive.matching(broker, key, moment)
            expected = newest(entry for entry in own if entry.matches(moment))
            assert sorted(found, key=_identity) == sorted(expected, key=_identity)


def _identity(entry: HistoryEntry) -> tuple[int, int]:
    return entry.incarnation, entry.sequence
