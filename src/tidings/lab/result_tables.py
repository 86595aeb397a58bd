"""Reads the pipeline's tables of measurements (`tidings pipeline measure`) for the report that local segments get.

The tables are Delta tables (docs/pipeline.md); no Spark is needed to read them.
Durations, of registration and the like, are in no table of the pipeline: they are in segments only.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.capacity.arrays import refuse
from tidings.capacity.processing import Load
from tidings.extras import lazy
from tidings.lab.results import Mean, PointResult
from tidings.lab.run_verdict import BUSY

if TYPE_CHECKING:
    import deltalake
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    deltalake, pa, pq = lazy("deltalake"), lazy("pyarrow"), lazy("pyarrow.parquet")


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


def _rows(root: Path, name: str) -> list[dict[str, Any]]:
    """Of a table as its newest version is."""
    place = root / name
    if not (place / "_delta_log").is_dir():
        if any(place.glob("manifest-*.json")):
            reason = f"{place} has the layout of an earlier version; convert it: tidings pipeline migrate --output …"
            raise refuse(reason, "E_LAB_TABLES")
        raise refuse(f"no table {name} in {root}; create it with: tidings pipeline measure", "E_LAB_TABLES")
    try:
        table = deltalake.DeltaTable(place.absolute().as_uri())
        paths = pa.table(table.get_add_actions())["path"].to_pylist()
        return [
            row for path in sorted(paths) for row in pq.ParquetFile(place / path).read(use_threads=False).to_pylist()
        ]
    except (OSError, KeyError, ValueError, TypeError, deltalake.exceptions.DeltaError, pa.ArrowException) as error:
        raise refuse(f"{place} cannot be read: {error!s:.200}", "E_LAB_TABLES") from None
