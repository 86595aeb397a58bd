"""Damaged Parquet files: with the checksum of what was written they are always refused; with their own (somebody who
damages a file may write another name on it) they are refused or read, and nothing else."""

import zlib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from hardening.fuzz.mutate import mutated
from tidings.errors import StoreError
from tidings.model.tables import TABLES, Column, Table, Type
from tidings.segments.names import SegmentName
from tidings.segments.reader import Segment, open_bytes, read_columns, read_segment, segments
from tidings.segments.writer import SegmentWriter

ROWS = 40
ON_DISK_SHARE = 0.05  # of the inputs are read from files: slow, and the bytes are read by the same code
DAMAGED = "E_STORE_DAMAGED"


class Files:
    """A segment of every table in this folder, and damaged ones one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._whole: list[tuple[Table, Segment, bytes]] = []
        self.read = 0
        for table in TABLES.values():
            rows = [{column.name: _value(column, number) for column in table.columns} for number in range(ROWS)]
            SegmentWriter(folder, table, "fuzz").append(rows, 1_700_000_000_000)
            [segment] = segments(folder, table)
            self._whole.append((table, segment, segment.path.read_bytes()))

    def run(self, seed: int, number: int) -> None:
        rng = Random(f"{seed}.{number}")
        table, segment, whole = rng.choice(self._whole)
        data = mutated(rng, whole, [one for _, _, one in self._whole])
        if rng.random() < 0.5:  # where Parquet says what is where
            start = max(0, len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"))
            data = whole[:start] + mutated(rng, whole[start:-8], [whole]) + whole[-8:]
        if data == whole:
            return
        on_disk = rng.random() < ON_DISK_SHARE
        code = self._code(segment.name, data, table, on_disk=on_disk)
        assert code == DAMAGED, "bytes that are not those written were read"
        code = self._code(replace(segment.name, crc32=zlib.crc32(data)), data, table, on_disk=on_disk)
        assert code in ("", DAMAGED, "E_STORE_VERSION"), code
        self.read += not code

    def _code(self, name: SegmentName, data: bytes, table: Table, *, on_disk: bool) -> str:
        """Of the error; empty: it was read."""
        where = f"{self._folder}/{name}"
        try:
            if on_disk:
                self._read_file(Segment(name, Path(where)), data, table)
            else:
                read_columns(open_bytes(data, name, where, table), where).to_pylist()
        except StoreError as error:
            return error.code if where in error.reason else f"which file? {error}"
        return ""

    @staticmethod
    def _read_file(segment: Segment, data: bytes, table: Table) -> None:
        segment.path.write_bytes(data)
        try:
            read_segment(segment, table).to_pylist()
        finally:
            segment.path.unlink()


def _value(column: Column, number: int) -> Any:
    if column.nullable and number % 3 == 0:
        return None
    values = {
        Type.INT: number * 1000,
        Type.FLOAT: number / 7,
        Type.FLAG: number % 2 == 0,
        Type.TEXT: f"text {number % 5}",
        Type.BYTES: bytes(range(number)),
        Type.INTS: list(range(number % 4)),
    }
    return values[column.type]
