"""Reads the pipeline's tables of measurements (`tidings pipeline measure`) for the report that local segments get.

The tables are Parquet files and a manifest that names them (docs/pipeline.md); no Spark is needed to read them.
Durations, of registration and the like, are in no table of the pipeline: they are in segments only.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.capacity.arrays import refuse
from tidings.capacity.processing import Load
from tidings.extras import lazy
from tidings.lab.results import Mean, PointResult
from tidings.lab.samples import BUSY

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

VERSION = 1  # of both tables


def read_tables(root: Path) -> list[PointResult]:
    """The points of table `throughput`, with the reasons of table `verdicts` for runs that do not count."""
    rejected: dict[tuple[str, str, str], list[str]] = {}
    for row in _rows(root, "verdicts") if (root / "verdicts").is_dir() else []:
        if not row["valid"]:
            rejected.setdefault((row["experiment"], row["server"], row["point"]), []).append(row["reasons"])
    found = [
        _result(row, rejected.get((row["experiment"], row["server"], row["point"]), []))
        for row in _rows(root, "throughput")
    ]
    return sorted(found, key=lambda one: (one.title, one.server, _order(one)))


def _result(row: dict[str, Any], rejected: list[str]) -> PointResult:
    runs, title = row["runs"], row["experiment"]
    return PointResult(
        title.removesuffix(BUSY),
        row["server"],
        "",
        json.loads(row["point"]),
        Load(**json.loads(row["load"])) if row["load"] else None,
        Mean(row["received_per_s"], row["received_deviation"], row["received_half_width"], runs),
        Mean(row["dispatched_per_s"], None, row["dispatched_half_width"], runs),
        {},
        tuple(sorted(rejected)),
        title.endswith(BUSY),
    )


def _order(one: PointResult) -> list[tuple[str, float, str]]:
    """Points as numbers rise: tables have no order."""
    return [
        (name, float(value), "") if isinstance(value, int | float) else (name, 0.0, str(value))
        for name, value in sorted(one.parameters.items())
    ]


def _rows(root: Path, table: str) -> list[dict[str, Any]]:
    """Of a table as its newest manifest says it is."""
    manifests = sorted((root / table).glob("manifest-????????.json"))
    if not manifests:
        raise refuse(f"no table {table} in {root}; create it with: tidings pipeline measure", "E_LAB_TABLES")
    try:
        manifest = json.loads(manifests[-1].read_text())
        if (manifest["table"], manifest["version"]) != (table, VERSION):
            raise refuse(f"{manifests[-1]} is not version {VERSION} of {table}", "E_LAB_TABLES")
        folders = [root / table / "data" / part["folder"] for part in manifest["parts"].values()]
        files = [file for folder in folders for file in sorted(folder.glob("*.parquet"))]
        return [row for file in files for row in pq.ParquetFile(file).read(use_threads=False).to_pylist()]
    except (OSError, KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise refuse(f"{manifests[-1]} cannot be read: {error!s:.200}", "E_LAB_TABLES") from None
