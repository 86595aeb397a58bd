"""Builds and runs the kernel's unit tests in C++ (native/tests/units), the second time with the portable code only."""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "native-tests"
UNITS = ROOT / "native" / "tests" / "units"


def test_matcher_codec_and_forwarder_without_python() -> None:
    assert shutil.which("g++"), "the kernel cannot be built without it either"
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    written = sum(path.read_text().count("\nTEST(") for path in UNITS.glob("*.cpp")) - 1  # one is of the portable code
    ran = {
        kind: int(tests)
        for kind, tests in re.findall(r"^(.+): (\d+) tests, \d+ checks, 0 failures$", done.stdout, re.MULTILINE)
    }
    assert ran["kernel"] == written
    assert ran["portable code"] == 14


def test_a_failed_check_gives_status_1_with_file_and_line(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cpp"
    source.write_text('#include "check.hpp"\nTEST(right) { CHECK(1 == 1); }\nTEST(wrong) { CHECK(1 == 2); }\n')
    program = tmp_path / "wrong"
    flags = ["-std=c++20", "-O0", f"-I{ROOT / 'native' / 'include'}", f"-I{UNITS}"]
    subprocess.run(["g++", *flags, source, UNITS / "main.cpp", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == "2 tests, 2 checks, 1 failures\n"
    assert f"{source}:3: not so: 1 == 2\n" in done.stderr
    assert subprocess.run([program, "right"], capture_output=True).returncode == 0
    assert subprocess.run([program, "no such test"], capture_output=True).returncode == 1
