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
