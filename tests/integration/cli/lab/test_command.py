"""`tidings lab` as a person sees it: tables of a narrow terminal, and folders that are not there."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.cli.lab.command import as_table
from tidings.errors import UsageError
from tidings.lab.results import Mean, PointResult

POINT = {"matching": 1, "others": 20_000, "body": 16_384}
MEASURED = PointResult(
    "message-size", "activemq", "filters", POINT, None, Mean(14_443_632.0, 1.0, 1_234_567.0, 3),
    Mean(144_436_320.0, 1.0, 12_345_678.0, 3), {}, (),
)  # fmt: skip
REGISTERED = PointResult(
    "registration", "tidings", "registration", {}, None, None, None, {"all_s": Mean(12.5, 1, 1, 3)}, ()
)
REJECTED = PointResult("size", "tidings", "filters", {}, None, None, None, {}, ("the server used 77 % of its core",))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_digit_is_lost_however_narrow_the_terminal(width: int) -> None:
    file = io.StringIO()
    Console(file=file, width=width).print(as_table([MEASURED, REGISTERED, REJECTED], width))
    shown = file.getvalue()
    for text in ("14,443,632", "± 1,234,567", "144,436,320", "± 12,345,678", "12.5"):
        assert text in shown
    assert "…" not in shown
    assert "77 %" in re.sub(r"[│\s]+", " ", shown)


def test_a_model_that_is_missing_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    missing = tmp_path / "typo.json"
    with pytest.raises(UsageError, match=r"typo\.json"):
        CliRunner().invoke(
            make_app(["lab"]),
            ["lab", "validate", str(missing), "--broker", "stomp=127.0.0.1:1"],
            catch_exceptions=False,
        )
    assert not missing.exists()


def test_a_picture_of_no_known_kind_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    wish = ["lab", "validate", str(tmp_path / "model.json"), "--broker", "stomp=127.0.0.1:1", "--picture", "x.xyz"]
    with pytest.raises(UsageError, match="E_PICTURE"):
        CliRunner().invoke(make_app(["lab"]), wish, catch_exceptions=False)


def test_an_output_of_ascii_is_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidings.cli", "lab", "presets"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xd7" in done.stdout  # the sign for "times"
