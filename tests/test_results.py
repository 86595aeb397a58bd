"""The page of results is made of the lines that the long runs left."""

from pathlib import Path

from tidings.testing.results_page import lines, page


def test_the_page_is_current() -> None:
    assert (Path(__file__).parents[1] / "docs" / "results.md").read_text() == page()


def test_every_line_says_when_and_of_what() -> None:
    assert len(lines()) > 3
    for one in lines():
        assert one["date"]
        assert one["commit"]
