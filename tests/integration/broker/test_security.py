"""What docs/security.md claims and no other test holds; and that each claim there names a test that exists."""

import ast
import asyncio
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from hardening.support.stomp import RawStomp
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tidings.client import connect
from tidings.protocols.stomp.frames import StompVersion
from tidings.testing.local_broker import BrokerThread

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "tidings"
# What would make code or arbitrary types out of data.
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_MODULES = {"pickle", "marshal", "shelve", "dill", "yaml", "xml"}
ONLY_WRITE = {"xml.sax.saxutils"}
INJECTED = "x\ndestination:/queue/evil\nmessage-id:7\n\nbody\0MESSAGE\nsubscription:9\n\n"


def trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text())) for path in sorted(PACKAGE.rglob("*.py"))]


def test_nothing_builds_code_or_types_from_data() -> None:
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
                found.append(f"{path}:{node.lineno}: {node.func.id}")
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names.append(node.module)
            banned = [name for name in names if name.partition(".")[0] in BANNED_MODULES and name not in ONLY_WRITE]
            found += [f"{path}: {name}" for name in banned]
    assert found == []


def test_no_shell_is_given_a_line_to_run() -> None:
    found = []
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                shell = any(one.arg == "shell" for one in node.keywords)
                if shell or ast.unparse(node.func) in ("os.system", "os.popen", "subprocess.getoutput"):
                    found.append(f"{path}:{node.lineno}")
    assert found == []


@pytest.mark.parametrize("version", list(StompVersion))
def test_a_property_cannot_smuggle_headers_or_frames_to_a_stomp_client(version: StompVersion) -> None:
    async def check(broker: BrokerThread) -> None:
        raw = await RawStomp.open(broker.stomp_port, version)
        await raw.connect()
        await raw.subscribe("/topic/t")
        async with connect(broker.url) as client:
            await client.publish("t", {"a": INJECTED, f"b{INJECTED}": "y"}, b"first", wait=True)
            await client.publish("t", {"n": 2}, b"second", wait=True)
        for body in (b"first", b"second"):
            frame = await raw.expect("MESSAGE")
            assert frame.body == body
            assert (frame.headers["destination"], frame.headers["subscription"]) == ("/topic/t", "1")
            assert frame.headers["message-id"].startswith("ID")
        await raw.leave()

    with BrokerThread() as broker:
        asyncio.run(asyncio.wait_for(check(broker), 60))


def test_every_claim_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 25
    for path, name in named:
        source = (ROOT / path).read_text()
        assert not name or f"def {name}(" in source, f"{path}::{name}"


def test_the_versions_that_were_looked_at_are_those_that_are_installed() -> None:
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE))
    listed = re.findall(r"^\| ([\w.-]+) \| (\d[\w.]+) \|", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE)
    assert len(listed) >= 7
    for name, version in listed:
        assert locked[name] == version, name


def needed(names: list[str]) -> set[str]:
    """These packages and everything they ask for here."""
    found: set[str] = set()
    while names:
        requirement = Requirement(names.pop())
        name = canonicalize_name(requirement.name)
        extras = requirement.extras or {""}
        if name in found or (
            requirement.marker and not any(requirement.marker.evaluate({"extra": one}) for one in extras)
        ):
            continue
        found.add(name)
        for further in metadata.requires(name) or ():
            marker = Requirement(further).marker
            if marker is None or any(marker.evaluate({"extra": one}) for one in extras):
                names.append(further.partition(";")[0])
    return found


def test_the_lock_file_is_complete_and_exact() -> None:
    lines = [line for line in (ROOT / "requirements-dev.lock").read_text().splitlines() if line[:1] not in ("#", "")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+!-]+", line)] == []
    locked = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert len(locked) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for more in [
        *project["project"].get("optional-dependencies", {}).values(),
        *project.get("dependency-groups", {}).values(),
    ]:
        asked += more
    missing = needed(asked) - locked - {"tidings", "pip", "setuptools", "wheel"}
    assert missing == set()
