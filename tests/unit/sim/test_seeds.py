"""The command that runs many seeds counts what is wrong, says how to repeat it and leaves a line of results."""

import json
from pathlib import Path

import pytest
from hardening.machines import pan
from hardening.seeds import parser, run_seeds
from hardening.simulate import __main__ as simulate


def odd(seed: int) -> dict[str, int]:
    if seed % 5 == 0:
        error = ValueError("five")
        error.add_note(f"Repeat with: {seed}")
        raise error
    return {"right": 1}


def test_failures_are_counted_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "odd.json"
    asked = parser("odd", "").parse_args(["3", "17", "--processes", "2", "--results", str(results)])
    assert run_seeds(asked, "odd", odd) == 1
    out = capsys.readouterr().out
    assert "seed 10: ValueError: five\n  Repeat with: 10" in out
    assert "15 seeds from 3, 3 wrong; {'right': 12}" in out
    line = json.loads(results.read_text())
    assert (line["what"], line["first"], line["seeds"], line["wrong"], line["right"]) == ("odd", 3, 15, 3, 12)


def test_one_seed_of_pan(capsys: pytest.CaptureFixture[str]) -> None:
    assert pan.main(["1"]) == 0
    assert "1 seeds from 1, 0 wrong" in capsys.readouterr().out


def test_nothing_is_begun_when_the_time_is_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "odd.json"
    asked = parser("odd", "").parse_args(["1", "100", "--seconds", "0", "--results", str(results)])
    assert run_seeds(asked, "odd", odd) == 0
    assert "odd: 0 seeds from 1, 0 wrong; {}" in capsys.readouterr().out
    assert not results.exists(), "a run of nothing proves nothing"


def test_no_seeds_are_refused() -> None:
    with pytest.raises(SystemExit, match="there are none"):
        run_seeds(parser("odd", "").parse_args(["1", "0"]), "odd", odd)


def test_simulations_share_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate.main(["17", "18", "--world", "unicast"]) == 0
    assert "simulation: 2 seeds from 17, 0 wrong; {'faults': " in capsys.readouterr().out
