"""The documentation is true: its Python code runs, its examples give what they show, its links lead somewhere."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings.testing.local_broker import BrokerThread

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(?!>>>)(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, int, str]]:
    """Page, line and text of each piece of Python code."""
    return [
        (str(page.relative_to(ROOT)), text[: match.start()].count("\n") + 1, match[1])
        for page in PAGES
        for text in [page.read_text()]
        for match in BLOCK.finditer(text)
    ]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as running:
        yield running


@pytest.mark.parametrize(("page", "line", "code"), blocks(), ids=lambda value: str(value)[:30])
def test_code_runs_and_prints_what_its_comments_say(
    page: str, line: int, code: str, broker: BrokerThread, capsys: pytest.CaptureFixture[str]
) -> None:
    code = code.replace("127.0.0.1:7300", f"127.0.0.1:{broker.port}")  # the documented port may be taken here
    code = code.replace("127.0.0.1:5672", broker.amqp)
    exec(compile("\n" * line + code, page, "exec"), {"__name__": "__docs__"})
    expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_give_what_they_show(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False)
    assert failed == 0


def test_relative_links_lead_somewhere() -> None:
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert dead == []
