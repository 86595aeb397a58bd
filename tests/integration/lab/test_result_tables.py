"""The report from the pipeline's tables, which may be read without Spark."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from tidings.capacity.processing import Fitted, Load
from tidings.cli import make_app
from tidings.errors import UsageError
from tidings.lab.result_tables import read_tables
from tidings.model.tables import Table
from tidings.pipeline.schemas import RESULTS
from tidings.segments.arrow_schema import arrow_schema

SERVER = Fitted.of("base", t_rcv=2e-5, t_fltr=1e-6, t_tx=5e-6)


def write(root: Path, table: Table, rows: list[dict[str, object]]) -> None:
    """As the pipeline's storage does: a version that replaces the one before."""
    made = pa.Table.from_pylist(rows, arrow_schema(table).remove_metadata())
    write_deltalake(root / table.name, made, mode="overwrite")


def row(matching: int, others: int) -> dict[str, object]:
    load = Load(matching + others, matching)
    rate = SERVER.received(load)
    return {
        "experiment": "filters",
        "server": "tidings",
        "point": json.dumps({"matching": matching, "others": others}),
        "load": json.dumps({"filters": load.filters, "replication": load.replication}),
        "runs": 3,
        "rejected": 1,
        "received_per_s": rate,
        "received_deviation": rate / 100,
        "received_half_width": rate / 40,
        "dispatched_per_s": rate * matching,
        "dispatched_half_width": rate * matching / 40,
    }


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    write(tmp_path, RESULTS["throughput"], [row(1, 0)])
    write(tmp_path, RESULTS["throughput"], [row(m, n) for m in (1, 10, 5) for n in (100, 20, 0)])
    reason = {"run": "x#1", "experiment": "filters", "server": "tidings", "point": row(5, 20)["point"], "load": ""}
    reason |= {"valid": False, "reasons": "a message was lost"}
    nothing = dict.fromkeys(("received_per_s", "dispatched_per_s", "seconds"))
    write(tmp_path, RESULTS["verdicts"], [{**reason, **nothing}])
    return tmp_path


def test_points_are_those_of_the_newest_version(tables: Path) -> None:
    found = read_tables(tables)
    assert [(one.parameters["matching"], one.parameters["others"]) for one in found] == [
        (m, n) for m in (1, 5, 10) for n in (0, 20, 100)
    ]
    one = found[4]
    assert one.received is not None
    assert one.received.mean == pytest.approx(SERVER.received(Load(25, 5)))
    assert (one.received.runs, one.rejected) == (3, ("a message was lost",))
    assert one.load == Load(25, 5)


def test_the_report_is_made_of_them(tables: Path, tmp_path: Path) -> None:
    output = tmp_path / "report"
    done = CliRunner().invoke(make_app(["lab"]), ["lab", "report", "--tables", str(tables), "-o", str(output)])
    assert done.exit_code == 0, done.output
    page = (output / "index.html").read_text()
    assert "a message was lost" in page
    assert "t_tx = 5 µs" in page
    assert (output / "filters.svg").exists()


def test_what_is_no_table_is_refused(tables: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="create it with: tidings pipeline measure"):
        read_tables(tmp_path / "elsewhere")
    (log,) = (tables / "throughput" / "_delta_log").glob("*1.json")
    log.write_text("[]")
    with pytest.raises(UsageError, match="cannot be read"):
        read_tables(tables)
    (tmp_path / "old" / "throughput").mkdir(parents=True)
    (tmp_path / "old" / "throughput" / "manifest-00000001.json").write_text("{}")
    with pytest.raises(UsageError, match="tidings pipeline migrate"):
        read_tables(tmp_path / "old")
