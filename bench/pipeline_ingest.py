"""Ingest of archived messages: bytes written and CPU time for many rows at once, and for ten more on the same day.

python -m bench.pipeline_ingest [ROWS…]

For every number of rows (by default 10⁴, 10⁵ and 3·10⁵, of 200 bytes) a new output gets that many messages of one day
from segments of 50 000, then three times ten more; the cost of the last of these is shown. CPU time is that of the
driver, its JVM and the Python workers; the first ingest of the session is not counted.
"""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import save, table
from bench.pipeline_trace import CONF
from bench.processes import Cost, cost
from tidings.model.tables import MESSAGES
from tidings.pipeline.jobs.ingest import ingest
from tidings.pipeline.session import start_session
from tidings.pipeline.storage_paths import StoragePath
from tidings.segments.writer import SegmentWriter

ROWS = (10_000, 100_000, 300_000)
SEGMENT, SIZE, FEW = 50_000, 200, 10


def append(writer: SegmentWriter, start: int, count: int, rng: random.Random) -> None:
    """A segment of messages with numbers from `start`."""
    ids = [(start + i).to_bytes(16, "big") for i in range(count)]
    columns: dict[str, list[Any]] = {
        "id": ids,
        "publisher": [1] * count,
        "broker": [1] * count,
        "ms": [1_000 + start + i for i in range(count)],
        "source": ["b1"] * count,
        "size": [SIZE] * count,
        "message": [rng.randbytes(SIZE) for _ in range(count)],
    }
    writer.append_columns(columns, 1_000 + start)


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(spark: Any, folder: Path, rows: int) -> dict[str, Any]:
    rng = random.Random(rows)
    writer = SegmentWriter(folder / "segments", MESSAGES, "b1")
    source, output = StoragePath.of(folder / "segments"), StoragePath.of(folder / "tables")

    def run(count: int) -> tuple[Cost, int]:
        before = bytes_in(folder / "tables")
        spent = cost(count, lambda: ingest(spark, source, output, "messages"))
        return spent, bytes_in(folder / "tables") - before

    for start in range(0, rows, SEGMENT):
        append(writer, start, min(SEGMENT, rows - start), rng)
    first, first_bytes = run(rows)
    for number in range(3):
        append(writer, rows + FEW * number, FEW, rng)
        more, more_bytes = run(FEW)
    return {"rows": rows, "first": first.shown() | {"bytes": first_bytes}, "ten": more.shown() | {"bytes": more_bytes}}


def main() -> None:
    counts = [int(word) for word in sys.argv[1:]] or list(ROWS)
    spark = start_session("local[2]", CONF)
    with tempfile.TemporaryDirectory() as name:
        measured(spark, Path(name) / "warm", 1_000)
        found = [measured(spark, Path(name) / str(rows), rows) for rows in counts]
    spark.stop()
    shown = []
    for one in found:
        first, ten = one["first"], one["ten"]
        shown.append((one["rows"], 1e6 * first["cpu_s"] / one["rows"], first["bytes"], ten["cpu_s"], ten["bytes"]))
    table("ingest", ("rows", "µs CPU a row", "bytes", "CPU s of ten more", "bytes of ten more"), shown)
    print(save("pipeline_ingest", {"ingest": found}))


if __name__ == "__main__":
    main()
