"""The example applications run, and each finds that what arrived is what should have."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings.testing.local_broker import BrokerThread

EXAMPLES = Path(__file__).parents[3] / "examples"
LINES_MAX = 150
# By its own broker's address; what an example must have found out. Each ends with status 1 if it does not add up.
SAYS = {
    "market_data": "trader got   46",
    "presence": "everybody knows the state of their buddies",
    "workflow": "order 7 has no address and is a dead letter now",
}


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name: str, broker: BrokerThread) -> None:
    assert SAYS[name] in run(name, broker.url)


def test_telemetry_brings_its_own_brokers() -> None:
    assert "headquarters has all 349, once each" in run("telemetry")


def test_examples_are_short_and_all_of_them_are_run() -> None:
    found = {path.stem: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(found) == {*SAYS, "telemetry"}
    assert max(found.values()) < LINES_MAX
