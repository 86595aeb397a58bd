"""Scenarios as files, with what happens in them written beside; `--rewrite` writes that anew."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tidings.cli import sim
from tidings.errors import UsageError
from tidings.sim.scenario import Scenario

app = typer.Typer()
sim.register(app)
SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.toml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_goes_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    result = CliRunner().invoke(app, ["sim", "run", str(path), "--seed", "7"])
    assert result.exit_code == 0, result.output
    beside = path.with_suffix(".txt")
    if request.config.getoption("--rewrite"):
        beside.write_text(result.output)
    assert result.output == beside.read_text(), "differs; if it should, run pytest --rewrite tests/sim/test_scenario.py"


def test_persistent_messages_arrive_whatever_the_seed() -> None:
    scenario = Scenario.from_toml((Path(__file__).parent / "scenarios" / "ring_chaos.toml").read_text())
    for seed in range(8):
        outcome = scenario.run(seed)
        assert outcome.delivered == outcome.matched == outcome.published > 0, seed


def test_sums_for_programs() -> None:
    path = next(path for path in SCENARIOS if path.stem == "broker_away")
    result = CliRunner().invoke(app, ["sim", "run", str(path), "--json"])
    assert json.loads(result.output) == {"published": 4, "matched": 6, "delivered": 4}


NETWORK = 'topology = {links = [{between = ["paris", "oslo"]}, {between = ["oslo", "rome"]}]}\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense =", "Invalid value"),
        ("colour = 1", "no field 'colour'"),
        ("[[publish]]\nat = 1\nbroker = 9", "no broker 9"),
        ("[topology]\nnodes = [1]\n[[fault]]\nat = 1\nexplode = 1", "no fault 'explode'"),
        ("topology = {nodes = [1]}\n[[fault]]\ncrash = 1", "fault: at is missing"),
        ("encoding = 'morse'\ntopology = {nodes = [1]}", "no encoding 'morse'"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Scenario.from_toml(text).run(1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[subscribe]]\nbroker = 'rome'", "subscribe: at is missing"),
        ("[[subscribe]]\nat = 'x'\nbroker = 'rome'", "subscribe: at is a number"),
        ("[[subscribe]]\nat = nan\nbroker = 'rome'", "subscribe: at is a number"),
        ("[[subscribe]]\nat = 1\nbroker = 'rome'\nselector = 5", "selector is a text"),
        ("[[subscribe]]\nat = 1\nbroker = 'rome'\nselector = 'price >'", "E_SELECTOR_SYNTAX"),
        ("[[subscribe]]\nat = 1\nbroker = 'rome'\ndurable = 'no'", "durable is true or false"),
        ("[subscribe]\nat = 1", "subscribe is a list of tables"),
        ("subscribe = [[]]", "subscribe is a table"),
        ("[[publish]]\nbroker = 'rome'", "publish: at is missing"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\ncount = 'a'", "count is a whole number"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\ncount = -1", "count is a whole number"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\nevery_ms = -1", "every_ms is a number"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\nattributes = [1]", "attributes is a table"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\nattributes = 'abc'", "attributes is a table"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\nattributes = {a = [1]}", "E_"),
        ("[[fault]]\nat = 1\ncut = ['paris', 'rome']", "no link between paris and rome"),
        ("[[fault]]\nat = 1\nheal = ['paris', 'paris']", "no link between paris and paris"),
        ("[[fault]]\nat = 1\ncut = ['paris']", "no link between paris"),
        ("[[fault]]\nat = 1\ncut = 3", "brokers are a list"),
        ("[[fault]]\nat = 1", "does one thing, not 0"),
        ("[[fault]]\nat = nan\ncrash = 'rome'", "fault: at is a number"),
        ("broadcast_above = -3", "broadcast_above is a whole number"),
        ("broadcast_above = 'x'", "broadcast_above is a whole number"),
        ("random_faults = 'x'", "random_faults is a whole number"),
        ("encoding = ['x']", "encoding is a text"),
        ("scheme = ['x']", "scheme is a text"),
        ("run_ms = inf", "run_ms is a number"),
    ],
)
def test_a_file_is_checked_before_anything_runs(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Scenario.from_toml(NETWORK + text)


def test_random_faults_need_something_that_fails() -> None:
    with pytest.raises(UsageError, match="need a link"):
        Scenario.from_toml("random_faults = 2\ntopology = {nodes = [1]}")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"E_SCENARIO: .*s\.toml is not text"):
        CliRunner().invoke(app, ["sim", "run", str(path)], catch_exceptions=False)
