"""Pairs of brokers and a replicated database on hosts that lose each other: network namespaces. `make hosts` for more.

Also the steps of docs/howto/high_availability.md on three hosts, one by one as they are there.
"""

import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from docs.pages.blocks import Block, blocks
from hardening.kills.hosts import CLIENTS, FAILURES, HostEvent, machines, one_pair, plan_of
from hardening.support.hosts import Hosts
from hardening.support.postgresql import USER, program

from tidings.localnet.namespaces import within

MARK = "on hosts: "
STEPS = [one for one in blocks() if one.mark.startswith(MARK)]
STEP_SECONDS = 240  # only there to fail at all: machines may be busy


def test_nothing_confirmed_is_lost_when_hosts_lose_each_other_and_the_database_fails_over() -> None:
    plan = [HostEvent.KILL, HostEvent.FROM_DATABASE, HostEvent.TO_CLIENTS, HostEvent.PROMOTE]
    with machines("tdtest") as (hosts, servers):
        found = within(hosts.namespace(CLIENTS), lambda: one_pair(plan, random.Random(1), hosts, servers))
    assert len(found.native.confirmed) > 100, "there was load"
    assert len(found.stomp.confirmed) > 10
    assert sorted(found.waits) == sorted(one.value for one in plan)


def test_a_campaign_meets_every_failure() -> None:
    plans = [plan_of(8, random.Random(1), number) for number in range(6)]
    assert set(FAILURES) <= {event for plan in plans for event in plan}
    assert plans[2].count(HostEvent.PROMOTE) > 2


def test_the_documented_steps_on_three_hosts() -> None:
    with Hosts("tdwalk", ("one", "two", "three")) as hosts, _folders() as folders:
        try:
            for step in STEPS:
                for name, user in _where(step):
                    done = _run(step, hosts.inside(name), folders[name] / user, user)
                    where = f"{step.name}:{step.line} on host {name}"
                    assert done.returncode == 0, f"{where}:\n{done.stdout}\n{_logs(folders)}"
            got = (folders["three"] / "root" / "orders").read_text()
            assert [got.count(body) for body in ("one", "two", "three")] == [1, 1, 1], got
        finally:
            _end(folders)


def _where(step: Block) -> list[tuple[str, str]]:
    """Names of hosts, and the user there."""
    names, _, user = step.mark.removeprefix(MARK).partition(", as ")
    return [(name, user or "root") for name in names.split()]


def _run(step: Block, inside: tuple[str, ...], folder: Path, user: str) -> "subprocess.CompletedProcess[str]":
    account = pwd.getpwnam(user)
    become = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    path = f"{Path(sys.executable).parent}:{Path(program('initdb')).resolve().parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    with (folder / "output").open("w+") as output:  # not a pipe, which servers would keep open
        process = subprocess.run(
            [*inside, *become, "bash", "-euc", step.text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=STEP_SECONDS,
        )
        output.seek(0)
        return subprocess.CompletedProcess(process.args, process.returncode, output.read())


@contextmanager
def _folders() -> Iterator[dict[str, Path]]:
    """Of each host, with one for each user in it."""
    root = Path(tempfile.mkdtemp(prefix="tidings-hosts-"))
    root.chmod(0o755)
    try:
        for name in ("one", "two", "three"):
            for user in ("root", USER):
                folder = root / name / user
                folder.mkdir(parents=True)
                account = pwd.getpwnam(user)
                os.chown(folder, account.pw_uid, account.pw_gid)
        yield {name: root / name for name in ("one", "two", "three")}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _end(folders: dict[str, Path]) -> None:
    """Brokers and servers that the steps have started."""
    for folder in folders.values():
        broker, server = folder / "root" / "broker.pid", folder / USER / "data" / "postmaster.pid"
        for file, number in ((broker, signal.SIGKILL), (server, signal.SIGQUIT)):
            if file.exists():
                with suppress(ProcessLookupError):
                    os.kill(int(file.read_text().split()[0]), number)


def _logs(folders: dict[str, Path]) -> str:
    files = [file for folder in folders.values() for file in (folder / "root" / "broker.log", folder / USER / "log")]
    return "\n".join(f"{file}:\n{file.read_text()[-1500:]}" for file in files if file.exists())
