"""The tail keeps what was stored, merged, whatever happens to the process or the disk."""

import random
import struct
import zlib
from pathlib import Path

import pytest

from tidings.errors import StoreError
from tidings.kernel.exact_lists import LineFilter, RunIds
from tidings.model.message_id import MessageId
from tidings.model.tables import HISTORIES
from tidings.segments import tail as module
from tidings.segments.history_store import SEGMENT_BYTES, TAIL, TAIL_MS_MAX, HistoryStore
from tidings.segments.reader import segments
from tidings.segments.tail import Tail
from tidings.tracking.ids import id_array
from tidings.tracking.recording.history import FilterEncoding, HistoryEntry, HistoryKind, Key

START_MS = 1_762_000_000_000
PUBLISHED, DELIVERED = Key(HistoryKind.PUBLISH, 1), Key(HistoryKind.DELIVER, 1, "audit")


def entry(
    key: Key, sequence: int, ids: list[MessageId], *, incarnation: int = 1, late: tuple[int, ...] = ()
) -> HistoryEntry:
    times = [one.ms for one in ids]
    span = (min(times), max(times))
    data = RunIds.of(id_array(*ids)).to_bytes()
    about = (span, late, len(ids), False, FilterEncoding.RUNS, data, min(times), max(times) + 5)
    return HistoryEntry(key, sequence, *about, incarnation)


def ids_at(second: int, count: int = 1) -> list[MessageId]:
    return [MessageId(7, 1, START_MS + 1000 * second + number) for number in range(count)]


def held(tail: Tail, key: Key, message: MessageId) -> bool:
    return any(one.opened().contains(bytes(message))[0] for one in tail.matching(key, message.ms))


def test_one_message_a_second_takes_four_bytes(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "tail", 1)
    sent = []
    for second in range(60):
        ids = ids_at(second)
        sent += ids
        tail.append([entry(PUBLISHED, second, ids), entry(DELIVERED, 100 + second, ids)])
        assert (tmp_path / "tail").stat().st_size == tail.bytes
    assert tail.bytes <= 4 * len(sent)
    assert len(tail.entries) == 2
    for again in (tail, Tail(tmp_path / "tail", 1)):
        assert all(held(again, key, message) for key in (PUBLISHED, DELIVERED) for message in sent)
        assert not held(again, PUBLISHED, MessageId(8, 1, sent[5].ms))
        assert again.stored_ms() == {1: sent[-1].ms + 5}


@pytest.mark.parametrize("seed", range(5))
def test_what_was_appended_is_read_again(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when appends that failed, or that the process did not survive, have left half a batch."""
    monkeypatch.setattr(module, "REWRITE_BYTES", 300)
    rng, path = random.Random(seed), tmp_path / "tail"
    tail, kept = Tail(path, 1), dict[Key, list[MessageId]]()
    for step in range(60):
        batch = []
        for number in range(rng.randrange(1, 4)):
            key = rng.choice(
                (PUBLISHED, DELIVERED, Key(HistoryKind.ROUTE, rng.randrange(3, 5)), Key(HistoryKind.FORWARD, 3, "4"))
            )
            ids = [
                MessageId(rng.randrange(9), key.origin, START_MS + step * 1000 + rng.randrange(900), n)
                for n in range(rng.randrange(1, 40))
            ]
            kept.setdefault(key, []).extend(ids)
            batch.append(entry(key, 10 * step + number, ids, late=(5, 9) if rng.random() < 0.1 else ()))
        if rng.random() < 0.2:
            lines = LineFilter.of(id_array(*ids_at(step, 50)), 3).to_bytes()
            batch.append(
                HistoryEntry(
                    Key(HistoryKind.ROUTE, 9), step, None, (5,), 50, True, FilterEncoding.LINES, lines, 4, 6, 2
                )
            )
        tail.append(batch)
        if rng.random() < 0.3:
            with path.open("ab") as file:
                file.write(rng.randbytes(rng.randrange(30)))
            if rng.random() < 0.5:
                before, tail = tail.entries, Tail(path, 1)
                assert tail.entries == before
    assert all(held(tail, key, message) for key, ids in kept.items() for message in ids)


def test_entries_of_two_processes_stay_apart(tmp_path: Path) -> None:
    """When each of them last stored something tells where a gap begins."""
    tail = Tail(tmp_path / "tail", 1)
    tail.append([entry(PUBLISHED, 0, ids_at(0))])
    tail.append([entry(PUBLISHED, 0, ids_at(9), incarnation=2)])
    assert tail.stored_ms() == {1: ids_at(0)[0].ms + 5, 2: ids_at(9)[0].ms + 5}


def test_bytes_that_are_no_entries_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / TAIL
    batch = b"\x00\x01\xff"
    path.write_bytes(module.MAGIC + struct.pack("<II", len(batch), zlib.crc32(batch)) + batch)
    with pytest.raises(StoreError, match="E_STORE_DAMAGED"):
        Tail(path, 1)
    store = HistoryStore(tmp_path, 1)
    store.recover(START_MS)
    assert [error.code for error in store.archive.damaged] == ["E_STORE_DAMAGED"]
    assert store.archive.since_ms == START_MS
    store.close()


def test_a_tail_becomes_a_segment_when_it_is_large_old_or_left(tmp_path: Path) -> None:
    def names() -> int:
        return len(segments(tmp_path, HISTORIES))

    store = HistoryStore(tmp_path, 1)
    store.recover(START_MS)
    many = [
        MessageId(number * 2_654_435_761 % 2**29, 1, START_MS + number % 100_003)
        for number in range(SEGMENT_BYTES // 2)
    ]
    store.append([], [entry(PUBLISHED, 0, ids_at(0))], START_MS + 10)
    assert (names(), (tmp_path / TAIL).exists()) == (0, True)
    store.append([], [entry(PUBLISHED, 1, many)], START_MS + 20)
    assert (names(), (tmp_path / TAIL).exists()) == (1, False)
    store.append([], [entry(PUBLISHED, 2, ids_at(1))], START_MS + 30)
    store.append([], [entry(PUBLISHED, 3, ids_at(2))], START_MS + 1000 + TAIL_MS_MAX + 31)
    assert (names(), (tmp_path / TAIL).exists()) == (2, False)
    store.append([], [entry(PUBLISHED, 4, ids_at(9999))], START_MS + 40)
    store.close()
    assert (names(), (tmp_path / TAIL).exists()) == (3, False)
    store = HistoryStore(tmp_path, 1, tail_ms_max=1000)
    for message in (*ids_at(0), many[77], *ids_at(1), *ids_at(2), *ids_at(9999)):
        found = store.archive.matching(1, PUBLISHED, message.ms)
        assert any(one.opened().contains(bytes(message))[0] for one in found)
    store.append([], [entry(PUBLISHED, 5, ids_at(20))], START_MS + 20_010)
    store.append([], [entry(PUBLISHED, 6, ids_at(20, 5)[4:])], START_MS + 20_900)
    assert (names(), (tmp_path / TAIL).exists()) == (3, True)
    store.append([], [entry(PUBLISHED, 7, ids_at(21))], START_MS + 21_510)
    assert (names(), (tmp_path / TAIL).exists()) == (4, False)
    store.close()
