"""What a broker records it finds again: whatever clocks, jitter, retransmissions and restarts do."""

import random

import numpy as np
import pytest
from hardening.support.tracking import START_MS, World
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.ids import id_array
from tidings.tracking.plan.matching_set import TICK_MS, matching_set_max
from tidings.tracking.query.archive import MemoryArchive
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import BloomSettings, HistoryKind, Key, Mode, matching_set
from tidings.tracking.recording.recorder import Effect, Recorder, StoreAttachment, StoreEntries, TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy, NoStrategy, Strategy
from tidings.tracking.trace_answer import TraceVerdict

SMALL = BloomSettings(capacity=20, bits=640, hashes=12, skew_ms=15, jitter_ms=12)


def world(seed: int, mode: Mode = Mode.RETAIN, *, exact: bool = False, forwards: bool = False) -> World:
    bloom = BloomSettings(SMALL.capacity, SMALL.bits, SMALL.hashes, SMALL.skew_ms, SMALL.jitter_ms, mode)
    strategy: Strategy = AsyncStrategy(320, bloom.skew_ms, bloom.jitter_ms) if exact else BloomStrategy(bloom)
    wanted = TrackingSettings(strategy, persist_ms=40, skew_between_brokers_ms=30, forwards=forwards)
    return World(random.Random(seed), wanted, bloom)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(Mode), st.booleans(), st.booleans())
def test_no_false_negatives(seed: int, mode: Mode, exact: bool, forwards: bool) -> None:
    made = world(seed, mode, exact=exact, forwards=forwards)
    made.run(120, again=0.05, end=0.03)
    for broker, truth in made.truth.items():
        held = truth.held()
        for key, messages in held.items():
            for message in messages:
                answer = made.recorders[broker].answer(message, made.archive)
                match key.kind:
                    case HistoryKind.PUBLISH | HistoryKind.ROUTE:
                        assert answer.verdict is TraceVerdict.HELD
                    case HistoryKind.DELIVER if answer.verdict is TraceVerdict.HELD:
                        assert key.peer in [one.peer for one in answer.subscribers]
                    case HistoryKind.FORWARD if answer.verdict is TraceVerdict.HELD:
                        assert answer.forwarded is None or int(key.peer) in answer.forwarded


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(Mode))
def test_what_died_in_memory_is_never_denied(seed: int, mode: Mode) -> None:
    made = world(seed, mode)
    made.run(100, end=0.05)
    for broker, truth in made.truth.items():
        for key, messages in truth.lost.items():
            for message in messages:
                answer = made.recorders[broker].answer(message, made.archive)
                assert answer.verdict is not TraceVerdict.ABSENT
                named = {one.peer for one in answer.subscribers}
                assert key.kind is not HistoryKind.DELIVER or key.peer in named or answer.incomplete


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.floats(0, 0.1))
def test_matching_sets_never_exceed_the_bound(seed: int, again: float) -> None:
    made = world(seed)
    made.run(200)
    # One message a millisecond at most, whatever its origin: n of them take at least n ms.
    bound = matching_set_max(SMALL.skew_ms, SMALL.jitter_ms + TICK_MS, lifetime_ms=SMALL.capacity)
    for broker, truth in made.truth.items():
        for key, messages in truth.held().items():
            sizes = [len(made.archive.matching(broker, key, message.ms)) for message in messages]
            assert max(sizes) <= bound
    made.run(100, again=again)  # retransmissions are stragglers: they match at their own millisecond only
    for broker, truth in made.truth.items():
        for key, messages in truth.held().items():
            for message in messages:
                found = made.archive.matching(broker, key, message.ms)
                assert len([entry for entry in found if message.ms not in entry.singles]) <= bound


@given(st.integers(0, 2**32))
def test_traces_are_the_routes(seed: int) -> None:
    made = world(seed, forwards=seed % 2 == 0)
    made.run(60)
    for message, wanted in made.sent[::7]:
        path = made.trace(message)
        route = made.route(message, wanted)
        found = {hop.broker: hop.sender for hop in path.hops}
        assert path.confirmed
        assert path.complete
        assert all(found[broker] == sender for broker, sender in route.items())
        assert {f"s{broker}" for broker in wanted} <= {one.peer for _, one in path.subscribers}
        assert all(0 <= hop.probability < 0.1 for hop in path.hops)


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_search_goes_around_whom_it_cannot_ask(seed: int, gone: int) -> None:
    made = world(seed)
    made.run(40)
    for message, wanted in made.sent[::9]:
        path = made.trace(message, unreachable=[gone])
        route = made.route(message, wanted)
        hops = {hop.broker: hop for hop in path.hops}
        assert route.keys() - {gone} <= hops.keys()
        assert path.unasked == ({gone: "no route"} if gone in path.unasked else {})
        assert path.confirmed == (message.broker != gone)
        if gone in route and any(sender == gone for sender in route.values()):
            assert hops[gone].opaque


def stored(effects: list[Effect]) -> list[StoreEntries]:
    return [effect for effect in effects if isinstance(effect, StoreEntries)]


def test_messages_are_recorded_by_origin() -> None:
    recorder = Recorder(1, TrackingSettings(), incarnation=1)
    ids = id_array(
        MessageId(9, 1, START_MS), MessageId(9, 2, START_MS), MessageId(9, 3, START_MS), MessageId(8, 2, START_MS)
    )
    recorder.published(ids[:1], START_MS)
    recorder.routed(ids, START_MS)
    entries = [effect.entry for effect in stored(recorder.close(START_MS + 5))]
    assert [(entry.key, entry.count) for entry in entries] == [
        (Key(HistoryKind.PUBLISH, 1), 1),
        (Key(HistoryKind.ROUTE, 1), 1),
        (Key(HistoryKind.ROUTE, 2), 2),
        (Key(HistoryKind.ROUTE, 3), 1),
    ]
    assert recorder.routed(b"", START_MS) == []
    assert recorder.forwarded(2, ids, START_MS) == []  # not wanted


@pytest.mark.parametrize("mode", Mode)
def test_t_p_stores_what_is_dirty_once(mode: Mode) -> None:
    recorder = Recorder(1, TrackingSettings(BloomStrategy(BloomSettings(mode=mode)), persist_ms=100), incarnation=1)
    recorder.published(bytes(MessageId(9, 1, 1000)), 1000)
    recorder.routed(bytes(MessageId(9, 2, 1050)), 1050)
    assert recorder.tick(1099) == []
    assert [effect.entry.key.kind for effect in stored(recorder.tick(1100))] == [HistoryKind.PUBLISH]
    assert len(recorder.tick(1149)) == 0
    assert len(recorder.tick(2000)) == 1
    assert recorder.tick(9000) == []
    recorder.published(bytes(MessageId(9, 1, 9000)), 9000)
    (again,) = stored(recorder.tick(9100))
    assert (again.entry.count, again.entry.sequence == 0) == ((2, True) if mode is Mode.RETAIN else (1, False))


def test_a_clock_that_is_set_back_does_not_hold_up_t_p() -> None:
    recorder = Recorder(1, TrackingSettings(persist_ms=100), incarnation=1)
    recorder.published(bytes(MessageId(9, 1, 900_000)), 900_000)
    recorder.routed(bytes(MessageId(9, 2, 1000)), 1000)
    assert len(recorder.tick(1100)) == 2


def test_a_subscriber_that_leaves_and_comes_back_keeps_its_history() -> None:
    archive, recorder = MemoryArchive(), Recorder(1, TrackingSettings(), incarnation=1)
    recorder.start(START_MS)
    messages = [MessageId(9, 2, START_MS + i) for i in range(3)]
    for message in messages:
        effects = recorder.attach(AttachmentKind.SUBSCRIBER, "audit", message.ms)
        effects += recorder.routed(bytes(message), message.ms)
        effects += recorder.delivered("audit", bytes(message), message.ms)
        effects += recorder.detach(AttachmentKind.SUBSCRIBER, "audit", message.ms)
        archive.store(1, [effect.entry for effect in stored(effects)])
    assert [one.peer for m in messages for one in recorder.answer(m, archive).subscribers] == ["audit"] * 3
    assert recorder.detach(AttachmentKind.SUBSCRIBER, "audit", START_MS) == []
    assert recorder.memory_bytes == 3 * 16  # of the route alone, which is young


def test_copies_of_the_filter_in_memory_are_not_counted_twice() -> None:
    settings = TrackingSettings(BloomStrategy(), persist_ms=1)
    archive, recorder = MemoryArchive(), Recorder(1, settings, incarnation=1)
    message = MessageId(9, 1, START_MS)
    recorder.start(START_MS)
    recorder.published(bytes(message), START_MS)
    for later in range(1, 6):
        archive.store(1, [effect.entry for effect in stored(recorder.tick(START_MS + later))])
        recorder.published(bytes(MessageId(9, 1, START_MS, later)), START_MS + later)
    assert recorder.answer(message, archive).filters == 1
    assert len(matching_set(archive.matching(1, Key(HistoryKind.PUBLISH, 1), START_MS), START_MS)) == 1


def test_eras_that_ended_in_order_leave_no_gap() -> None:
    message = MessageId(9, 2, 50_000)
    for clean in (True, False):
        first = Recorder(1, TrackingSettings(persist_ms=100), incarnation=1)
        effects = first.start(10_000)
        if clean:
            effects += first.close(60_000)
        past = [effect.change for effect in effects if isinstance(effect, StoreAttachment)]
        second = Recorder(1, TrackingSettings(persist_ms=100), incarnation=2)
        second.start(70_000, past, {1: 20_000})
        verdict = second.answer(message, MemoryArchive()).verdict
        assert verdict is (TraceVerdict.ABSENT if clean else TraceVerdict.UNKNOWN)
        assert second.answer(MessageId(9, 2, 80_000), MemoryArchive()).verdict is TraceVerdict.ABSENT
        assert second.answer(MessageId(9, 2, 8_000), MemoryArchive()).verdict is TraceVerdict.UNKNOWN
        assert second.answer(message, MemoryArchive(since_ms=55_000)).verdict is TraceVerdict.UNKNOWN


def test_nothing_is_recorded_without_a_strategy() -> None:
    recorder = Recorder(1, TrackingSettings(NoStrategy()), incarnation=1)
    recorder.start(START_MS)
    assert recorder.published(np.zeros((5000, 16), np.uint8), START_MS) == []
    message = MessageId(9, 2, START_MS + 5000)
    assert recorder.answer(message, MemoryArchive()).verdict is TraceVerdict.UNKNOWN
    effects = [*recorder.start(START_MS), *recorder.close(START_MS + 9000)]
    assert stored(effects) == []
    past = [effect.change for effect in effects if isinstance(effect, StoreAttachment)]
    later = Recorder(1, TrackingSettings(), incarnation=2)
    later.start(START_MS + 20_000, past)
    assert later.answer(message, MemoryArchive()).verdict is TraceVerdict.UNKNOWN
    assert later.answer(MessageId(9, 2, START_MS + 21_500), MemoryArchive()).verdict is TraceVerdict.ABSENT


@pytest.mark.parametrize("killed", [False, True])
def test_a_time_without_a_strategy_between_two_with_one_is_a_gap(killed: bool) -> None:
    past: list[Attachment] = []
    strategies: list[Strategy] = [BloomStrategy(), NoStrategy()]
    for number, strategy in enumerate(strategies):
        era = Recorder(1, TrackingSettings(strategy), incarnation=number)
        effects = era.start(START_MS + 20_000 * number, past)
        effects += [] if killed and number == 1 else era.close(START_MS + 20_000 * number + 9000)
        past += [effect.change for effect in effects if isinstance(effect, StoreAttachment)]
    last = Recorder(1, TrackingSettings(), incarnation=2)
    last.start(START_MS + 40_000, past)

    def verdict(after_ms: int) -> TraceVerdict:
        return last.answer(MessageId(9, 2, START_MS + after_ms), MemoryArchive()).verdict

    assert [verdict(ms) for ms in (5000, 25_000, 45_000)] == [
        TraceVerdict.ABSENT,
        TraceVerdict.UNKNOWN,
        TraceVerdict.ABSENT,
    ]
    assert verdict(35_000) is (TraceVerdict.UNKNOWN if killed else TraceVerdict.ABSENT)


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="E_TRACKING_TIME"):
        TrackingSettings(persist_ms=0)
    with pytest.raises(UsageError, match="E_TRACKING_ATTACHMENTS"):
        TrackingSettings(attachments_max=0)


def test_who_is_forgotten_makes_answers_incomplete_and_not_wrong() -> None:
    settings = TrackingSettings(skew_between_brokers_ms=100, attachments_max=8)
    recorder, archive = Recorder(1, settings, incarnation=1), MemoryArchive()
    recorder.start(START_MS)
    sent: list[MessageId] = []
    for number in range(30):
        now_ms = START_MS + 1000 * (number + 1)
        message = MessageId(9, 1, now_ms)
        effects = recorder.attach(AttachmentKind.SUBSCRIBER, f"s{number}", now_ms)
        effects += recorder.published(bytes(message), now_ms)
        effects += recorder.delivered(f"s{number}", bytes(message), now_ms)
        effects += recorder.detach(AttachmentKind.SUBSCRIBER, f"s{number}", now_ms + 500)
        archive.store(1, [one.entry for one in stored(effects)])
        sent.append(message)
    assert len(recorder.attachments) <= 9
    answers = [recorder.answer(message, archive) for message in sent]
    assert all(answer.verdict is TraceVerdict.HELD for answer in answers)
    assert [len(answer.subscribers) for answer in answers] == [int(not answer.incomplete) for answer in answers]
    assert not answers[-1].incomplete
    assert answers[0].incomplete


def test_attachments_of_an_era_end_with_it() -> None:
    recorder = Recorder(1, TrackingSettings(), incarnation=2)
    past = [
        Attachment(AttachmentKind.ERA, "", 1000, attached=True, incarnation=1),
        Attachment(AttachmentKind.SUBSCRIBER, "audit", 1500, attached=True, incarnation=1),
    ]
    recorder.start(5000, past)
    assert recorder.attachments.between(AttachmentKind.SUBSCRIBER, 4000, 4000) == ["audit"]
    assert recorder.attachments.between(AttachmentKind.SUBSCRIBER, 5001, 9000) == []
