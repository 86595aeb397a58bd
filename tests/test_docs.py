"""The Python code in the documentation runs as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, int, str]]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            found.append((str(page.relative_to(ROOT)), text[: match.start()].count("\n") + 1, match[1]))
    return found


@pytest.mark.parametrize(("page", "line", "code"), blocks(), ids=lambda value: str(value)[:30])
def test_code_in_the_documentation_runs(page: str, line: int, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile("\n" * line + code, page, "exec"), {"__name__": "__docs__"})
    printed = capsys.readouterr().out
    expected = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert printed.splitlines()[: len(expected)] == expected


def test_relative_links_lead_somewhere() -> None:
    dead = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert dead == []
