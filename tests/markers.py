"""Markers of tests by what they need: applied by folder and imports, so that no file can lack one."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
MARKERS = {
    "sockets": "opens sockets on loopback",
    "processes": "starts processes",
    "browser": "drives Chromium",
    "spark": "starts a Spark session",
    "slow": "samples a long campaign; `make quick` leaves it out",
}
STARTERS: tuple[str, ...] = (
    "subprocess",
    "multiprocessing",
    "hardening.kills",
    "tidings.testing.broker_process",
    "tidings.localnet",
)
STARTERS += ("hardening.support.warm_commands", "hardening.support.command", "bench.install")
SLOW = {
    "tests/unit/kernel/test_fuzz.py",
    "tests/unit/kernel/test_native_units.py",
}


@cache
def needs(path: Path) -> frozenset[str]:
    """The markers of one test file."""
    area = path.relative_to(TESTS).parts[0]
    found = set()
    if area in ("integration", "browser", "behaviour"):
        found.add("sockets")
    if area in ("browser", "spark"):
        found |= {area, "processes"}
    imported = {
        name
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
            if isinstance(node, ast.ImportFrom)
            else [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    if any(name.startswith(STARTERS) for name in imported):
        found.add("processes")
    if str(path.relative_to(TESTS.parent)) in SLOW:
        found.add("slow")
    return frozenset(found)
