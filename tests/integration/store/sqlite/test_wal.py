"""SQLite's write-ahead log through our eyes: the same checksums, cut off, damaged."""

from pathlib import Path

import numpy as np
import pytest

from tidings.delivery.store import MailboxAdded, Stored
from tidings.store.sqlite import wal
from tidings.store.sqlite.salvage import PAGE_BYTES
from tidings.store.sqlite.store import SqliteStore

FRAME = wal.FRAME_BYTES + PAGE_BYTES


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    """A copy of the log of a store with a few batches."""
    store = SqliteStore(tmp_path / "store.db")
    store.append([MailboxAdded(1, "queue:a", "queue")])
    for seq in range(1, 6):
        store.append([Stored(seq, bytes([seq]) * 9000, (1,))])
    copy = tmp_path / "copy"
    copy.write_bytes((tmp_path / "store.db-wal").read_bytes())
    store.close()
    return copy


def flip(path: Path, at: int) -> wal.WriteAheadLog:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)
    log = wal.read(path, PAGE_BYTES)
    assert log is not None
    return log


def test_our_checksums_are_sqlites(path: Path) -> None:
    log = wal.read(path, PAGE_BYTES)
    assert log is not None
    assert log.header_sound
    assert log.sound.all()
    assert log.proven() is None


def test_a_log_that_ends_early_is_not_damaged(path: Path) -> None:
    data = path.read_bytes()
    for size in range(0, len(data), 1111):
        path.write_bytes(data[:size])
        log = wal.read(path, PAGE_BYTES)
        assert log is None or log.proven() is None


@pytest.mark.parametrize("at", [0, 3, 8, 17, 30, 32, 36, 41, 50, 60, 4000])
def test_damage_in_the_middle_is_passed_over(path: Path, at: int) -> None:
    frames = (path.stat().st_size - 32) // FRAME
    for offset in (0, FRAME, 2 * FRAME) if at >= 32 else (0,):
        whole = path.read_bytes()
        log = flip(path, at + offset)
        assert log.proven() == frames
        wal.rewrite(log, path, path.with_name("mended"), frames, PAGE_BYTES)
        mended = wal.read(path.with_name("mended"), PAGE_BYTES)
        assert mended is not None
        assert mended.header_sound
        assert mended.sound.all()
        path.write_bytes(whole)


def test_damage_at_the_end_proves_nothing(path: Path) -> None:
    assert flip(path, path.stat().st_size - 100).proven() == 0


def test_an_old_commit_inside_a_torn_transaction_ends_nothing() -> None:
    """Power failures, seed 4244: where a write had not arrived, the last frame of an old transaction was left."""
    salts, others = (7, 8), (6, 99)
    frames = [(1, 44, *salts, 0, 0), (1, 0, *salts, 0, 0), (15, 24, *others, 0, 0), (2, 0, *salts, 0, 0)]
    frames += [(3, 0, *salts, 0, 0), (4, 53, *salts, 0, 0)]
    sound = np.array([True, True, False, False, True, False])
    fields = np.array(frames, np.uint32)
    log = wal.WriteAheadLog(
        (0, 0, 0, 0, *salts, 0, 0), True, fields, np.zeros((6, 2), np.uint32), sound, np.eye(2, dtype=np.uint32)
    )
    assert log.proven() == 0  # its last transaction is bad, and nothing behind it tells otherwise
