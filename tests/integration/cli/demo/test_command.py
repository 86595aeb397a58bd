"""The demo, reduced: all its steps but Spark, on real brokers; and nothing is left running, whatever happens."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from rich.console import Console

from tidings.cli.demo import command as demo
from tidings.cli.demo.stage import QUICK, Stage, Step
from tidings.errors import TidingsError

COMMAND = [sys.executable, "-m", "tidings.cli", "demo", "--quick", "--output"]


def descendants(marker: Path) -> list[int]:
    """Processes that have this temporary directory in their command line: the demo's brokers."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str(marker).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # it has ended meanwhile
                continue
    return found


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "COLUMNS": "160"}


def test_a_reduced_demo_ends_with_a_summary_and_a_page(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [*COMMAND, str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment(tmp_path / "tmp"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "out" / "index.html").read_text()
    for promised in ("deliveries to 12 desks, none amiss", "90 persistent trades, 0 lost", "predicted", "receivers"):
        assert promised in page
    pictures = re.findall(r'<img src="([^"]+)"', page)
    shown = {"network", "rates", "trace", "recovery", "capacity", "matching"}
    assert {f"{name}-light.svg" for name in shown} == set(pictures)
    dark = re.findall(r'<source srcset="([^"]+)" media="\(prefers-color-scheme:dark\)">', page)
    assert {f"{name}-dark.svg" for name in shown} == set(dark)
    assert all((tmp_path / "out" / name).stat().st_size > 500 for name in pictures + dark)
    assert descendants(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_demo_that_is_terminated_takes_its_brokers_along(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(
        [*COMMAND, str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(tmp_path / "tmp"),
    ) as process:
        deadline = time.monotonic() + 60
        while len(descendants(tmp_path / "tmp")) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(descendants(tmp_path / "tmp")) >= 4
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == demo.INTERRUPTED, output.decode()
    assert descendants(tmp_path / "tmp") == []


def test_a_failure_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Stage) -> None:
        raise TidingsError("E_DEMO_WAIT", "the brokers do not find each other")

    monkeypatch.setattr(demo, "steps", lambda: [Step("A network", fail)])
    stage = Stage(Console(record=True, width=120, file=io.StringIO()), tmp_path, tmp_path, QUICK)
    with pytest.raises(typer.Exit) as caught:
        demo.perform(stage, stay=False)
    assert caught.value.exit_code == 1
    assert "“A network” failed: E_DEMO_WAIT: the brokers do not find each other" in stage.console.export_text()
