"""The page of results is made of the lines that the long runs left."""

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hardening.access import matrix
from hardening.kills import power_loss, store_damage
from hardening.load import scenarios as load
from hardening.machines import unicast
from hardening.network import flaps, partition
from hardening.record import main, noted, times
from hardening.results_page import COMMANDS, LOG, PAGE, lines, log, page

ROOT = Path(__file__).parents[1]


def test_the_page_and_the_log_are_current() -> None:
    assert PAGE.read_text() == page()
    assert LOG.read_text() == log()


def test_every_line_says_when_and_of_what() -> None:
    assert len(lines()) > 2
    for one in lines():
        assert one["date"]
        assert one["commit"]
        assert one.get("seeds") != 0


def test_a_run_that_fails_leaves_a_line_too(tmp_path: Path) -> None:
    results = tmp_path / "results.json"

    def fail() -> dict[str, int]:
        raise AssertionError("something is lost")

    with pytest.raises(AssertionError, match="lost"):
        noted(results, "kills", fail, kills=10)
    noted(results, "kills", lambda: {"confirmed": 7}, kills=10)
    failed, right = (json.loads(line) for line in results.read_text().splitlines())
    assert (failed["kills"], failed["wrong"]) == (10, 1)
    assert (right["kills"], right["confirmed"], right["wrong"]) == (10, 7, 0)


@pytest.mark.parametrize("text", ["0", "-1", "many"])
def test_a_run_of_nothing_is_refused(text: str) -> None:
    assert times("1") == 1
    with pytest.raises(SystemExit):
        times(text)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (matrix.main, ["1", "²"]),
        (flaps.main, ["²"]),
        (load.main, ["half", "²"]),
        (partition.main, ["²"]),
        (power_loss.main, ["1", "²"]),
        (store_damage.main, ["1", "²"]),
        (unicast.main, ["link-state", "²"]),
    ],
)
def test_a_digit_that_is_no_number_is_refused(tool: Callable[[list[str]], None], arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage"):
        tool(arguments)


def test_what_a_report_of_tests_counts(tmp_path: Path) -> None:
    results, report = tmp_path / "results.json", tmp_path / "report.xml"
    main([str(results), "threads", "--tests", str(report)])
    report.write_text('<testsuites><testsuite name="a" errors="1" failures="2" skipped="1" tests="9"></testsuite>')
    main([str(results), "threads", "--tests", str(report)])
    main([str(results), "threads", "tests=5", "wrong=0"])
    found = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(one["tests"], one["wrong"]) for one in found] == [(0, 1), (8, 3), (5, 0)]


def test_every_campaign_has_its_place_on_the_page() -> None:
    calls = [
        node
        for path in (ROOT / "hardening").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "noted"
    ]
    names = {call.args[1].value for call in calls if isinstance(call.args[1], ast.Constant)}
    assert len(names) > 5
    assert names <= COMMANDS.keys()
