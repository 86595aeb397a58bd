"""Options of the whole test suite, and one profile for all property tests.

No deadline: how long an example takes says nothing about correctness. Examples are drawn from a fixed seed, so that
a run says the same every time; HYPOTHESIS_PROFILE=explore draws new ones.
"""

import os

import pytest
from hypothesis import settings
from tests.markers import MARKERS, TESTS, needs

settings.register_profile("tidings", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tidings"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="rewrite transcripts instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by what they need; with several workers (`-n 2`), those that share a costly fixture stay on one."""
    for item in items:
        for marker in needs(item.path) if item.path.is_relative_to(TESTS) else ():
            item.add_marker(marker)
        folder = item.path.parent
        whole = folder.name in ("browser", "spark")  # one browser, one Spark session
        item.add_marker(pytest.mark.xdist_group(str(folder if whole else item.path)))
