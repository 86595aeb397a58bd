"""Where results go: bench/results/NAME.json, with the machine and the commit they belong to."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return done.stdout.strip() or "unknown"


def save(name: str, results: dict[str, Any]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    where = {"processor": processor(), "python": platform.python_version(), "commit": commit()}
    path.write_text(json.dumps({"machine": where, **results}, indent=2) + "\n")
    return path
