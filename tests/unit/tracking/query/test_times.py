"""The time of each step lies within the bounds that a trace gives, however records were stored and merged."""

import random

import pytest

from tidings.model.message_id import MessageId
from tidings.tracking.draw.jaeger import to_jaeger
from tidings.tracking.draw.text import to_text
from tidings.tracking.query.archive import MemoryArchive
from tidings.tracking.query.codec import Answered, decode, encode
from tidings.tracking.query.path import Hop, Path, PathSearch
from tidings.tracking.query.path_json import from_json, to_json
from tidings.tracking.recording.attachments import AttachmentKind
from tidings.tracking.recording.compact import compact
from tidings.tracking.recording.history import BloomSettings
from tidings.tracking.recording.recorder import Recorder, StoreEntries, TrackingSettings
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy, RunStrategy, Strategy
from tidings.tracking.trace_answer import Statement, TraceAnswer, TraceVerdict

START_MS = 1_762_000_000_000
STRATEGIES: list[Strategy] = [RunStrategy(), AsyncStrategy(), BloomStrategy(BloomSettings(50, 4096, 12))]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=["runs", "async", "bloom"])
@pytest.mark.parametrize("seed", range(5))
def test_what_happened_happened_within_the_bounds(strategy: Strategy, seed: int) -> None:
    rng, archive = random.Random(seed), MemoryArchive()
    recorder = Recorder(3, TrackingSettings(strategy, persist_ms=1000), 1)
    recorder.start(START_MS)
    recorder.attach(AttachmentKind.SUBSCRIBER, "audit", START_MS)
    now_ms, came, given = START_MS, dict[MessageId, int](), dict[MessageId, int]()

    def store(effects: list[object]) -> None:
        archive.store(3, [effect.entry for effect in effects if isinstance(effect, StoreEntries)])

    for number in range(300):
        now_ms += rng.choice((0, 1, 5, 400))
        message = MessageId(rng.randrange(3), 1, now_ms - rng.randrange(50), number)
        store([*recorder.routed(bytes(message), now_ms)])
        came[message] = now_ms
        now_ms += rng.choice((0, 0, 3))
        store([*recorder.delivered("audit", bytes(message), now_ms)])
        given[message] = now_ms
        store([*recorder.tick(now_ms)])
        check(recorder, archive, message, came, given)
    if not isinstance(strategy, BloomStrategy):
        merged = MemoryArchive()
        merged.store(3, compact([entry for _, entry in archive.entries()]))
        archive = merged
    for message in came:
        check(recorder, archive, message, came, given)


def check(
    recorder: Recorder,
    archive: MemoryArchive,
    message: MessageId,
    came: dict[MessageId, int],
    given: dict[MessageId, int],
) -> None:
    answer = recorder.answer(message, archive)
    [audit] = answer.subscribers
    for between, truth_ms in ((answer.between, came[message]), (audit.between, given[message])):
        assert between is not None
        assert between[0] <= truth_ms <= between[1]
        assert between[0] >= message.ms - recorder._settings.skew_between_brokers_ms


def test_times_go_through_every_form() -> None:
    message, between = MessageId(7, 1, START_MS), (START_MS - 10, START_MS + 990)
    audit = Statement("audit", 0.0, (START_MS, START_MS + 1000))
    answer = TraceAnswer(1, TraceVerdict.HELD, subscribers=(audit,), entered=True, between=between)
    read = decode(encode(Answered(5, answer)))
    assert isinstance(read, Answered)
    assert (read.answer.between, read.answer.subscribers[0].between) == (between, audit.between)
    search = PathSearch(message)
    search.start()
    search.answered(read.answer)
    path = from_json(to_json(search.report()))
    [hop] = path.hops
    assert (hop.between, hop.subscribers[0].between) == (between, audit.between)
    assert to_text(path, times=True).splitlines()[1:] == [
        "broker 1 (origin, 0, −10 to +990 ms)",
        "└── ▸ audit (0, +0 to +1000 ms)",
    ]
    assert "ms)" not in to_text(path)
    first, second = to_jaeger([path])["data"][0]["spans"]
    assert (first["startTime"], first["duration"]) == (START_MS * 1000, 990_000)
    assert second["tags"][-1]["key"] == "bounds"


def test_where_no_record_tells_the_time_none_is_given() -> None:
    path = Path(MessageId(7, 1, START_MS), True, (Hop(1, None, 0.0),), (), {}, (), 1, 1)
    assert from_json(to_json(path)).hops[0].between is None
    assert "ms)" not in to_text(path, times=True)
