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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense =", "Invalid value"),
        ("colour = 1", "no field 'colour'"),
        ("[[publish]]\nat = 1\nbroker = 9", "no broker 9"),
        ("[topology]\nnodes = [1]\n[[fault]]\nat = 1\nexplode = 1", "no fault 'explode'"),
        ("[[fault]]\ncrash = 1", "something is missing"),
        ("encoding = 'morse'\ntopology = {nodes = [1]}", "no encoding 'morse'"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Scenario.from_toml(text).run(1)
