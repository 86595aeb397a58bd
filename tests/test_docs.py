"""The documentation is true: its code and commands run, its examples give what they show, its links lead somewhere.

Blocks by language. python and sh are run; those of a page that a comment marks as "not run", with the reason, are only
compiled, or held against the commands there are. toml must parse, and be a configuration if it looks like one. java and
js are run where Java's compiler and Node.js are installed. text, mermaid and csharp are not looked at.
"""

import doctest
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main

from tidings.broker import config
from tidings.broker.config_tables import Configuration
from tidings.cli import make_app
from tidings.errors import UsageError
from tidings.lab.local_network import LocalNetwork
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.links import free_ports

ROOT = Path(__file__).parents[1]
NODE = ROOT / "build" / "node"  # scripts/node-packages puts them there
GENERATED = ROOT / "docs" / "generated"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if GENERATED not in page.parents),
    *sorted((ROOT / "deploy").glob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
BLOCK = re.compile(r"^(?:<!-- ([^>]*) -->\n)?```(\S*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "sh", "toml", "java", "js", "csharp", "text", "mermaid", "{toctree}"}
SHELL_SECONDS = 240


class Block(NamedTuple):
    page: Path
    line: int
    mark: str  # what the comment before it says
    language: str
    text: str

    @property
    def run(self) -> bool:
        return not self.mark.startswith("not run: ")


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            line = text[: match.start(2)].count("\n") + 1
            yield Block(page, line, match[1] or "", match[2], match[3])


BLOCKS = list(blocks())
PYTHON = [one for one in BLOCKS if one.language == "python" and not one.text.startswith(">>>")]
SHELL_PAGES = sorted({one.page for one in BLOCKS if one.language == "sh" and one.run})


def name_of(value: object) -> str:
    return f"{value.page.stem}-{value.line}" if isinstance(value, Block) else Path(str(value)).stem


def test_every_block_says_its_language_and_why_it_is_not_run() -> None:
    wrong = [(one.page.name, one.line, one.language) for one in BLOCKS if one.language not in LANGUAGES]
    assert wrong == []
    hidden = [
        page.name
        for page in PAGES
        if re.search(r"^ {4}(tidings|make|python) ", BLOCK.sub("", page.read_text()), re.MULTILINE)
    ]
    assert hidden == [], "commands belong in a block of sh"
    marks = ("not run: ", "fails: ", "in another window")
    assert [(one.page.name, one.mark) for one in BLOCKS if one.mark and not one.mark.startswith(marks)] == []


class Broker(NamedTuple):
    """One process for all blocks; ports by protocol, and "http"."""

    directory: Path
    ports: dict[str, int]

    def moved(self, text: str) -> str:
        """The documented ports may be taken here."""
        for port, name in ((7300, "native"), (61613, "stomp"), (61614, "websocket"), (5672, "amqp"), (8700, "http")):
            text = re.sub(rf"(127\.0\.0\.1:){port}\b", rf"\g<1>{self.ports[name]}", text)
        return text


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    others = "".join(f'[[listeners]]\nprotocol = "{name}"\nport = 0\n' for name in ("stomp", "websocket", "amqp"))
    more = others + '[broker]\ndata = "data"\n[tracking]\npersist_ms = 200'
    with BrokerProcess(tmp_path_factory.mktemp("broker"), more) as process:
        ports = {event["protocol"]: int(event["port"]) for event in process.events("listening")}
        yield Broker(process.directory, {**ports, "http": int(process.events("metrics")[-1]["port"])})


@pytest.mark.parametrize("block", PYTHON, ids=name_of)
def test_code_runs_and_prints_what_its_comments_say(
    block: Block, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    code = broker.moved(block.text)
    compiled = compile("\n" * block.line + code, str(block.page), "exec")
    if block.run:
        exec(compiled, {"__name__": "__docs__"})
        expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", SHELL_PAGES, ids=name_of)
def test_commands_run(page: Path, broker: Broker, tmp_path: Path) -> None:
    """All blocks of a page in one shell, in a directory of its own, at a broker that is there."""
    (tmp_path / "data").symlink_to(broker.directory / "data")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TIDINGS_URL": f"tidings://127.0.0.1:{broker.ports['native']}",
        "METRICS": f"http://127.0.0.1:{broker.ports['http']}/metrics",
    }
    output = tmp_path / "output"
    try:
        with output.open("w") as file:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script(page, broker)], cwd=tmp_path, env=environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=SHELL_SECONDS,
            )  # fmt: skip
        assert done.returncode == 0, output.read_text()
    finally:
        with suppress(UsageError):  # there is none
            LocalNetwork.load(tmp_path / "out" / "net").stop(kill=True)


# A command in another window has begun when the broker has one connection more.
WINDOW = """
connections() {{ curl -sf "$METRICS" | sed -n 's/^tidings_connections{{state="ready"}} //p'; }}
BEFORE=$(connections)
( {text} ) & WINDOWS="${{WINDOWS:-}} $!"
for try in $(seq 600); do [ "$(connections)" != "$BEFORE" ] && break; sleep 0.1; done
"""


def script(page: Path, broker: Broker) -> str:
    base = free_ports(9)[0]
    parts = []
    for block in [one for one in BLOCKS if one.page == page and one.language == "sh" and one.run]:
        text = block.text
        if block.mark.startswith("in another window"):
            text = WINDOW.format(text=text.strip())
        elif block.mark.startswith("fails"):
            text = f"if ( {text.strip()} ); then echo 'this should have failed' >&2; exit 1; fi\n"
        parts.append(f": '{page.name}, line {block.line}'\n{text}")
    text = broker.moved("\n".join([*parts, "for one in ${WINDOWS:-}; do wait $one; done"]))
    return re.sub(r"\b740(\d)\b", lambda match: str(base + int(match[1])), text)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of every block of sh, run or not, as words, without what a shell makes of it."""
    for block in (one for one in BLOCKS if one.language == "sh"):
        text = re.sub(r"<<(\w+)\n.*?^\1$", "", block.text, flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
        text = re.sub(r"\$\(python -c '[^']*'\)", "FILE", text)
        text = re.sub(r"^(.*)\$\((tidings [^)]*)\)(.*)$", r"\2\n\1ID\3", text, flags=re.MULTILINE)
        for line in text.splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if set(word) <= set(";&|"):
                    yield f"{block.page.name}:{block.line}", words
                    words = []
                elif not re.fullmatch(r"[A-Z_]+=\S*|sudo", word):
                    words.append(word)


def test_commands_exist_and_take_these_options() -> None:
    root = typer.main.get_command(make_app())
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong, seen = [], 0
    for where, words in commands():
        cut = next((number for number, word in enumerate(words) if set(word) <= set("<>")), len(words))
        name, *rest = [Path(word).name if number == 0 else word for number, word in enumerate(words[:cut])] or [""]
        seen += name == "tidings"
        if name == "tidings" and not {"--help", "--version"} & set(rest):
            wrong += [f"{where}: {' '.join(words)}: {fault}" for fault in faults(root, rest)]
        elif name == "make" and rest[0] not in targets:
            wrong.append(f"{where}: there is no target {rest[0]}")
        elif name == "python" and rest[0] == "-m" and importlib.util.find_spec(rest[1]) is None:
            wrong.append(f"{where}: there is no module {rest[1]}")
    assert wrong == []
    assert seen > 50


def faults(command: Any, words: list[str]) -> list[str]:
    """Why the command line would be refused before anything is done."""
    path = "tidings"
    while getattr(command, "commands", None) is not None:
        if not words or words[0] not in command.commands:
            return [f"there is no command {path} {words[0] if words else ''}"]
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
    try:
        command.make_context(path, list(words))
    except Exception as error:  # noqa: BLE001  (whatever is wrong with it)
        return [str(error)]
    return []


# --- other languages --------------------------------------------------------------------------------------------------


def test_tables_of_configurations_are_right(tmp_path: Path) -> None:
    tables = set(Configuration.__dataclass_fields__)
    checked = 0
    for block in (one for one in BLOCKS if one.language == "toml"):
        if set(tomllib.loads(block.text)) <= tables:
            path = tmp_path / f"{block.page.stem}-{block.line}.toml"
            path.write_text(block.text)
            config.load(path)  # refuses what it does not know
            checked += 1
    assert checked > 5
    config.load(ROOT / "deploy" / "broker.toml")


def test_java_runs(broker: Broker, tmp_path: Path) -> None:
    (block,) = [one for one in BLOCKS if one.language == "java"]
    if shutil.which("javac") is None:  # a runtime alone cannot compile
        assert block.text.count("{") == block.text.count("}")
        return
    (tmp_path / "Quotes.java").write_text(block.text)
    command = ["java", "-XX:TieredStopAtLevel=1", str(tmp_path / "Quotes.java"), str(broker.ports["stomp"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "fifty" in done.stdout, done.stderr


def test_javascript_runs(broker: Broker, tmp_path: Path) -> None:
    (block,) = [one for one in BLOCKS if one.language == "js"]
    (tmp_path / "node_modules").symlink_to(NODE / "node_modules")
    (tmp_path / "quotes.mjs").write_text(broker.moved(block.text))
    done = subprocess.run(["node", "quotes.mjs"], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.stdout == "fifty\n", done.stderr


def test_the_unit_for_systemd_is_well_formed() -> None:
    unit = ROOT / "deploy" / "tidings.service"
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
        complaints = [line for line in done.stderr.splitlines() if "not executable" not in line and "tidings" in line]
        assert complaints == []
    starts = re.findall(r"^Exec\w+=\S*/(tidings .*)$", unit.read_text(), re.MULTILINE)
    root = typer.main.get_command(make_app())
    assert [faults(root, line.split()[1:]) for line in starts] == [[], []]


def test_the_container_file_copies_what_is_there_and_starts_a_broker() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    copied = [name for names in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in names.split()]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {"native", "src", "pyproject.toml", "deploy/broker.toml"} <= set(copied)
    (entry,), (command,) = (re.findall(rf"^{word} (\[.*\])$", text, re.MULTILINE) for word in ("ENTRYPOINT", "CMD"))
    assert json.loads(entry) == ["tidings"]
    assert faults(typer.main.get_command(make_app()), json.loads(command)) == []


# --- examples, links --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
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


def test_every_page_is_in_a_table_of_contents() -> None:
    trees = {one.page.parent: one.text.split() for one in BLOCKS if one.language == "{toctree}"}
    index = [
        word
        for one in BLOCKS
        if one.language == "{toctree}" and one.page.name == "index.md"
        for word in one.text.split()
    ]
    pages = [page.relative_to(ROOT / "docs").with_suffix("") for page in PAGES if ROOT / "docs" in page.parents]
    missing = [
        str(page) for page in pages if page.parts[0] != "adr" and page.name != "index" and str(page) not in index
    ]
    assert missing == []
    assert trees[ROOT / "docs" / "adr"][-1] == "0*"
