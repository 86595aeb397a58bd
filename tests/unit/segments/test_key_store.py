"""Notes of keys are found again, whatever happens to the process or the disk."""

import random
from pathlib import Path

import pytest

from tidings.errors import StoreError
from tidings.model.message_id import MessageId
from tidings.segments import key_store as module
from tidings.segments.key_store import FILE_MS, FOLDER, KeyStore
from tidings.segments.retention import SegmentRetention
from tidings.tracking.recording.key_notes import KeyBatch, key_hash, query_hashes
from tidings.tracking.trace_answer import KeyQuery

START_MS = 1_762_000_000_000
FOREVER = SegmentRetention()


def batch(name: str, *notes: tuple[int, MessageId]) -> KeyBatch:
    hashes = b"".join(key_hash(name, value).to_bytes(8, "little") for value, _ in notes)
    return KeyBatch(name, hashes, b"".join(bytes(message) for _, message in notes))


def opened(root: Path, now_ms: int = START_MS, retention: SegmentRetention = FOREVER, *names: str) -> KeyStore:
    return KeyStore(root, names or ("order", "customer"), retention, now_ms)


def found(store: KeyStore, value: int, name: str = "order", **span: int) -> set[MessageId]:
    return set(store.find(1, KeyQuery(name, query_hashes(name, value), **{"count": 1000, **span})).messages)


@pytest.mark.parametrize("seed", range(5))
def test_what_was_appended_is_found_again(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(module, "REWRITE_BYTES", rng.choice((0, 500, 1 << 20)))
    monkeypatch.setattr(module, "FILE_BYTES", rng.choice((300, 2000, 1 << 20)))
    truth: dict[tuple[str, int], set[MessageId]] = {}
    store, now_ms = opened(tmp_path), START_MS
    for step in range(60):
        now_ms += rng.choice((1000, 1000, FILE_MS // 3))
        batches = []
        for name in rng.sample(("order", "customer"), rng.randint(1, 2)):
            made = [MessageId(rng.randrange(5), 1, now_ms + number, step) for number in range(rng.randint(1, 20))]
            notes = [(rng.randrange(10), id) for id in made]
            for value, id in notes:
                truth.setdefault((name, value), set()).add(id)
            batches.append(batch(name, *notes))
        store.append(batches, now_ms)
        if rng.random() < 0.2:
            store.append(batches, now_ms)  # written, but nobody was told: given again
        if rng.random() < 0.2:
            store = opened(tmp_path, now_ms)
    for again in (store, opened(tmp_path, now_ms)):
        for (name, value), ids in truth.items():
            assert found(again, value, name) == ids
            middle = sorted(id.ms for id in ids)[len(ids) // 2]
            assert found(again, value, name, first_ms=middle) == {id for id in ids if id.ms >= middle}
            assert found(again, value, name, last_ms=middle) == {id for id in ids if id.ms <= middle}
            newest = again.find(1, KeyQuery(name, query_hashes(name, value), count=3))
            assert newest.more == (len(ids) > 3)
            assert newest.since_ms == START_MS
            assert newest.recorded
        assert found(again, 11) == set()


def test_a_note_takes_ten_bytes(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for second in range(60):
        now_ms = START_MS + 1000 * second
        notes = [(1000 * second + number, MessageId(number % 20, 1, now_ms + number)) for number in range(1000)]
        store.append([batch("order", *notes)], now_ms)
    size = sum(path.stat().st_size for path in (tmp_path / FOLDER).iterdir())
    assert size <= 10 * 60_000


def test_a_write_that_was_cut_short_loses_nothing_that_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REWRITE_BYTES", 0)
    store, first, second = opened(tmp_path), MessageId(1, 1, START_MS), MessageId(1, 1, START_MS + 1)
    store.append([batch("order", *((number, first) for number in range(1)))], START_MS)
    store.append([batch("order", *((7, MessageId(1, 1, START_MS + 10 + n)) for n in range(500)))], START_MS)
    [path] = (tmp_path / FOLDER).glob("*.log")
    whole = path.read_bytes()
    path.write_bytes(whole + b"\x50\0\0\0\1\2\3\4half")
    store = opened(tmp_path)
    assert found(store, 0) == {first}
    assert len(found(store, 7)) == 500
    assert not store.damaged
    store.append([batch("order", (3, second))], START_MS)
    assert found(opened(tmp_path), 3) == {second}


def test_a_damaged_file_makes_the_time_before_unsure(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.append([batch("order", (1, MessageId(1, 1, START_MS)))], START_MS)
    later_ms = START_MS + 2 * FILE_MS
    store.append([batch("order", (1, MessageId(1, 1, later_ms)))], later_ms)
    first, _ = sorted((tmp_path / FOLDER).glob("*.log"))
    first.write_bytes(first.read_bytes()[:-1] + b"\0")
    store = opened(tmp_path, later_ms)
    [damage] = store.damaged
    assert damage.code == "E_STORE_DAMAGED"
    answer = store.find(1, KeyQuery("order", query_hashes("order", 1)))
    assert (len(answer.messages), answer.since_ms) == (1, later_ms)


def test_it_is_known_from_when_an_attribute_is_recorded(tmp_path: Path) -> None:
    def since(store: KeyStore, name: str) -> tuple[int, bool]:
        answer = store.find(1, KeyQuery(name, (1,)))
        return answer.since_ms, answer.recorded

    assert since(opened(tmp_path, START_MS, FOREVER, "order"), "order") == (START_MS, True)
    store = opened(tmp_path, START_MS + 5, FOREVER, "order", "customer")
    assert since(store, "order") == (START_MS, True)
    assert since(store, "customer") == (START_MS + 5, True)
    assert since(opened(tmp_path, START_MS + 6, FOREVER, "customer"), "order") == (0, False)
    assert since(opened(tmp_path, START_MS + 7, FOREVER, "order"), "order") == (START_MS + 7, True)


@pytest.mark.parametrize("limit", [SegmentRetention(age_ms_max=3 * FILE_MS), SegmentRetention(bytes_max=4 * 700)])
def test_retention_deletes_the_oldest_and_says_so(
    tmp_path: Path, limit: SegmentRetention, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 100)
    store = opened(tmp_path, START_MS, limit)
    for day in range(10):
        now_ms = START_MS + day * FILE_MS
        store.append([batch("order", *((1, MessageId(2, 1, now_ms + number)) for number in range(10)))], now_ms)
        store.retire(now_ms)
    for again in (store, opened(tmp_path, now_ms, limit)):
        answer = again.find(1, KeyQuery("order", query_hashes("order", 1), count=1000))
        assert START_MS < answer.since_ms <= answer.messages[0].ms
        assert 10 <= len(answer.messages) < 100


def test_a_full_disk_keeps_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, first = opened(tmp_path), MessageId(1, 1, START_MS)
    store.append([batch("order", (1, first))], START_MS)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "_replace", full)
        patched.setattr(module, "_append", full)
        with pytest.raises(StoreError, match="E_STORE_FULL"):
            store.append([batch("order", (1, MessageId(1, 1, START_MS + 1)))], START_MS)
    assert found(store, 1) == {first}
    store.append([batch("order", (1, MessageId(1, 1, START_MS + 1)))], START_MS)
    assert len(found(opened(tmp_path), 1)) == 2
