"""Experiments on a real server process: measured, kept, gone on with, reported."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hardening.support.recorded import record_runs
from typer.testing import CliRunner, Result

from tidings.cli import make_app
from tidings.cli.lab.command import as_row
from tidings.errors import UsageError
from tidings.lab.comparison import compared
from tidings.lab.execution import Execution
from tidings.lab.experiment import Experiment, Measure
from tidings.lab.machine_check import FILE
from tidings.lab.results import read_results
from tidings.lab.run_verdict import CounterSample, RunRules, judge, of_rows, to_rows
from tidings.lab.server_pool import running
from tidings.model.tables import RUNS, SAMPLES
from tidings.segments.reader import read_rows, segments
from tidings.segments.writer import SegmentWriter

# The machine of a test is busy with other tests: nobody is asked to be the bottleneck.
SHORT = Measure(
    long_s=0.0,
    seconds=0.2,
    warm_s=0.1,
    cool_s=0.0,
    interval_s=0.05,
    server_share_min=0.0,
    generator_share_max=10.0,
    attempts=20,
)
GRID = Experiment("grid", "filters", {"matching": [1, 3], "others": [0, 20]}, {}, "", ("tidings",), 1, SHORT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lab")
    steps = list(Execution([GRID], found).steps())
    assert [step.text for step in steps if step.text == "done"] == ["done"] * 4
    for kind, fixed in (
        ("registration", {"subscriptions": 100, "active": True}),
        ("first-message", {"subscribers": 3}),
    ):
        special = Experiment(kind, kind, {}, fixed, "", ("tidings",), 1, SHORT)
        assert [step.text for step in Execution([special], found).steps()][-1] == "done"
    return found


def test_every_point_has_a_throughput_and_the_load_the_models_need(folder: Path) -> None:
    results = read_results(folder, "grid")
    assert len(results) == 4
    for one in results:
        assert one.received is not None
        assert one.dispatched is not None
        assert one.load is not None
        assert one.received.mean > 0
        assert one.dispatched.mean == pytest.approx(one.received.mean * one.parameters["matching"], rel=0.5)
        assert one.load.replication == one.parameters["matching"]
        assert one.load.filters == one.parameters["matching"] + one.parameters["others"]


def test_a_second_start_measures_only_what_is_missing(folder: Path) -> None:
    assert Execution([GRID], folder).missing() == 0
    assert Execution([replace(GRID, runs=3)], folder).missing() == 8
    assert Execution([replace(GRID, name="other")], folder).missing() == 4


def test_what_busy_measured_is_another_point(folder: Path, tmp_path: Path) -> None:
    busy = replace(GRID, vary={"matching": [1, 3], "others": [0]}, measure=SHORT.on_busy_machine())
    assert Execution([busy], folder).missing() == 2
    special = Experiment("first-message", "first-message", {}, {"subscribers": 3}, "", ("tidings",), 1, SHORT)
    assert Execution([replace(special, measure=busy.measure)], folder).missing() == 0  # a duration has one unit
    record_runs(tmp_path, broken=False)
    record_runs(tmp_path, broken=False, busy=0.5)
    units = {unit: [one for one in read_results(tmp_path) if one.per_cpu_second == unit] for unit in (False, True)}
    for one, other in zip(*units.values(), strict=True):
        assert one.received is not None
        assert other.received is not None
        assert one.parameters == other.parameters
        assert (one.received.runs, one.title, other.title) == (4, "filters", "filters --busy")
    assert [one["per_cpu_second"] for one in map(as_row, read_results(tmp_path))] == [False] * 8 + [True] * 8


def test_a_model_or_a_comparison_is_of_one_unit(tmp_path: Path) -> None:
    for name in ("quiet", "both", "busy"):
        for busy in (0.0, 0.5):
            if name in ("both", "busy" if busy else "quiet"):
                record_runs(tmp_path / name, broken=False, busy=busy)

    def invoke(*words: str) -> Result:
        return CliRunner().invoke(make_app(["lab"]), ["lab", *words])

    def fitted(name: str, *more: str) -> str:
        return invoke("fit", "filters", "--folder", str(tmp_path / name), "--json", *more).stdout

    alone, shared = fitted("quiet"), fitted("busy")
    assert alone != shared
    assert (fitted("both"), fitted("both", "--busy"), fitted("busy", "--busy")) == (alone, shared, shared)
    assert "E_LAB_RESULTS" in str(invoke("fit", "filters", "--folder", str(tmp_path / "quiet"), "--busy").exception)
    with pytest.raises(UsageError, match="with --busy or without"):
        compared(read_results(tmp_path / "quiet"), read_results(tmp_path / "busy"))
    assert len(compared(read_results(tmp_path / "both"), read_results(tmp_path / "busy")).all.points) == 8
    assert invoke("report", "--folder", str(tmp_path / "both"), "-o", str(tmp_path / "page")).exit_code == 0
    page = (tmp_path / "page" / "index.html").read_text()
    assert "<h2>filters</h2><img src='filters.svg'" in page
    assert "<h2>filters --busy</h2><img src='filters.busy.svg'" in page
    assert {one.name for one in (tmp_path / "page").glob("*.svg")} == {"filters.svg", "filters.busy.svg"}


def test_an_experiment_of_another_kind_does_not_take_a_name_that_is_taken(folder: Path) -> None:
    other = replace(GRID, kind="and", vary={"components": [1]})
    with pytest.raises(UsageError, match=r"E_LAB_EXPERIMENT: .* of kind 'filters', not 'and': take another name"):
        Execution([other], folder)


def test_runs_of_two_folders_have_different_names(folder: Path, tmp_path: Path) -> None:
    point = replace(GRID, vary={"matching": [1], "others": [0]})
    other, both = tmp_path / "other", tmp_path / "both"
    other.mkdir()
    assert [step.text for step in Execution([point], other).steps()][-1] == "done"
    for name in ("runs", "samples"):
        for one in (folder, other):
            shutil.copytree(one / name, both / name, dirs_exist_ok=True)
    [found] = [one for one in read_results(both, "grid") if one.parameters == {"matching": 1, "others": 0}]
    means = [one.received for where in (folder, other) for one in read_results(where, "grid")[:1]]
    assert found.received is not None
    assert found.received.runs == 2
    assert found.received.mean == pytest.approx(fmean(one.mean for one in means if one is not None))


def test_runs_that_have_one_name_do_not_count(tmp_path: Path) -> None:
    """As folders have them that were measured when a name was only a number, and then put together."""
    record_runs(tmp_path, broken=False)
    again = next(iter(read_rows(tmp_path, RUNS)))
    SegmentWriter(tmp_path, RUNS, "other").append([{**again, "started_ms": 1_763_000_000_000}], 2_000)
    first = read_results(tmp_path)[0]
    assert first.received is not None
    assert first.received.runs == 3
    assert ["same name" in reason for reason in first.rejected] == [True, True]


def test_writers_of_experiments_are_told_apart(tmp_path: Path) -> None:
    names = ("a-b", "a_b", "x" * 60)
    points = [replace(GRID, name=name, vary={"matching": [1]}) for name in names]
    assert [step.text for step in Execution(points, tmp_path).steps()].count("done") == 3
    assert {one.name.writer for one in segments(tmp_path, RUNS)} == {"lab_a.b", "lab_a_b", "lab_" + "x" * 60}
    assert Execution(points, tmp_path).missing() == 0


def test_a_reference_that_was_half_written_is_measured_again(tmp_path: Path) -> None:
    reference = tmp_path / FILE
    reference.write_text('{"compute": 1')
    point = replace(GRID, vary={"matching": [1]})
    assert Execution([point], tmp_path).missing() == 1
    assert json.loads(reference.read_text())["compute"] > 1
    assert [one.name for one in tmp_path.iterdir()] == [FILE]


def test_registration_and_first_message_are_durations(folder: Path) -> None:
    [registration] = read_results(folder, "registration")
    assert registration.seconds["registration_s"].mean > 0
    assert registration.seconds["published_messages"].mean > 0
    [first] = read_results(folder, "first-message")
    assert first.seconds["subscribe_s"].runs == 3
    assert first.seconds["first_message_s"].mean >= 0


def test_a_run_that_does_not_count_is_kept_with_its_reason_and_the_point_given_up(tmp_path: Path) -> None:
    strict = replace(GRID, vary={}, measure=replace(SHORT, server_share_min=5.0, attempts=2))
    execution = Execution([strict], tmp_path)
    steps = list(execution.steps())
    assert len(steps) == 3
    assert "the server used" in steps[0].text
    assert steps[-1].text.startswith("given up")
    assert "the machine is" in execution.given_up["grid/tidings/"]
    assert ["the server used" in str(row["outcome"]) for row in read_rows(tmp_path, RUNS)] == [True, True]


def test_the_command_line_shows_fits_and_reports(folder: Path, tmp_path: Path) -> None:
    app, runner = make_app(["lab"]), CliRunner()
    shown = runner.invoke(app, ["lab", "results", "grid", "--folder", str(folder), "--json"])
    rows = [json.loads(line) for line in shown.output.splitlines()]
    assert [row["parameters"]["others"] for row in rows] == [0, 20, 0, 20]
    model = tmp_path / "model.json"
    fitted = runner.invoke(app, ["lab", "fit", "grid", "--folder", str(folder), "-o", str(model), "--json"])
    assert fitted.exit_code == 0, fitted.output
    assert json.loads(model.read_text()) == json.loads(fitted.output)
    report = runner.invoke(app, ["lab", "report", "--folder", str(folder), "-o", str(tmp_path / "report")])
    assert report.exit_code == 0, report.output
    page = (tmp_path / "report" / "index.html").read_text()
    assert "<h2>grid</h2>" in page
    assert (tmp_path / "report" / "registration.png").read_bytes().startswith(b"\x89PNG")


def test_rounds_go_over_all_experiments_and_leave_nothing_between(tmp_path: Path) -> None:
    one, other = (replace(GRID, name=name, vary={"matching": [1, 2]}, runs=2) for name in ("one", "other"))
    execution = Execution([one, other], tmp_path)
    steps = [step for step in execution.steps() if step.text == "done"]
    assert [step.point.experiment for step in steps] == ["one", "one", "other", "other"] * 2
    assert [step.finished for step in steps] == list(range(1, 9))
    assert steps[-1].left_s == 0 < steps[0].left_s
    with pytest.raises(UsageError, match="same name"):
        Execution([one, one], tmp_path)


def test_samples_of_a_run_that_was_killed_before_its_row_belong_to_nobody(tmp_path: Path) -> None:
    point = replace(GRID, vary={})
    fast = [CounterSample(0.05 * i, 1e9 * i, 1e9 * i, 0.05 * i, 0.0, 1e6) for i in range(20)]
    SegmentWriter(tmp_path, SAMPLES, "lab_grid").append(to_rows("grid/tidings/#1", "generator", fast, 1000), 1000)
    assert [step.text for step in Execution([point], tmp_path).steps()][-1] == "done"
    assert "grid/tidings/#1" not in [row["run"] for row in read_rows(tmp_path, RUNS)]
    [result] = read_results(tmp_path)
    assert result.received is not None
    assert 0 < result.received.mean < 1e9  # those samples say 2e10


def test_a_server_that_has_gone_is_started_again() -> None:
    with running() as servers:
        first = servers.server("tidings")
        assert servers.server("tidings") is first
        first.end()
        second = servers.server("tidings")
        assert second is not first
        assert second.running
        servers.drop("tidings")
        assert not second.running


@pytest.mark.parametrize("outcome", ["failed: it was cold", "done"])
def test_a_folder_without_a_run_that_counts_is_shown(tmp_path: Path, outcome: str) -> None:
    record_runs(tmp_path / "other", broken=False)
    row = next(iter(read_rows(tmp_path / "other", RUNS)))
    SegmentWriter(tmp_path / "data", RUNS, "lab").append([{**row, "outcome": outcome}], 1_000)  # without samples
    told = {}
    for words in ("results", f"report -o {tmp_path}/page", "fit filters"):
        found = CliRunner().invoke(make_app(["lab"]), ["lab", *words.split(), "--folder", str(tmp_path / "data")])
        told[words.split()[0]] = found.output + str(found.exception)
    assert ("cold" if outcome != "done" else "no") in told["results"]
    assert "E_LAB_RESULTS" in told["fit"]
    assert "index.html" in told["report"]
    assert "No run counts" in (tmp_path / "page" / "index.html").read_text()


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tidings lab run"):
        read_results(tmp_path)


def test_samples_survive_the_table() -> None:
    samples = [CounterSample(0.25 * i, 10.0 * i, 30.0 * i, 0.2 * i, 0.1 * i, 1e6) for i in range(8)]
    rows = [*to_rows("r", "g", samples, 1_000_000), {"metric": "other", "ms": 5, "value": 1.0}]
    assert of_rows(rows) == samples


@pytest.mark.parametrize(
    ("rules", "lost", "reason"),
    [
        (RunRules(0, 0), 1, "1 messages were lost"),
        (RunRules(0, 0, server_share_min=0.9), 0, "the server used 80.0 %"),
        (RunRules(0, 0, 0, generator_share_max=0.3), 0, "the generator used 40.0 %"),
        (RunRules(0, 0, 0, memory_bytes_max=1e5), 0, "1 MB of memory"),
    ],
)
def test_why_a_run_does_not_count(rules: RunRules, lost: int, reason: str) -> None:
    samples = [CounterSample(0.25 * i, 10.0 * i, 30.0 * i, 0.2 * i, 0.1 * i, 1e6) for i in range(8)]
    assert any(reason in one for one in judge(samples, rules, lost).reasons)


def test_a_run_that_is_too_short_is_refused() -> None:
    with pytest.raises(UsageError, match="too short"):
        judge([CounterSample(0, 0, 0, 0, 0, 0), CounterSample(1, 1, 1, 1, 1, 1)], RunRules(1, 1))


def test_a_lab_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "own"\nkind = "filters"\nservers = ["tidings"]\nruns = 2\n'
        "[vary]\nmatching = [1, 2]\nothers = [0, 10]\n"
        "[measure]\nseconds = 0.3\nwarm_s = 0.1\ncool_s = 0.0\ninterval_s = 0.05\nattempts = 20\n"
    )
    folder = tmp_path / "data"
    command = [sys.executable, "-m", "tidings.cli", "lab", "run", str(own), "--folder", str(folder), "--busy"]

    def runs() -> list[str]:
        return [str(row["run"]) for row in read_rows(folder, RUNS)] if folder.exists() else []

    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(runs()) >= 2)
        children = [int(pid) for pid in Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()]
    finally:
        first.kill()
        first.wait()
    before = runs()
    assert len(before) >= 2
    wait_for(lambda: not any(alive(pid) for pid in children))  # its broker does not outlive it
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert second.returncode == 0, second.stderr
    after = runs()
    assert after[: len(before)] == before  # nothing was measured again, nothing is lost
    assert len(after) == len(set(after)) >= 8
    assert all(one.received is not None and one.received.runs == 2 for one in read_results(folder, "own"))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
