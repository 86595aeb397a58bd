"""The blocks of code and commands in the documentation, as tests/test_docs.py runs them, and the page that says which are not run.

A comment before a block says what is special about it:

    in another window        goes on while the next blocks are run, and must end by itself
    once the other window has ended
    stays up                 each line is started, in a network of its own, until it says that it is ready, and ended by SIGTERM
    fails: why               and that is what the text says
    run with: NEW for OLD    with other words than those a reader sees; several, separated by "; "
    in Spark                 by tests/spark/test_documented.py, in the session that its tests share
    on hosts: one two        by tests/integration/broker/test_hosts.py, in network namespaces; perhaps ", as postgres"
    in Spark: on a cluster   by tests/spark/test_cluster.py, each with a shell of its own
    not run: why             held against the parsers of the commands only
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "generated"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if GENERATED not in page.parents),
    *sorted((ROOT / "deploy").glob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
MARKS = (
    "in another window",
    "once the other window has ended",
    "stays up",
    "fails: ",
    "run with: ",
    "in Spark",
    "on hosts: ",
    "not run: ",
)
LANGUAGES = {"python", "sh", "toml", "java", "js", "csharp", "text", "mermaid", "{toctree}"}
_BLOCK = re.compile(r"^(?:<!-- ([^>]*) -->\n)?```(\S*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    page: Path
    line: int
    mark: str  # what the comment before it says
    language: str
    text: str

    @property
    def name(self) -> str:
        return str(self.page.relative_to(ROOT))

    @property
    def first(self) -> str:
        """How it begins, short enough for a list."""
        return self.text.splitlines()[0].split("  #")[0].strip()[:60]

    @property
    def runnable(self) -> str:
        """The text with the words that it is run with."""
        text = self.text
        if self.mark.startswith("run with: "):
            for change in self.mark.removeprefix("run with: ").split("; "):
                new, _, old = change.partition(" for ")
                assert old in text, f"{self.name}:{self.line}: there is no {old!r}"
                text = text.replace(old, new)
        return text

    def marked(self, mark: str) -> bool:
        return self.mark.startswith(mark)


def without_blocks(page: Path) -> str:
    return _BLOCK.sub("", page.read_text())


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            line = text[: match.start(2)].count("\n") + 1
            yield Block(page, line, match[1] or "", match[2], match[3])


def page() -> str:
    found = list(blocks())
    code = [one for one in found if one.language in ("python", "sh", "java", "js", "csharp")]
    idle = [one for one in code if one.marked("not run: ") or one.language == "csharp"]
    changed = [one for one in code if one.marked("run with: ")]
    lines = [
        "# What the tests run of these pages",
        "",
        f"{len(code) - len(idle)} of the {len(code)} blocks of code and commands in the documentation are run by `make test`, in a directory of "
        "their own at a broker of their own; examples with `>>>` are compared with what they print; tables of TOML are read as "
        "configurations. Of commands of `make` only a dry run is made (`make -n`). Not run, though their command lines are held "
        "against the commands there are:",
        "",
        "| where | begins with | why |",
        "|---|---|---|",
    ]
    for one in idle:
        why = one.mark.removeprefix("not run: ") or "there is no .NET on the machines of the tests: not checked at all"
        lines.append(f"| {one.name}, line {one.line} | `{one.first}` | {why} |")
    lines += ["", "Run with other words, to be quick or where the documented ones would not be free:", ""]
    lines += ["| where | with | instead of |", "|---|---|---|"]
    for one in changed:
        for change in one.mark.removeprefix("run with: ").split("; "):
            new, _, old = change.partition(" for ")
            lines.append(f"| {one.name}, line {one.line} | `{new}` | `{old}` |")
    return "\n".join(lines) + "\n"
