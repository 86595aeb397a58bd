"""A short run of every fuzz target under AddressSanitizer; `make fuzz` runs them for longer."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
TARGETS = {path.stem for path in (ROOT / "native" / "fuzz").glob("*.cpp")} - {"driver"}


def test_no_input_breaks_a_decoder() -> None:
    assert shutil.which("g++"), "the kernel cannot be built without it either"
    environment = os.environ | {"COUNT_EACH": "5000", "SECONDS_EACH": "0", "SEED": "1"}
    environment |= {"FUZZ_OPTIMIZE": "-O0", "FUZZ_DIR": "build/fuzz-quick"}  # what compiles in seconds
    done = subprocess.run([ROOT / "scripts" / "fuzz"], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = {line.split(":")[0] for line in done.stdout.splitlines() if ": 5000 inputs" in line}
    assert ran == TARGETS
