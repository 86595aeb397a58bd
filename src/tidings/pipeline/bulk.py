"""Paths of millions of ids: the same reports as one search for each, at the price of one for each *kind* of id.

Two ids of one origin have the same path if nothing can tell them apart: the same filters are to be asked about both
(they lie between the same two *breaks*, moments at which a filter begins or ends to match, or a peer comes or goes) and
the same filters hold both. So ids are sorted by origin and time, each filter is asked once about the run of ids it
is responsible for, and a search is made for one id of each kind with what the filters said:

    ids, sorted      ...aaaabbbbbbbbcccdddddddd...
    breaks             |   |       |  |                     from ranges of filters and changes of attachments
    filter B1        ───────────────                        contains(run of ids), one call of the kernel
    filter B2               ─────────────────

A kind is a 64-bit number: a hash of the epoch, xor one of each history that holds the id (Zobrist 1970). Two of a
million kinds collide with a probability of 3e-8.

Searches are those of `tidings.tracking.query.path`. Kinds that differ only in probabilities share one search: the order
of questions and the shape of the report depend on verdicts, neighbours and names, so searches are remembered as a tree
of questions, and probabilities are filled in.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.kernel.hash64 import hash64, mix64
from tidings.model.message_id import MessageId
from tidings.pipeline.distinct import Indices, distinct
from tidings.pipeline.filter_cache import BrokerFilterCache, CachedFilter, FilterCache
from tidings.tracking.ids import IdArray, id_origins, id_times
from tidings.tracking.query.path import Hop, Path, PathSearch
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import UNKNOWN_ORIGIN, HistoryKind, Key, efpp
from tidings.tracking.recording.recorder import PASSING, TIME_MAX_MS, Recorder, TrackingSettings, keys_of
from tidings.tracking.trace_answer import Statement, TraceAnswer, TraceVerdict

NO_RECORDS = "no records of this broker"
RANKS_MAX = 1 << 15  # origins that fit beside a time of 48 bits into 63


class Hits(NamedTuple):
    """The ids of an origin that a history holds, as ascending places in the sorted run."""

    broker: int
    key: Key
    places: Indices


class _Attached(NamedTuple):
    """The peers attached to a broker around a moment, with flags for missing records."""

    neighbours: tuple[int, ...]
    subscribers: tuple[str, ...]
    incomplete: bool
    forwards_known: bool  # no records of a later time are missing either


@dataclass(slots=True)
class Circumstances:
    """Data shared by all ids of one origin within one epoch, at one broker."""

    neighbours: tuple[int, ...]
    incomplete: bool
    forwards_known: bool
    passing: tuple[float, int]  # probability, number of filters
    forwards: dict[str, tuple[float, int]]
    subscribers: dict[str, tuple[float, int]]
    answers: dict[frozenset[Key], TraceAnswer] = field(default_factory=dict)


@dataclass(slots=True)
class _Question:
    """A node in the tree of searches: the broker to ask next, and the next node for each sort of answer."""

    broker: int
    then: dict[Any, "_Question | Path"] = field(default_factory=dict)


class Tracer:
    def __init__(
        self,
        cache: FilterCache,
        changes: Mapping[int, list[Attachment]],
        settings: TrackingSettings,
        since_ms: Mapping[int, int] | None = None,
    ) -> None:
        self._cache, self._settings = cache, settings
        self._left = {broker for broker, own in changes.items() if len(_without_publishers(own)) < len(own)}
        changes = {broker: _without_publishers(own) for broker, own in changes.items()}
        self._recorders: dict[int, tuple[Recorder, BrokerFilterCache]] = {}
        for broker in sorted(changes):
            recorder = Recorder(broker, replace(settings, attachments_max=None), -1)
            recorder.start(TIME_MAX_MS, changes[broker], cache.stored.get(broker, {}))
            self._recorders[broker] = recorder, BrokerFilterCache(cache, (since_ms or {}).get(broker, 0))
        self._moments = sorted(self._breaks_of_all(changes))
        self._origins: dict[int, tuple[NDArray[np.int64], list[tuple[int, Key, list[CachedFilter]]]]] = {}
        self._around: dict[tuple[int, int, int], Circumstances] = {}
        self._attached_at: dict[tuple[int, int], _Attached] = {}
        self._breaks: dict[tuple[int, Key], list[int]] = {}
        self._asked_at: dict[tuple[int, Key, int], tuple[float, int]] = {}
        self._trees: dict[int, _Question | Path] = {}
        self._known: dict[tuple[int, int], int] = {}  # origin and kind -> number of the path

    def trace(self, ids: IdArray) -> tuple[NDArray[np.int64], list[Path]]:
        """The number of each id's path, and the paths that are new: numbers rise from 0.

        A path's message is one of those that took it.
        """
        origins, times = id_origins(ids), id_times(ids)
        order = _by_origin_and_time(origins, times)
        ids, origins, times = ids[order], origins[order], times[order]
        numbers, fresh = np.empty(len(ids), np.int64), list[Path]()
        starts = np.flatnonzero(np.diff(origins, prepend=-1))
        for start, end in pairwise([*starts.tolist(), len(ids)]):
            found, own = self._trace_origin(int(origins[start]), ids[start:end], times[start:end])
            numbers[order[start:end]] = found
            fresh += own
        return numbers, fresh

    def trace_one(self, message: MessageId) -> Path:
        """The reference for `trace`: a plain search for one id."""
        search = self._search(message)
        asked = search.start()
        while asked:
            broker = asked.pop().broker
            known = self._recorders.get(broker)
            answer = None if known is None else known[0].answer(message, known[1])
            asked += search.failed(broker, NO_RECORDS) if answer is None else search.answered(answer)
        return search.report()

    def _search(self, message: MessageId) -> PathSearch:
        """A search; if the origin has no records it asks all brokers that have some, like a live one."""
        return PathSearch(message, dict.fromkeys(self._recorders, ()))

    # --- one origin -----------------------------------------------------------------------------------------------

    def _trace_origin(self, origin: int, ids: IdArray, times: NDArray[np.int64]) -> tuple[Indices, list[Path]]:
        breaks, histories = self._of_origin(origin)
        epochs = np.searchsorted(breaks, times, "right")
        kinds = _mixed(epochs)
        hits = self._hits(histories, ids, times)
        for hit in hits:
            kinds[hit.places] ^= np.uint64(_number(hit.broker, hit.key))
        values, firsts, indices = distinct(kinds)
        named = [(origin, kind) for kind in values.tolist()]
        places = [place for name, place in zip(named, firsts.tolist(), strict=True) if name not in self._known]
        for name in named:
            self._known.setdefault(name, len(self._known))
        fresh = []
        for place, keys in zip(places, _held(hits, np.array(places, np.int64)), strict=True):
            message = MessageId.from_bytes(ids[place].tobytes())
            fresh.append(self._path(message, int(epochs[place]), keys))
        return np.array([self._known[name] for name in named], np.int64)[indices], fresh

    def _hits(
        self, histories: list[tuple[int, Key, list[CachedFilter]]], ids: IdArray, times: NDArray[np.int64]
    ) -> list[Hits]:
        """Passing histories come first: forwards and deliveries are asked only about what passed their broker."""
        passed: dict[int, Indices] = {}
        found = []
        for broker, key, entries in histories:
            within = None if key.kind in (HistoryKind.PUBLISH, HistoryKind.ROUTE) else passed.get(broker)
            if within is None and key.kind in (HistoryKind.FORWARD, HistoryKind.DELIVER):
                continue
            places = _places(entries, ids, times, within)
            if within is None:
                passed[broker] = np.union1d(passed[broker], places) if broker in passed else places
            if len(places):
                found.append(Hits(broker, key, places))
        return found

    def _of_origin(self, origin: int) -> tuple[NDArray[np.int64], list[tuple[int, Key, list[CachedFilter]]]]:
        """Its breaks, and the histories of its messages at all brokers, passing ones first."""
        if origin not in self._origins:
            kinds = [
                HistoryKind.PUBLISH,
                HistoryKind.ROUTE,
                *([HistoryKind.FORWARD] if self._settings.forwards else []),
                HistoryKind.DELIVER,
            ]
            own = [
                (broker, key, entries)
                for kind in kinds
                for (broker, key), entries in self._cache.histories.items()
                if key.origin in (origin, UNKNOWN_ORIGIN) and key.kind is kind and broker in self._recorders
            ]
            moments = {at for _, _, entries in own for entry in entries for at in _ends(entry)}
            self._origins[origin] = np.array(sorted(moments.union(self._moments)), np.int64), own
        return self._origins[origin]

    def _breaks_of_all(self, changes: Mapping[int, list[Attachment]]) -> set[int]:
        """Moments at which attachments, or what is known to be missing, may change; too many do no harm."""
        skew, persist = self._settings.skew_between_brokers_ms, self._settings.persist_ms
        moments = {change.ms for own in changes.values() for change in own}
        stored = {ms for own in self._cache.stored.values() for ms in own.values()}
        around = moments | {ms - persist for ms in moments | stored}
        around |= {archive.since_ms for _, archive in self._recorders.values()}
        return {at + step for ms in around for at in (ms - skew, ms, ms + skew) for step in (0, 1)}

    # --- one kind -------------------------------------------------------------------------------------------------

    def _path(self, message: MessageId, epoch: int, held: Mapping[int, frozenset[Key]]) -> Path:
        at = self._trees.get(message.broker)
        answers: dict[int, TraceAnswer] = {}
        if at is None:
            at = self._trees[message.broker] = _Question(message.broker)
        while isinstance(at, _Question):
            answer, sort = self._answer(at.broker, message, epoch, held.get(at.broker, frozenset()))
            if answer is not None:
                answers[at.broker] = answer
            following = at.then.get(sort)
            if following is None:
                following = at.then[sort] = self._further(message, answers)
            at = following
        return _filled(at, message, answers)

    def _further(self, message: MessageId, answers: Mapping[int, TraceAnswer]) -> "_Question | Path":
        """Search with these answers until one is missing; the report if none is."""
        search = self._search(message)
        waiting = search.start()
        while waiting:
            broker = waiting.pop(0).broker
            if broker not in self._recorders:
                waiting += search.failed(broker, NO_RECORDS)
            elif broker in answers:
                waiting += search.answered(answers[broker])
            else:
                return _Question(broker)
        return search.report()

    def _answer(
        self, broker: int, message: MessageId, epoch: int, held: frozenset[Key]
    ) -> tuple[TraceAnswer | None, Any]:
        """The answer of the broker's recorder, and the part of it that decides how a search goes on."""
        if broker not in self._recorders:
            return None, None
        place = (message.broker, epoch, broker)
        around = self._around.get(place)
        if around is None:
            around = self._around[place] = self._circumstances(broker, message)
        answer = around.answers.get(held)
        if answer is None:
            said = _say(broker, around, held, self._settings.forwards)
            answer = around.answers[held] = replace(said, moved=broker in self._left)
        names = tuple(one.peer for one in answer.subscribers)
        return answer, (answer.verdict, answer.neighbours, answer.forwarded, names, answer.incomplete, answer.entered)

    def _circumstances(self, broker: int, message: MessageId) -> Circumstances:
        around = self._attached(broker, message.ms)
        forwards = around.neighbours if self._settings.forwards else ()
        origins = {message.broker, UNKNOWN_ORIGIN}
        late = {peer for origin in origins for peer in self._cache.stragglers(broker, origin, message.ms)}
        passing = [self._asked_any(broker, kind, "", message) for kind in PASSING]
        return Circumstances(
            around.neighbours,
            around.incomplete,
            around.forwards_known,
            (efpp(wrong for wrong, _ in passing), sum(count for _, count in passing)),
            {str(n): self._asked_any(broker, HistoryKind.FORWARD, str(n), message) for n in forwards},
            {
                peer: self._asked_any(broker, HistoryKind.DELIVER, peer, message)
                for peer in sorted({*around.subscribers, *late})
            },
        )

    def _asked_any(self, broker: int, kind: HistoryKind, peer: str, message: MessageId) -> tuple[float, int]:
        found = [self._asked(broker, key, message.ms) for key in keys_of(kind, message, peer)]
        return efpp(wrong for wrong, _ in found), sum(count for _, count in found)

    def _attached(self, broker: int, moment: int) -> _Attached:
        place = (broker, bisect_right(self._moments, moment))
        found = self._attached_at.get(place)
        if found is None:
            recorder, archive = self._recorders[broker]
            probe = MessageId(0, 2**32 - 1, moment)  # its answer holds for every id of this time
            inquiry = recorder.ask(probe)
            incomplete = recorder.resolve(inquiry, archive).incomplete
            forwards_known = not incomplete and not recorder.lost_since(probe)
            found = _Attached(inquiry.neighbours, inquiry.subscribers, incomplete, forwards_known)
            self._attached_at[place] = found
        return found

    def _asked(self, broker: int, key: Key, moment: int) -> tuple[float, int]:
        """Of the filters of a history that match a moment: the probability of an error, and how many they are."""
        history = self._cache.histories.get((broker, key))
        if history is None:
            return 0.0, 0
        breaks = self._breaks.get((broker, key))
        if breaks is None:
            breaks = self._breaks[broker, key] = sorted({at for entry in history for at in _ends(entry)})
        place = (broker, key, bisect_right(breaks, moment))
        found = self._asked_at.get(place)
        if found is None:
            asked = [self._cache.error(entry) for entry in self._cache.filters(broker, key, moment)]
            found = self._asked_at[place] = efpp(asked), len(asked)
        return found


def _without_publishers(changes: list[Attachment]) -> list[Attachment]:
    """They come and go by the million; of a path they change only that all brokers are asked once they have gone."""
    return [change for change in changes if change.kind is not AttachmentKind.PUBLISHER]


def _say(broker: int, around: Circumstances, held: frozenset[Key], forwards: bool) -> TraceAnswer:
    """As `Recorder.answer` does, for an id that these histories hold."""
    probability, filters = around.passing
    holds = {(key.kind, key.peer) for key in held}
    if not any((kind, "") in holds for kind in PASSING):
        verdict = TraceVerdict.UNKNOWN if around.incomplete else TraceVerdict.ABSENT
        return TraceAnswer(broker, verdict, 0.0, around.neighbours, None, (), filters, around.incomplete)
    filters += sum(count for _, count in (*around.forwards.values(), *around.subscribers.values()))
    forwarded = None
    if forwards and around.forwards_known:
        forwarded = tuple(n for n in around.neighbours if (HistoryKind.FORWARD, str(n)) in holds)
    subscribers = tuple(
        Statement(peer, wrong)
        for peer, (wrong, _) in around.subscribers.items()
        if (HistoryKind.DELIVER, peer) in holds
    )
    statements = (around.neighbours, forwarded, subscribers)
    entered = (HistoryKind.PUBLISH, "") in holds
    return TraceAnswer(broker, TraceVerdict.HELD, probability, *statements, filters, around.incomplete, entered=entered)


def _filled(shape: Path, message: MessageId, answers: Mapping[int, TraceAnswer]) -> Path:
    """The report of a search that went the same way, with this one's probabilities."""
    return Path(
        message,
        shape.confirmed,
        tuple([_hop(hop, answers.get(hop.broker)) for hop in shape.hops]),
        tuple([_hop(hop, answers.get(hop.broker)) for hop in shape.false_positives]),
        shape.unasked,
        shape.unknown,
        shape.asked,
        sum([answer.filters for answer in answers.values()]),
        shape.entered,
    )


def _hop(hop: Hop, answer: TraceAnswer | None) -> Hop:
    if answer is None or answer.verdict is not TraceVerdict.HELD:
        return hop
    return Hop(
        hop.broker, hop.sender, answer.probability, answer.subscribers, hop.other_senders, hop.opaque, hop.suspect
    )


def _places(entries: list[CachedFilter], ids: IdArray, times: NDArray[np.int64], within: Indices | None) -> Indices:
    """The places of ids that one of these filters holds; only those `within`, if given."""
    low, high = int(times[0]), int(times[-1])
    own = times if within is None else times[within]
    held = np.zeros(len(own), np.bool_)
    for entry in entries:
        ranges = [] if entry.span is None or entry.span[1] < low or entry.span[0] > high else [entry.span]
        ranges += [(one, one) for one in entry.singles if low <= one <= high]
        for first, last in ranges:
            start, end = np.searchsorted(own, [first, last + 1]).tolist()
            if start < end:
                held[start:end] |= entry.opened().contains(ids[start:end] if within is None else ids[within[start:end]])
    places = np.flatnonzero(held)
    return places if within is None else within[places]


def _held(hits: list[Hits], places: Indices) -> list[dict[int, frozenset[Key]]]:
    """For each of some ids, by broker, the histories that hold it."""
    keys: list[dict[int, list[Key]]] = [{} for _ in range(len(places))]
    for hit in hits:
        for i in np.flatnonzero(np.isin(places, hit.places, assume_unique=True)).tolist():
            keys[i].setdefault(hit.broker, []).append(hit.key)
    return [{broker: frozenset(own) for broker, own in one.items()} for one in keys]


def _ends(entry: CachedFilter) -> list[int]:
    ends = [] if entry.span is None else [entry.span[0], entry.span[1] + 1]
    return ends + [at for one in entry.singles for at in (one, one + 1)]


def _by_origin_and_time(origins: NDArray[np.int64], times: NDArray[np.int64]) -> Indices:
    """The order; ids of few origins are sorted by one number each, which is several times as fast."""
    brokers = np.unique(origins[:: max(1, len(origins) // 1000)])  # few are enough to see whether there are few
    for _ in range(2):
        ranks = np.searchsorted(brokers, origins)
        if len(brokers) <= RANKS_MAX and np.array_equal(brokers.take(ranks, mode="clip"), origins):
            return np.argsort(ranks << 48 | times)  # times have 48 bits
        brokers = np.unique(origins)
    return np.lexsort((times, origins))


def _mixed(numbers: Indices) -> NDArray[np.uint64]:
    """splitmix64 of each."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _number(broker: int, key: Key) -> int:
    """A history's own 64 bits."""
    return hash64(f"{broker} {key.kind.value} {key.origin} {key.peer}".encode(), mix64(broker))
