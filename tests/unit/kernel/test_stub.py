"""The generated stub says what the built kernel offers."""

import subprocess
import sys
from pathlib import Path

STUB = Path(__file__).parents[3] / "src" / "tidings" / "_kernel.pyi"


def test_the_stub_is_current(tmp_path: Path) -> None:
    fresh = tmp_path / "_kernel.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "tidings._kernel", "-o", str(fresh)]
    subprocess.run(command, check=True, timeout=60)
    assert STUB.read_text() == fresh.read_text(), "run `make stub`"
