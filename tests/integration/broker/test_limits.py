"""Each limit of the table: possible itself, one more refused with its code; and the page is made of the same table."""

from pathlib import Path

import pytest
from hardening.innocent.rows import ROWS
from hardening.limits_table import ALL, WAITS, Limit, beyond, page

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("limit", [one for one in ALL if one.probe], ids=lambda one: one.what)
def test_one_more_than_the_limit_is_refused_with_its_code(limit: Limit) -> None:
    assert beyond(limit) == limit.code


@pytest.mark.parametrize("limit", [one for one in ALL if not one.probe], ids=lambda one: one.what)
def test_the_others_have_tests_of_their_own(limit: Limit) -> None:
    path, _, name = limit.test.partition("::")
    text = (ROOT / path).read_text()
    assert f"def {name}(" in text
    if limit.code == WAITS:
        return  # no code: the test named above checks that it waits
    codes = [one.read_text() for one in (ROOT / "src" / "tidings").rglob("*.py")]
    codes += [one.read_text() for one in (ROOT / "native" / "include").rglob("*.hpp")]
    if limit.code.startswith("E_"):  # others are refused without an error: publishers wait
        assert any(f'"{limit.code}"' in one for one in codes), limit.code


def test_each_limit_has_a_client_that_is_at_it() -> None:
    assert {one.what for one in ALL} <= {row.what for row in ROWS}


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "limits.md").read_text() == page()
