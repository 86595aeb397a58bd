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
    assert result.output == beside.read_text(), (
        "differs; if it should, run pytest --rewrite tests/unit/sim/test_scenario.py"
    )


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
        ("topology = {nodes = [1]}\n[[fault]]\ncrash = 1", "fault 1: at is missing"),
        ("encoding = 'morse'\ntopology = {nodes = [1]}", "no encoding 'morse'"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Scenario.from_toml(text).run(1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[subscribe]]\nbroker = 'rome'", "subscribe 1: at is missing"),
        ("[[subscribe]]\nat = 'x'\nbroker = 'rome'", "subscribe 1: at is a number"),
        ("[[subscribe]]\nat = nan\nbroker = 'rome'", "subscribe 1: at is a number"),
        ("[[subscribe]]\nat = 1\nbroker = 'rome'\nselector = 5", "selector is a text"),
        (
            "[[subscribe]]\nat = 1\nbroker = 'rome'\nselector = 'price >'",
            "subscribe 1: selector: E_SELECTOR_SYNTAX at",
        ),
        (2 * "[[subscribe]]\nat = 1\n" + "broker = 'rome'", "subscribe 1: broker is missing"),
        ("[[subscribe]]\nat = 1\nbroker = 'rome'\ndurable = 'no'", "durable is true or false"),
        ("[subscribe]\nat = 1", "subscribe is a list of tables"),
        ("subscribe = [[]]", "subscribe 1 is a table"),
        ("[[publish]]\nbroker = 'rome'", "publish 1: at is missing"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\ncount = 'a'", "count is a whole number"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\ncount = -1", "count is a whole number"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\nevery_ms = -1", "every_ms is a number"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\nattributes = [1]", "attributes is a table"),
        ("[[publish]]\nat = 1\nbroker = 'rome'\nattributes = 'abc'", "attributes is a table"),
        (
            "[[publish]]\nat = 1\nbroker = 'rome'\nattributes = {a = [1]}",
            "publish 1: attributes: E_VALUE_TYPE: a",
        ),
        (
            2 * "[[publish]]\nat = 1\nbroker = 'rome'\n" + "attributes = {JMSType = 1}",
            "publish 2: attributes: E_MESS",
        ),
        ("[[publish]]\nat = 1\nbroker = 'berne'", "publish 1: there is no broker 'berne'"),
        ("[[fault]]\nat = 1\ncut = ['paris', 'rome']", "no link between paris and rome"),
        ("[[fault]]\nat = 1\nheal = ['paris', 'paris']", "no link between paris and paris"),
        ("[[fault]]\nat = 1\ncut = ['paris']", "no link between paris"),
        ("[[fault]]\nat = 1\ncut = 3", "brokers are a list"),
        (
            "[[fault]]\nat = 1\ncrash = 'rome'\n[[fault]]\nat = 2\ncrash = 'berne'",
            "fault 2: there is no broker 'berne'",
        ),
        ("[[fault]]\nat = 1", "does one thing, not 0"),
        ("[[fault]]\nat = nan\ncrash = 'rome'", "fault 1: at is a number"),
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


def test_a_number_and_a_name_that_look_the_same() -> None:
    with pytest.raises(UsageError, match="E_SCENARIO: topology: two brokers are called 1"):
        Scenario.from_toml('topology = {links = [{between = [1, "1"]}]}')


def test_long_messages_pass_whoever_carries_them() -> None:
    for scheme in ("bdrp", "flooding", "covering"):
        publish = f"[[publish]]\nat = 2000\nbroker = 'paris'\nattributes = {{text = '{'x' * (3 << 19)}'}}"
        text = f"scheme = '{scheme}'\nrun_ms = 3000\n{NETWORK}[[subscribe]]\nat = 100\nbroker = 'rome'\n{publish}"
        outcome = Scenario.from_toml(text).run(1)
        assert outcome.delivered == outcome.matched == 1, scheme


def test_random_faults_need_something_that_fails() -> None:
    with pytest.raises(UsageError, match="need a link"):
        Scenario.from_toml("random_faults = 2\ntopology = {nodes = [1]}")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"E_SCENARIO: .*s\.toml is not text"):
        CliRunner().invoke(app, ["sim", "run", str(path)], catch_exceptions=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["pruning", "--scale", "0"],
        ["pruning", "--scale", "nan"],
        ["pruning", "--scale", "inf"],
        ["pruning", "--jobs", "0"],
        ["pruning", "--sweep", "mobile", "--hours", "0"],
        ["large-network", "--seconds", "inf"],
        ["large-network", "--rate", "inf"],
    ],
)
def test_an_experiment_of_a_size_that_makes_no_sense_is_refused(arguments: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["sim", "experiment", *arguments, "--output", str(tmp_path)])
    assert result.exit_code == 2, result.output
    assert f"Invalid value for '{arguments[-2]}'" in result.output
