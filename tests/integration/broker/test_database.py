"""A broker whose store is in a database: ended together or alone under load, the database away, one identity twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from hardening.kills.database import one_store
from hardening.support.postgresql import Cluster, cluster

import tidings
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace
from tidings.testing.local_broker import local_broker
from tidings.testing.local_broker import run_plain as run


def test_brokers_and_databases_that_are_killed_lose_nothing_confirmed() -> None:
    ledger = one_store(6, seed=4, number=0)
    assert len(ledger.confirmed) > 20, "there was load"


def test_without_its_database_a_broker_serves_what_needs_none_and_goes_on_by_itself() -> None:
    async def scenario(server: Cluster) -> None:
        place = PostgresPlace(DatabaseOptions(server.database(), 1, wait_ms=200))
        lease = place.lease()
        assert lease.acquire()
        async with local_broker(place.open(lease)) as (broker, url), tidings.connect(url) as client:
            queue = await client.subscribe("queue:q")
            ticks = await client.subscribe("t")
            await client.publish("queue:q", {"n": 0}, persistent=True)
            await asyncio.to_thread(server.stop)
            for n in (1, 2):
                with pytest.raises(tidings.RemoteError) as caught:
                    await client.publish("queue:q", {"n": n}, persistent=True)
                assert caught.value.code == "E_STORE_UNAVAILABLE"
            await client.publish("t", {"light": True}, wait=True)
            assert await ticks.receive(30) is not None
            writer = broker.writer
            assert writer is not None
            refusing = partial(getattr, writer.health, "error")
            assert refusing() is not None
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(30):
                while refusing() is not None:
                    await asyncio.sleep(0.02)
            await client.publish("queue:q", {"n": 3}, persistent=True)
            got = [await queue.receive(30) for _ in range(2)]
            assert [one.properties["n"] for one in got if one is not None] == [0, 3]
            assert client.generation == 1, "its connection was kept"
        lease.release()

    with cluster() as server:
        run(scenario(server))


def configured(folder: Path, url: str, **store: object) -> list[str]:
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in store.items())
    text = f'[broker]\nid = 7\ndata = "{folder}/data-{len(list(folder.iterdir()))}"\n[store]\nurl = "{url}"\n{table}'
    text += "[[listeners]]\nport = 0\n[metrics]\nport = 0\n[logging]\njson = true\n"
    config = folder / f"broker-{len(list(folder.iterdir()))}.toml"
    config.write_text(text)
    return [sys.executable, "-m", "tidings.cli", "broker", "--config", str(config)]


@contextmanager
def ended(process: "subprocess.Popen[str]") -> "Iterator[subprocess.Popen[str]]":
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: "subprocess.Popen[str]", message: str) -> dict[str, object]:
    """The next line of the log with this message."""
    assert process.stderr is not None
    for line in process.stderr:
        found: dict[str, object] = json.loads(line)
        if found["event"] == message:
            return found
    raise AssertionError(f"the log ends without {message!r}")


def test_a_broker_says_in_one_line_why_it_cannot_use_its_database(tmp_path: Path, server: Cluster) -> None:
    url = server.database()
    for address, store, code, text in (
        (url.replace("test", "nosuch"), {}, "E_STORE_ACCESS", "does not exist"),
        (url, {"require_synchronous": True}, "E_STORE_SYNCHRONOUS", "synchronous_standby_names"),
    ):
        done = subprocess.run(configured(tmp_path, address, **store), capture_output=True, text=True, timeout=60)
        last = json.loads(done.stderr.splitlines()[-1])
        assert (done.returncode, last["code"], text in last["reason"]) == (1, code, True)


def test_a_broker_that_was_stopped_and_replaced_ends_when_it_goes_on(tmp_path: Path, server: Cluster) -> None:
    url = server.database()
    command = configured(tmp_path, url, lease_ms=500)
    with ended(subprocess.Popen(command, stderr=subprocess.PIPE, text=True)) as process:
        health = f"http://127.0.0.1:{line_of(process, 'metrics')['port']}/health"
        line_of(process, "ready")
        with urllib.request.urlopen(health) as answer:
            assert json.load(answer)["store"] == "ok"
        second = subprocess.run(configured(tmp_path, url), capture_output=True, text=True, timeout=60)
        assert "E_STORE_LOCKED" in second.stderr, "one identity serves once"
        os.kill(process.pid, signal.SIGSTOP)
        lease = PostgresPlace(DatabaseOptions(url, 7, lease_ms=500)).lease()
        assert lease.wait(60)
        os.kill(process.pid, signal.SIGCONT)
        assert line_of(process, "this broker can no longer write its store and ends")["code"] == "E_STORE_LEASE"
        assert process.wait(60) == 1
        lease.release()
