"""Retention by age and size."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.model.tables import ATTACHMENTS
from tidings.segments.names import SegmentName
from tidings.segments.reader import Segment, segments
from tidings.segments.retention import SegmentRetention, expired, mark, since_ms, sweep
from tidings.segments.writer import SegmentWriter

ROW = {"broker": 3, "incarnation": 1, "kind": "era", "peer": "", "ms": 1000, "attached": True}


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 100)), max_size=12),
    st.none() | st.integers(0, 1000),
    st.none() | st.integers(0, 600),
)
def test_the_oldest_go_until_both_limits_hold(made: list[tuple[int, int]], age: int | None, size: int | None) -> None:
    found = [(Segment(SegmentName(ms, "w", i, 0), Path("x")), n) for i, (ms, n) in enumerate(sorted(made))]
    gone = expired(found, SegmentRetention(age, size), now_ms=1000)
    kept = found[len(gone) :]
    assert [segment for segment, _ in found[: len(gone)]] == gone
    assert all(age is None or 1000 - segment.name.created_ms <= age for segment, _ in kept)
    assert size is None or sum(n for _, n in kept) <= size
    if gone:  # and no more than that
        last = found[len(gone) - 1]
        too_old = age is not None and 1000 - last[0].name.created_ms > age
        assert too_old or (size is not None and sum(n for _, n in kept) + last[1] > size)


def test_sweep(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, ATTACHMENTS, "b3")
    for ms in (1000, 2000, 3000, 4000):
        writer.append([ROW], now_ms=ms)
    each = segments(tmp_path, ATTACHMENTS)[0].path.stat().st_size
    assert sweep(tmp_path, ATTACHMENTS, SegmentRetention(), 10**9) == []
    assert [gone.name.created_ms for gone in sweep(tmp_path, ATTACHMENTS, SegmentRetention(age_ms_max=2500), 4000)] == [
        1000
    ]
    sweep(tmp_path, ATTACHMENTS, SegmentRetention(bytes_max=each * 3 // 2), 4000)
    assert [left.name.created_ms for left in segments(tmp_path, ATTACHMENTS)] == [4000]
    assert writer.append([ROW], now_ms=5000).exists()
    assert (tmp_path / "attachments" / "since-b3").read_text() == "0000000003001"
    mark(tmp_path, ATTACHMENTS, "b3", 9)
    assert since_ms(tmp_path, ATTACHMENTS) == 3001, "what was deleted stays deleted"
    (tmp_path / "attachments" / "since").write_text("7000")  # of all writers
    assert since_ms(tmp_path, ATTACHMENTS) == 7000
    with pytest.raises(UsageError, match="E_SEGMENT_RETENTION"):
        SegmentRetention(bytes_max=-1)


def test_what_is_said_of_the_deleted_outlasts_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "attachments" / "since-b3", []
    path.parent.mkdir()
    monkeypatch.setattr(os, "fsync", lambda file: seen.append((stat.S_ISDIR(os.fstat(file).st_mode), path.exists())))
    mark(tmp_path, ATTACHMENTS, "b3", 9)
    assert seen == [(False, False), (True, True)]  # the file, then its name
