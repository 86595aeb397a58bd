"""Options of the whole test suite, and one profile for all property tests.

No deadline: how long an example takes says nothing about correctness. Examples are drawn from a fixed seed, so that
a run says the same every time; HYPOTHESIS_PROFILE=explore draws new ones.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("tidings", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tidings"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write transcripts anew instead of comparing with them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the work (`-n 2`): what shares a fixture that is dear is done by one of them."""
    for item in items:
        folder = item.path.parent
        whole = folder.name in ("console", "pipeline")  # one browser, one Spark session
        item.add_marker(pytest.mark.xdist_group(str(folder if whole else item.path)))
