"""Description of the machine and the software of a measurement."""

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def environment() -> dict[str, Any]:
    """For results that are kept: without it a figure says nothing."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": version("tidings"),
        "commit": _git("rev-parse", "--short=12", "HEAD") + ("+" if _git("status", "--porcelain") else ""),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "cpu": _cpu(),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _git(*arguments: str) -> str:
    """Of the sources this runs from; what was installed without them has no commit."""
    here = Path(__file__).parent
    done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("unknown" if arguments[0] == "rev-parse" else "")
