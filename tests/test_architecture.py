"""ARCHITECTURE.md is true: its paths exist, its walks are short, and its packages are those of the source."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tidings"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
WALK_FILES_MAX, ROWS_MAX, LINES_MAX = 10, 12, 110
TOP = ("native/", "docs/", "tests/", "hardening/", "bench/", "src/", "CONTRIBUTING.md")


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def walks() -> dict[str, list[str]]:
    """The files of each walk, in order."""
    parts = re.split(r"^\*\*(.+?)\*\*.*$", section("Walks"), flags=re.MULTILINE)
    return {
        name: re.findall(r"^\d+\. `([^`]+)`", text, re.MULTILINE)
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def located(path: str) -> Path:
    return (ROOT if path.startswith(TOP) else PACKAGE) / path


def test_every_path_exists() -> None:
    named = set()
    for path in re.findall(r"`([\w./{},]+)`", TEXT):
        head, _, rest = path.partition("{")
        names, _, tail = rest.partition("}")
        named |= {f"{head}{name}{tail}" for name in names.split(",")} if rest else {path}
    paths = {path for path in named if "/" in path and not path.startswith("include/")}
    assert len(paths) > 60
    assert sorted(path for path in paths if not located(path).exists()) == []
    kernel = re.findall(r"`include/tidings/\{(.+)\}`", TEXT)[0].split(",")
    folders = (path for path in (ROOT / "native/include/tidings").iterdir() if path.is_dir())
    assert set(kernel) == {path.name for path in folders}


def test_the_map_has_every_package() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages - set(re.findall(r"`(\w+)`", section("Map"))) == set()


@pytest.mark.parametrize("name", ["Plain message", "Persistent message", "Subscription", "Trace"])
def test_a_walk_is_short_and_its_files_exist(name: str) -> None:
    files = walks()[name]
    assert 1 < len(files) <= WALK_FILES_MAX
    assert [path for path in files if not located(path).is_file()] == []


def test_it_fits_its_purpose() -> None:
    rows = [line for line in section("Where to look").splitlines() if line.startswith("| ")]
    assert len(rows) - 1 <= ROWS_MAX  # without the heading
    assert TEXT.count("\n") <= LINES_MAX
