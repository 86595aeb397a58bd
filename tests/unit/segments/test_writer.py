"""Segments are there in full or not at all, and never overwritten."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tidings.errors import StoreError, UsageError
from tidings.model.tables import ATTACHMENTS, HISTORIES, TABLES, Table, Type
from tidings.segments.arrow_schema import arrow_schema
from tidings.segments.names import SegmentName
from tidings.segments.reader import read_rows, segments
from tidings.segments.writer import SegmentWriter

CHANGE = {"broker": 3, "incarnation": 1, "kind": "subscriber", "peer": "audit", "ms": 1000, "attached": True}
SAMPLES: dict[Type, Any] = {
    Type.INT: -5,
    Type.FLOAT: 2.5,
    Type.FLAG: True,
    Type.TEXT: "größe",
    Type.BYTES: b"\x00\xff",
    Type.INTS: [1, 2**60],
}


class KilledError(BaseException):
    pass


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_rows_of_every_table_come_back(tmp_path: Path, table: Table) -> None:
    row = {column.name: SAMPLES[column.type] for column in table.columns}
    empty = {column.name: None if column.nullable else SAMPLES[column.type] for column in table.columns}
    writer = SegmentWriter(tmp_path, table, "b3")
    writer.append([row, empty], now_ms=2000)
    writer.append([row], now_ms=1000)
    assert list(read_rows(tmp_path, table)) == [row, row, empty]
    assert len({column.name for column in table.columns}) == len(table.columns)
    assert all(
        field.nullable == column.nullable for field, column in zip(arrow_schema(table), table.columns, strict=True)
    )


def test_names_say_when_by_whom_and_which(tmp_path: Path) -> None:
    for _ in range(2):
        path = SegmentWriter(tmp_path, ATTACHMENTS, "b3").append([CHANGE], now_ms=1234)
    name = SegmentName.parse(path.name)
    assert name is not None
    assert (name.created_ms, name.writer, name.sequence) == (1234, "b3", 1)
    assert SegmentName.parse("." + path.name) is None
    assert SegmentName.parse("notes.txt") is None


def test_death_between_writing_and_naming_leaves_nothing_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KilledError

    writer = SegmentWriter(tmp_path, ATTACHMENTS, "b3")
    for step in ("link", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, die)
            patch.setattr(Path, "unlink", die)  # the dead clean nothing up
            with pytest.raises(KilledError):
                writer.append([CHANGE], now_ms=1000)
        left = list((tmp_path / "attachments").iterdir())
        assert [path.name[0] for path in left] == ["."]
        assert list(read_rows(tmp_path, ATTACHMENTS)) == []
        writer = SegmentWriter(tmp_path, ATTACHMENTS, "b3")
        assert list((tmp_path / "attachments").iterdir()) == []
    writer.append([CHANGE], now_ms=1000)
    assert list(read_rows(tmp_path, ATTACHMENTS)) == [CHANGE]


CHILD = """
import sys
from pathlib import Path
from tidings.model.tables import ATTACHMENTS
from tidings.segments.writer import SegmentWriter
writer = SegmentWriter(Path(sys.argv[1]), ATTACHMENTS, "b3")
row = {"broker": 3, "incarnation": 1, "kind": "subscriber", "peer": "audit", "attached": True}
for number in range(10**9):
    writer.append([row | {"ms": number}], now_ms=number)
    print(number, flush=True)
"""


def test_what_was_announced_survives_kill_9(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        announced = [int(child.stdout.readline()) for _ in range(25)]
        child.send_signal(signal.SIGKILL)
        announced += [int(line) for line in child.stdout.read().split()]
    found = [row["ms"] for row in read_rows(tmp_path, ATTACHMENTS)]
    assert found[: len(announced)] == announced
    assert len(found) - len(announced) in (0, 1)  # one may have been named but not announced
    SegmentWriter(tmp_path, ATTACHMENTS, "b3").append([CHANGE], now_ms=10**9)
    assert list(read_rows(tmp_path, ATTACHMENTS))[-1] == CHANGE


def test_a_name_is_never_used_twice(tmp_path: Path) -> None:
    one, other = (SegmentWriter(tmp_path, ATTACHMENTS, "b3") for _ in range(2))
    path = one.append([CHANGE], now_ms=1000)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="E_STORE_LOCKED"):
        other.append([CHANGE], now_ms=1000)
    assert path.read_bytes() == before
    assert list((tmp_path / "attachments").iterdir()) == [path]


def test_full_filters_are_not_compressed_and_others_are(tmp_path: Path) -> None:
    row = {column.name: SAMPLES[column.type] for column in HISTORIES.columns} | {"data": bytes(10_000)}
    writer = SegmentWriter(tmp_path, HISTORIES, "b3")
    for full, encoding, codec in ((True, "bloom", "UNCOMPRESSED"), (False, "bloom", "ZSTD"), (True, "ids", "ZSTD")):
        path = writer.append([row | {"full": full, "encoding": encoding}] * 3, now_ms=5)
        group = pq.ParquetFile(path).metadata.row_group(0)
        codecs = {group.column(i).path_in_schema: group.column(i).compression for i in range(group.num_columns)}
        assert set(codecs.values()) == {codec}


def test_a_filter_that_histories_have_in_common_is_written_once(tmp_path: Path) -> None:
    full = random.Random(5).randbytes(8192)
    row = {
        "broker": 3,
        "incarnation": 1,
        "kind": "deliver",
        "origin": 1,
        "encoding": "bloom",
        "count": 2521,
        "full": True,
    }
    row |= {"first_ms": 1, "last_ms": 2, "singles_ms": [], "opened_ms": 1, "stored_ms": 2, "data": full}
    rows = [row | {"sequence": number, "peer": f"s{number}"} for number in range(60)]
    path = SegmentWriter(tmp_path, HISTORIES, "b3").append(rows, now_ms=5)
    assert path.stat().st_size < 3 * len(full)
    assert [read["data"] for read in read_rows(tmp_path, HISTORIES)] == [full] * 60


@pytest.mark.parametrize(
    "rows", [[], [{"broker": 3}], [CHANGE | {"ms": None}], [CHANGE | {"ms": "soon"}], [CHANGE | {"ms": 2**70}]]
)
def test_what_is_not_a_row_is_refused(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    with pytest.raises(UsageError, match="E_SEGMENT"):
        SegmentWriter(tmp_path, ATTACHMENTS, "b3").append(rows, now_ms=5)
    with pytest.raises(UsageError, match="E_SEGMENT_ROW"):
        SegmentWriter(tmp_path, ATTACHMENTS, "b3").append_columns({"x": [1]}, now_ms=5)
    assert segments(tmp_path, ATTACHMENTS) == []


def test_a_disk_that_refuses_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "attachments").write_text("in the way")
    with pytest.raises(StoreError, match="E_STORE"):
        SegmentWriter(tmp_path, ATTACHMENTS, "b3")
    with pytest.raises(UsageError, match="E_SEGMENT_WRITER"):
        SegmentWriter(tmp_path, HISTORIES, "../b3")
