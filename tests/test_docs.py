"""The documentation is true: its code and commands run, its examples give what they show, its links lead somewhere.

docs/pages/blocks.py has the blocks, and what the comments before them mean. python and sh are run; toml must parse, and
be a configuration or an experiment if it looks like one; java and js are run; text, mermaid and csharp are not
looked at.
"""

import doctest
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import chdir, suppress
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

import pytest
import typer.main
from docs.pages import blocks
from docs.pages.blocks import PAGES, ROOT, Block
from hardening.support.links import free_ports
from hardening.support.recorded import record_runs
from hardening.support.warm_commands import warm_commands

from tidings.broker.config import load as config
from tidings.broker.config.tables import PROTOCOLS, Configuration
from tidings.cli import make_app
from tidings.errors import UsageError
from tidings.lab import experiment
from tidings.localnet.network import LocalNetwork
from tidings.testing.broker_process import BrokerProcess

NODE = ROOT / "build" / "node"  # scripts/node-packages puts them there
SHELL_SECONDS = 600  # only there to fail at all: machines may be busy
BLOCKS = list(blocks.blocks())
PYTHON = [one for one in BLOCKS if one.language == "python" and not one.text.startswith(">>>")]
SHELL = [one for one in BLOCKS if one.language == "sh"]
APART = ("not run: ", "in Spark", "stays up", "on hosts: ")
RUN = [one for one in SHELL if not one.mark.startswith(APART)]

# Whoever adds to these has found something that no test can run. The reasons stand before the blocks.
NOT_RUN = [
    "docs/console.md: tidings console tidings://10.0.0.1 tidings://10.0.0.2 tiding",
    "docs/covering.md: tidings sim experiment pruning",
    "docs/hermes.md: tidings sim experiment hermes all",
    "docs/howto/first_hour.md: python3 -m venv messaging && source messaging/bin/activate",
    "docs/howto/high_availability.md: tidings broker --standby --data pair --port 7311 --metrics-p",
    "docs/howto/secure.md: tidings sub 'ticks.>' --url tidings+tls://broker.example:730",
    "docs/howto/sizing.md: tidings plan capacity --from-broker 127.0.0.1:8700 --subscri",
    "docs/lab.md: tidings lab run quick --server tidings",
    "docs/lab.md: tidings lab calibrate 127.0.0.1:61613 --protocol stomp --per",
    "docs/lab.md: tidings lab validate model.json --broker native=127.0.0.1:73",
    "docs/networks.md: tidings net start square.toml --delays",
    "docs/networks.md: SEEDS=1000 python -m pytest tests/unit/sim/test_unicast.py",
    "docs/pipeline.md: spark-submit --master yarn --deploy-mode cluster --conf spar",
    "docs/protocols.md: curl -N 'http://127.0.0.1:8090/messages?destination=ticks.%3",
    "docs/runbook.md: systemctl start tidings",
    "docs/runbook.md: systemctl stop tidings && cp -a /var/lib/tidings /backup/tid",
    "docs/tutorial.md: tidings lab run quick --server tidings --runs 1 --busy",
    "deploy/README.md: python3 -m venv /opt/tidings && /opt/tidings/bin/pip install",
    "deploy/README.md: podman build --format docker -f deploy/Containerfile -t tidi",
]


def name_of(value: object) -> str:
    return f"{value.page.stem}-{value.line}" if isinstance(value, Block) else Path(str(value)).stem


def test_every_block_says_its_language_and_what_is_special_about_it() -> None:
    wrong = [(one.name, one.line, one.language) for one in BLOCKS if one.language not in blocks.LANGUAGES]
    assert wrong == []
    hidden = [
        page.name
        for page in PAGES
        if re.search(r"^ {4}(tidings|make|python) ", blocks.without_blocks(page), re.MULTILINE)
    ]
    assert hidden == [], "commands belong in a block of sh"
    assert [(one.name, one.mark) for one in BLOCKS if one.mark and not one.mark.startswith(blocks.MARKS)] == []


def test_what_is_not_run_is_known() -> None:
    assert [f"{one.name}: {one.first}" for one in BLOCKS if one.marked("not run: ")] == NOT_RUN
    page = blocks.page()
    assert all(f"`{one.first}`" in page for one in BLOCKS if one.marked("not run: "))


class Broker(NamedTuple):
    """One process for all blocks; ports by protocol, and "http"."""

    directory: Path
    ports: dict[str, int]

    def moved(self, text: str) -> str:
        """The documented ports may be taken here."""
        documented = {"native": 7300, "stomp": 61613, "websocket": 61614, "amqp": 5672, "mqtt": 1883}
        documented |= {"http": 8090, "metrics": 8700}
        for name, port in documented.items():
            text = re.sub(rf"(127\.0\.0\.1(?::|\", )){port}\b", rf"\g<1>{self.ports[name]}", text)
        return text


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    others = "".join(
        f'[[listeners]]\nprotocol = "{name}"\nport = 0\n' for name in ("stomp", "websocket", "amqp", "mqtt", "http")
    )
    more = others + '[broker]\ndata = "data"\n[tracking]\npersist_ms = 200'
    with BrokerProcess(tmp_path_factory.mktemp("broker"), more) as process:
        ports = {event["protocol"]: int(event["port"]) for event in process.events("listening")}
        yield Broker(process.directory, {**ports, "metrics": int(process.events("metrics")[-1]["port"])})


@pytest.mark.parametrize("block", PYTHON, ids=name_of)
def test_code_runs_and_prints_what_its_comments_say(
    block: Block, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    code = broker.moved(block.text)
    compiled = compile("\n" * block.line + code, str(block.page), "exec")
    if not block.marked("in Spark"):
        exec(compiled, {"__name__": "__docs__"})
        expected = re.findall(r"^ *print\(.*\)  # (.*)$", code, re.MULTILINE)
        assert capsys.readouterr().out.splitlines() == expected


# --- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def environment(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with warm_commands(tmp_path_factory.mktemp("warm")) as folder:
        path = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
        url = f"tidings://127.0.0.1:{broker.ports['native']}"
        yield {**os.environ, "PATH": ":".join(path), "ROOT": str(ROOT), "PYTHONPATH": str(ROOT), "TIDINGS_URL": url} | {
            "TIDINGS_API_URL": f"http://127.0.0.1:{broker.ports['metrics']}"
        }


@pytest.mark.parametrize("page", sorted({one.page for one in RUN}), ids=name_of)
def test_commands_run(page: Path, broker: Broker, environment: dict[str, str], tmp_path: Path) -> None:
    """All blocks of a page in one shell, in a directory of its own, at a broker that is there."""
    (tmp_path / "data").symlink_to(broker.directory / "data")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    for folder in ("lab-data", "monday", "tuesday"):  # as if somebody had measured
        record_runs(tmp_path / folder, broken=False)
        record_runs(tmp_path / folder, broken=False, busy=0.5)
    try:
        run_script(script(page, broker), tmp_path, environment)
    finally:
        with (
            suppress(UsageError),
            chdir(tmp_path),
        ):  # there may be none; a member is known by the path it was started with
            LocalNetwork.load(Path("out/net")).stop(kill=True)


def run_script(text: str, directory: Path, environment: dict[str, str], *before: str) -> None:
    output = directory / "output"
    with output.open("w") as file:
        done = subprocess.run(
            [*before, "bash", "-euo", "pipefail", "-c", text], cwd=directory, env=environment,
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=SHELL_SECONDS,
        )  # fmt: skip
    assert done.returncode == 0, output.read_text()


BEGIN = """
make() { command make --dry-run --no-print-directory -C "$ROOT" "$@" > /dev/null; }
await() {
  for try in $(seq 600); do grep -q "$1" "$2" && return; kill -0 $! || break; sleep 0.1; done
  cat "$2"; return 1
}
ended() { for one in ${WINDOWS:-}; do wait $one; done; WINDOWS=; }
"""


def script(page: Path, broker: Broker) -> str:
    base = free_ports(9)[0]
    parts = [BEGIN]
    for number, block in enumerate(one for one in RUN if one.page == page):
        text = block.runnable
        if block.marked("in another window"):
            begun = f"( {text.strip()} ) > window-{number} 2>&1 &"
            text = f'{begun} WINDOWS="${{WINDOWS:-}} $!"\nawait subscribed window-{number}'
        elif block.marked("once the other window has ended"):
            text = f"ended\n{text}"
        elif block.marked("fails"):
            text = f"if ( {text.strip()} ); then echo 'this should have failed' >&2; exit 1; fi\n"
        parts.append(f": '{page.name}, line {block.line}'\n{text}")
    text = broker.moved("\n".join([*parts, "ended"]))
    return re.sub(r"\b740(\d)\b", lambda match: str(base + int(match[1])), text)


def private_network() -> list[str]:
    """With all ports to itself, whoever has them elsewhere. Where Linux does not let us, they must be free."""
    begin = ["unshare", "--map-root-user", "--net"]
    tried = subprocess.run([*begin, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    return begin if tried.returncode == 0 else []


@pytest.mark.parametrize("block", [one for one in SHELL if one.marked("stays up")], ids=name_of)
def test_what_stays_up_gets_ready_and_ends_in_order(block: Block, environment: dict[str, str], tmp_path: Path) -> None:
    lines = [line.split("  #")[0] for line in block.text.splitlines()]
    before = private_network()
    parts = [
        BEGIN,
        "trap 'kill -KILL $(jobs -p) 2> /dev/null || true' EXIT",
        "ip link set lo up" if before else "",
        "ALL=",
    ]
    for number, line in enumerate(lines):
        parts.append(
            f'( exec {line} ) > log-{number} 2>&1 & ALL="$ALL $!"\nawait "info ready\\|console on" log-{number}'
        )
    parts.append("for one in $ALL; do kill -TERM $one; done; for one in $ALL; do wait $one; done")
    path = environment["PATH"].partition(":")[2]  # commands that are warm are in another network
    run_script("\n".join(parts), tmp_path, {**environment, "PATH": path, "TIDINGS_URL": ""}, *before)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of every block of sh, run or not, as words, without what a shell makes of it."""
    for block in SHELL:
        text = re.sub(r"<<(\w+)\n.*?^\1$", "", block.text, flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
        text = re.sub(r"\$\(python -c '[^']*'\)", "FILE", text)
        text = re.sub(r"^(.*)\$\((tidings [^)]*)\)(.*)$", r"\2\n\1ID\3", text, flags=re.MULTILINE)
        for line in text.splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words: list[str] = []
            for word in [*lexer, ";"]:
                if set(word) <= set(";&|"):
                    yield f"{block.name}:{block.line}", words
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


def test_commands_in_the_examples_exist_too() -> None:
    root = typer.main.get_command(make_app())
    written = "".join(path.read_text() for path in sorted((ROOT / "examples").rglob("*.html")))
    lines = re.findall(r"^ +tidings (.*)$", written, re.MULTILINE)
    assert len(lines) == 2
    assert [fault for line in lines for fault in faults(root, shlex.split(line))] == []


def faults(command: Any, words: list[str]) -> list[str]:
    """Why the command line would be refused before anything is done."""
    path = "tidings"
    while getattr(command, "commands", None) is not None:
        if not words or words[0] not in command.commands:
            if getattr(command, "invoke_without_command", False):
                break
            return [f"there is no command {path} {words[0] if words else ''}"]
        path, command, words = f"{path} {words[0]}", command.commands[words[0]], words[1:]
    try:
        command.make_context(path, list(words))
    except Exception as error:  # noqa: BLE001  (whatever is wrong with it)
        return [str(error)]
    return []


# --- other languages --------------------------------------------------------------------------------------------------


def test_tables_are_configurations_or_experiments(tmp_path: Path) -> None:
    tables = set(Configuration.__dataclass_fields__)
    configurations, experiments = 0, 0
    written = [text for one in SHELL for text in re.findall(r"(?ms)\.toml <<END\n(.*?)^END$", one.text)]
    for text in [*(one.text for one in BLOCKS if one.language == "toml"), *written]:
        found = set(tomllib.loads(text))
        if found <= tables:
            path = tmp_path / "broker.toml"
            path.write_text(text)
            config.load(path)  # refuses what it does not know
            configurations += 1
        elif "kind" in found:
            experiment.parse(text)
            experiments += 1
    assert (configurations > 5, experiments) == (True, 1)
    config.load(ROOT / "deploy" / "broker.toml")


def test_java_runs(broker: Broker, tmp_path: Path) -> None:
    (block,) = [one for one in BLOCKS if one.language == "java"]
    if which("javac") is None:  # a runtime alone cannot compile
        assert block.text.count("{") == block.text.count("}")
        return
    (tmp_path / "Quotes.java").write_text(block.text)
    command = ["java", "-XX:TieredStopAtLevel=1", str(tmp_path / "Quotes.java"), str(broker.ports["stomp"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "fifty" in done.stdout, done.stderr


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "js"], ids=name_of)
def test_javascript_runs(block: Block, broker: Broker, tmp_path: Path) -> None:
    code = re.sub(r"\b5672\b", str(broker.ports["amqp"]), broker.moved(block.text))
    (tmp_path / "node_modules").symlink_to(NODE / "node_modules")
    (tmp_path / "example.mjs").write_text(code)
    done = subprocess.run(["node", "example.mjs"], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    expected = re.findall(r"^ *console\.log\(.*\); // (.*)$", code, re.MULTILINE)
    assert expected
    assert done.stdout.splitlines() == expected, done.stderr


def test_the_unit_for_systemd_is_well_formed() -> None:
    unit = ROOT / "deploy" / "tidings.service"
    if which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
        complaints = [line for line in done.stderr.splitlines() if "not executable" not in line and "tidings" in line]
        assert complaints == []
    starts = re.findall(r"^Exec\w+=\S*/(tidings .*)$", unit.read_text(), re.MULTILINE)
    root = typer.main.get_command(make_app())
    # One only: RestartPreventExitStatus counts for the main process, not for an ExecStartPre.
    assert [faults(root, line.split()[1:]) for line in starts] == [[]]


def test_the_recipe_for_systemd_makes_the_users_folder_before_the_user() -> None:
    """The unit makes it, but only when it is started."""
    recipe = (ROOT / "deploy" / "README.md").read_text()
    folder = config.load(ROOT / "deploy" / "broker.toml").users_file.parent
    made = recipe.index(f"install -d -m 700 -o tidings -g tidings {folder}\n")
    assert recipe.index("useradd") < made < recipe.index("tidings user add")
    assert f"StateDirectory={folder.name}\n" in (ROOT / "deploy" / "tidings.service").read_text()


def test_the_container_file_copies_what_is_there_and_starts_a_broker() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text()
    copied = [name for names in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE) for name in names.split()]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {"native", "src", "pyproject.toml", "deploy/broker.toml"} <= set(copied)
    (entry,), (command,) = (re.findall(rf"^{word} (\[.*\])$", text, re.MULTILINE) for word in ("ENTRYPOINT", "CMD"))
    assert json.loads(entry) == ["tidings"]
    variables = {"TIDINGS__METRICS__HOST": "0.0.0.0"}
    assert all(f"{name}={value}" in text for name, value in variables.items())
    shipped = config.load(ROOT / "deploy" / "broker.toml", environment=variables)
    assert sorted(one.protocol for one in shipped.listeners) == sorted(PROTOCOLS)
    exposed = {*(one.port for one in shipped.listeners), shipped.metrics.port}
    (ports,) = re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE)
    assert {int(port) for port in ports.split()} == exposed
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


def test_the_table_of_management_operations_is_that_of_the_code() -> None:
    from tidings.broker.management.operations import OPERATIONS

    _, _, rest = (ROOT / "docs" / "management.md").read_text().partition("<!-- operations: begin -->\n")
    rows = [
        f"| `{one.method} {one.path}` | {one.summary.rstrip('.')} | {one.right.replace('>', '`>`')} |"
        for one in OPERATIONS
    ]
    head = ["| operation | does | right |", "|---|---|---|"]
    assert rest.partition("\n<!-- operations: end -->")[0].split("\n") == [*head, *rows]
