"""Damaged, foreign, old and empty segments are refused by name."""

import zlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.errors import StoreError
from tidings.model.tables import ATTACHMENTS, RUNS, Table
from tidings.segments.arrow_schema import arrow_schema
from tidings.segments.names import SegmentName
from tidings.segments.reader import Segment, read_segment, segments
from tidings.segments.writer import SegmentWriter

ROW = {"broker": 3, "incarnation": 1, "kind": "subscriber", "peer": "audit", "ms": 1000, "attached": True}


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    SegmentWriter(tmp_path, ATTACHMENTS, "b3").append([ROW | {"ms": ms} for ms in range(40)], now_ms=5)
    return segments(tmp_path, ATTACHMENTS)[0]


def placed(segment: Segment, data: bytes) -> Segment:
    """Other bytes under a name whose checksum is right: what only Parquet itself can find wrong."""
    name = replace(segment.name, crc32=zlib.crc32(data))
    path = segment.path.with_name(str(name))
    path.write_bytes(data)
    return Segment(name, path)


def code(segment: Segment, table: Table = ATTACHMENTS) -> str:
    with pytest.raises(StoreError) as refused:
        read_segment(segment, table)
    assert str(segment.path) in refused.value.reason
    assert refused.value.fatal or refused.value.retryable
    return refused.value.code


def test_truncation_anywhere_is_noticed_with_and_without_the_checksum(segment: Segment) -> None:
    whole = segment.path.read_bytes()
    assert read_segment(segment, ATTACHMENTS).num_rows == 40
    for length in (*range(0, len(whole), 64), len(whole) - 1):
        segment.path.write_bytes(whole[:length])
        assert code(segment) == "E_STORE_DAMAGED"
        assert code(placed(segment, whole[:length])) == "E_STORE_DAMAGED"


def test_any_flipped_byte_is_noticed(segment: Segment) -> None:
    whole = segment.path.read_bytes()
    for place in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        segment.path.write_bytes(damaged)
        assert code(segment) == "E_STORE_DAMAGED"


def test_an_empty_file(segment: Segment) -> None:
    segment.path.write_bytes(b"")
    with pytest.raises(StoreError, match=r"E_STORE_DAMAGED.*is empty"):
        read_segment(segment, ATTACHMENTS)


def test_a_file_that_is_gone(segment: Segment) -> None:
    segment.path.unlink()
    assert code(segment) == "E_STORE_IO"


def test_other_tables_and_versions(segment: Segment, tmp_path: Path) -> None:
    assert code(segment, RUNS) == "E_STORE_VERSION"
    for table in (replace(ATTACHMENTS, version=2), replace(ATTACHMENTS, version=0)):
        with pytest.raises(StoreError, match=f"E_STORE_VERSION.*attachments 1; this reads attachments {table.version}"):
            read_segment(segment, table)
    fewer = replace(ATTACHMENTS, columns=ATTACHMENTS.columns[:-1])
    assert code(segment, fewer) == "E_STORE_VERSION"
    plain = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1]}), plain)
    assert code(placed(segment, plain.getvalue().to_pybytes())) == "E_STORE_VERSION"


def test_segments_are_listed_by_time_and_nothing_else_is(tmp_path: Path, segment: Segment) -> None:
    SegmentWriter(tmp_path, ATTACHMENTS, "a1").append([ROW], now_ms=3)
    SegmentWriter(tmp_path, ATTACHMENTS, "b3").append([ROW], now_ms=9)
    (tmp_path / "attachments" / "notes.txt").write_text("hello")
    (tmp_path / "attachments" / ("." + str(SegmentName(1, "x", 0, 0)))).write_text("unfinished")
    assert [(each.name.created_ms, each.name.writer) for each in segments(tmp_path, ATTACHMENTS)] == [
        *((3, "a1"), (5, "b3"), (9, "b3"))
    ]
    assert segments(tmp_path, RUNS) == []
    assert arrow_schema(RUNS).metadata == {b"tidings.table": b"runs", b"tidings.version": b"1"}
