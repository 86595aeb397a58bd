"""A test can be found: by the name of its module, or in tests/INDEX.md; and files are marked by what they need."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.markers import MARKERS, needs

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGE = ROOT / "src" / "tidings"
LISTED = re.findall(r"^\| .+ \| `(tests/[^`]+)` \|$", (TESTS / "INDEX.md").read_text(), re.MULTILINE)
FILES = sorted(TESTS.rglob("test_*.py"))
# Modules that a unit test does not import.
OUTSIDE = re.compile(r"^(socket$|subprocess|selenium|pyspark|tidings\.(client|localnet|broker\.server)\b.*)")


def mirrors(path: Path) -> bool:
    """True if the file has the name and folder of a module, or of a folder of modules."""
    *folders, name = path.relative_to(TESTS).parts
    if folders[:1] not in (["unit"], ["integration"]):
        return False
    del folders[0]
    module = PACKAGE.joinpath(*folders, name.removeprefix("test_").removesuffix(".py"))
    return module.with_suffix(".py").is_file() or module.is_dir()


def test_the_index_lists_every_other_test_file_once() -> None:
    others = {str(path.relative_to(ROOT)) for path in FILES if not mirrors(path)}
    assert sorted(others - set(LISTED)) == [], "add these to tests/INDEX.md with their promise"
    assert [path for path in LISTED if not (ROOT / path).is_file()] == []
    assert [path for path, count in Counter(LISTED).items() if count > 1] == []
    assert sorted(set(LISTED) - others) == [], "found by the name of their module: take them off tests/INDEX.md"


@pytest.mark.parametrize("area", ["unit", "integration"])
def test_folders_of_tests_are_those_of_the_source(area: str) -> None:
    folders = {path.parent.relative_to(TESTS / area) for path in (TESTS / area).rglob("test_*.py")}
    extra = {Path("examples"), Path("install")} if area == "integration" else set()
    assert {str(folder) for folder in folders - extra if not (PACKAGE / folder).is_dir()} == set()


def test_unit_tests_use_no_network_client_or_process() -> None:
    allowed = {  # compilers, a writer that is killed, graphviz, pairs of connected sockets
        "tests/unit/kernel/test_client_input.py",
        "tests/unit/kernel/test_forwarder.py",
        "tests/unit/kernel/test_fuzz.py",
        "tests/unit/kernel/test_native_units.py",
        "tests/unit/kernel/test_stub.py",
        "tests/unit/segments/test_writer.py",
        "tests/unit/tracking/draw/test_text.py",
    }
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in FILES
        if path.is_relative_to(TESTS / "unit") and str(path.relative_to(ROOT)) not in allowed
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
        if OUTSIDE.match(module)
    ]
    assert wrong == []


def test_every_marker_is_used_and_pure_tests_have_none() -> None:
    found = {marker for path in FILES for marker in needs(path)}
    assert found == set(MARKERS)
    assert [
        str(path) for path in FILES if path.is_relative_to(TESTS / "unit") and needs(path) - {"slow", "processes"}
    ] == []
