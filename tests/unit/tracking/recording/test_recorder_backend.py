import random

import pytest

from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.recording.history import BloomSettings, FilterEncoding, HistoryEntry, HistoryKind, Key, Mode
from tidings.tracking.recording.log_codec import decode_ids
from tidings.tracking.recording.recorder_backend import KernelBackend, PlainBackend
from tidings.tracking.recording.strategies import AsyncStrategy, BloomStrategy, NoStrategy, RunStrategy, Strategy

START_MS = 1_762_000_000_000
STRATEGIES: dict[str, Strategy] = {
    "retain": BloomStrategy(BloomSettings(40, 1024, 5, skew_ms=20, jitter_ms=10)),
    "rotate": BloomStrategy(BloomSettings(300, 8192, 7, skew_ms=20, jitter_ms=10, mode=Mode.ROTATE)),
    "young": BloomStrategy(BloomSettings(400, 16384, 5, skew_ms=20, jitter_ms=10)),
    "growing": BloomStrategy(BloomSettings(40, 1024, 5, skew_ms=20, jitter_ms=10, bits_max=16384)),
    "growing, not by powers of two": BloomStrategy(BloomSettings(30, 960, 7, 40, 10, Mode.ROTATE, bits_max=8000)),
    "one": BloomStrategy(BloomSettings(1, 64, 64, skew_ms=0)),
    "async": AsyncStrategy(50 * 16, skew_ms=20, jitter_ms=10),
    "runs": RunStrategy(skew_ms=20, jitter_ms=10, capacity=50),
    "long runs": RunStrategy(skew_ms=20, jitter_ms=10, capacity=6000),
}


def plain(entry: HistoryEntry) -> tuple[object, ...]:
    """All that must be the same; sequence numbers are each one's own."""
    data = decode_ids(entry.data).tobytes() if entry.encoding is FilterEncoding.IDS else entry.data
    identity = (entry.key.kind.value, entry.key.origin, entry.key.peer, entry.incarnation, entry.encoding.value)
    times = (entry.span, entry.singles, entry.opened_ms, entry.stored_ms)
    return (*identity, times, entry.count, entry.full, data)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_keeps_the_books_that_plain_python_keeps(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    options = {"persist_ms": 200, "forwards": seed % 2 == 0}
    books = PlainBackend(1, STRATEGIES[name], 7, **options)  # type: ignore[arg-type]
    kernel = KernelBackend(1, STRATEGIES[name], 7, **options)  # type: ignore[arg-type]
    now_ms, counter, asked = START_MS, 0, []
    for _ in range(150):
        now_ms += rng.choice((0, 1, 5, 60, -20))
        ids = []
        for _ in range(rng.choice((0, 1, 3, 20, 300))):
            counter += 1
            strayed = now_ms + rng.choice((0, 0, 0, -15, 15, -5000, 400))
            ids.append(MessageId(rng.randrange(5), rng.choice((1, 2, 3, 4_000_000_000)), strayed, counter % 65536))
        kind, peer = rng.choice(
            ((HistoryKind.PUBLISH, ""), (HistoryKind.ROUTE, ""), (HistoryKind.FORWARD, "2"), (HistoryKind.DELIVER, "a"))
        )
        if kind is HistoryKind.DELIVER:
            peer = rng.choice("abc")
        batch = b"".join(map(bytes, ids))
        books.add(kind, peer, batch, now_ms)
        kernel.add(kind, peer, batch, now_ms)
        asked += rng.sample(ids, min(2, len(ids)))
        for message in rng.sample(asked, min(3, len(asked))):
            for key in (
                Key(kind, message.broker, peer),
                Key(HistoryKind.PUBLISH, 1),
                Key(HistoryKind.DELIVER, message.broker, "b"),
            ):
                one, other = (each.find(key, message, now_ms) for each in (books, kernel))
                assert (one is None) == (other is None)
                assert one is None or other is None or (one.held, one.fpp) == (other.held, other.fpp)
        if rng.random() < 0.05:
            gone = rng.choice("abc")
            stored, found = (each.end(HistoryKind.DELIVER, gone, now_ms) for each in (books, kernel))
        else:
            stored, found = (each.take(now_ms) for each in (books, kernel))
        assert sorted(map(plain, found), key=repr) == sorted(map(plain, stored), key=repr)
    assert sorted(map(plain, kernel.end_all(now_ms)), key=repr) == sorted(map(plain, books.end_all(now_ms)), key=repr)
    assert kernel.take(now_ms + 10_000) == []


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", range(4))
def test_subscribers_that_get_the_same_share_what_is_kept_and_part_unnoticed(name: str, seed: int) -> None:
    rng = random.Random(f"{name} {seed}")
    books = PlainBackend(1, STRATEGIES[name], 7, persist_ms=200)
    kernel = KernelBackend(1, STRATEGIES[name], 7, persist_ms=200)
    now_ms, counter, shared = START_MS, 0, 0
    there = {"all": 0, "all too": 0}  # subscribers, and which messages they do not get
    for round in range(20):
        now_ms += rng.choice((1, 5, 60))
        if len(there) < 6:
            there |= {f"{round} {number}": rng.choice((0, 0, 3, 50)) for number in range(2)}
        for _ in range(rng.choice((1, 20, 130, 300))):
            counter += 1
            strayed = now_ms - (
                rng.choice((25, 5000)) if rng.random() < 0.002 else 5
            )  # 25: late to some histories only
            one = bytes(MessageId(rng.randrange(5), rng.choice((1, 1, 1, 2)), strayed, counter))
            takers = [peer for peer, without in there.items() if not without or counter % without]
            for each in (books, kernel):
                each.add(HistoryKind.PUBLISH, "", one, now_ms)
                for peer in takers:
                    each.add(HistoryKind.DELIVER, peer, one, now_ms)
        if rng.random() < 0.1:
            gone = rng.choice(list(there))
            del there[gone]
            stored, found = (each.end(HistoryKind.DELIVER, gone, now_ms) for each in (books, kernel))
        else:
            stored, found = (each.take(now_ms) for each in (books, kernel))
        shared += len(found) - len({id(entry.data) for entry in found})
        assert sorted(map(plain, found), key=repr) == sorted(map(plain, stored), key=repr)
    assert sorted(map(plain, kernel.end_all(now_ms)), key=repr) == sorted(map(plain, books.end_all(now_ms)), key=repr)
    assert shared


@pytest.mark.parametrize("name", STRATEGIES)
def test_deadlines_follow_a_clock_that_was_set_back_when_a_subscriber_left(name: str) -> None:
    one, two = (bytes(MessageId(1, 2, START_MS, number)) for number in (1, 2))
    for backend in (PlainBackend, KernelBackend):
        books = backend(1, STRATEGIES[name], 7, persist_ms=200)
        books.add(HistoryKind.ROUTE, "", one, START_MS)
        books.add(HistoryKind.DELIVER, "a", two, START_MS)
        books.take(START_MS)
        books.end(HistoryKind.DELIVER, "a", START_MS - 50)
        assert books.take(START_MS + 149) == []
        assert [entry.key.kind for entry in books.take(START_MS + 150)] == (
            [HistoryKind.ROUTE] if name != "one" else []
        )


def test_numbers_of_a_process_are_never_used_twice() -> None:
    kernel = KernelBackend(1, STRATEGIES["rotate"], 1, persist_ms=10)
    seen: list[int] = []
    for round in range(20):
        for peer in "ab":
            kernel.add(HistoryKind.DELIVER, peer, bytes(MessageId(1, 2, START_MS + round)), START_MS + round)
        kernel.add(HistoryKind.ROUTE, "", bytes(MessageId(1, 2, START_MS + round)), START_MS + round)
        seen += [entry.sequence for entry in kernel.end(HistoryKind.DELIVER, "ab"[round % 2], START_MS + round)]
    seen += [entry.sequence for entry in kernel.end_all(START_MS)]
    assert len(seen) == len(set(seen)) > 20


def test_two_subscriptions_of_one_subscriber_are_one_delivery() -> None:
    kernel = KernelBackend(1, STRATEGIES["rotate"], 1)
    one = bytes(MessageId(1, 2, START_MS))
    kernel.add(HistoryKind.DELIVER, "a", one + one, START_MS)
    assert [entry.count for entry in kernel.end_all(START_MS)] == [1]


def test_there_are_no_books_without_a_strategy() -> None:
    with pytest.raises(UsageError, match="E_TRACKING_STRATEGY"):
        KernelBackend(1, NoStrategy(), 1)
