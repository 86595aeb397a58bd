"""Experiments with real brokers, as far as they can be told without any: what is refused, and how one ends."""

import signal
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from tidings.cli.experiments import real_network as experiment_network
from tidings.errors import UsageError
from tidings.experiments.bdrp import real_network
from tidings.experiments.covering import real_pruning


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["scale-out", "--brokers", "3"], "E_BROKERS"),
        (["scale-out", "--constant", "nan"], "E_RATE"),
        (["costs", "--rate", "0"], "E_RATE"),
        (["costs", "--rate", "inf"], "E_RATE"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(real_network, "measure", None)
    done = CliRunner().invoke(experiment_network.app, [*arguments, "--output", str(tmp_path)])
    assert isinstance(done.exception, UsageError), done.exception
    assert done.exception.code == code


@pytest.mark.parametrize(("command", "module"), [("pruning", real_pruning), ("costs", real_network)])
def test_what_is_told_to_end_ends_what_it_has_started(
    command: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measure(*_: object) -> NoReturn:
        handler = signal.getsignal(signal.SIGTERM)
        assert callable(handler)
        handler(signal.SIGTERM, None)
        raise AssertionError("goes on")

    monkeypatch.setattr(module, "measure", measure)
    done = CliRunner().invoke(experiment_network.app, [command, "--output", str(tmp_path)])
    assert isinstance(done.exception, KeyboardInterrupt | SystemExit), done.exception
