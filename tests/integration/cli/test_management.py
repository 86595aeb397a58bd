"""`tidings status`, `queue` and `connection`, against a real broker process."""

import json
import os
from pathlib import Path

import pytest
from hardening.support.command import Command

from tidings.broker.security import users
from tidings.broker.security.passwords import Cost
from tidings.broker.security.users import Users
from tidings.client import connect
from tidings.testing.broker_process import BrokerProcess
from tidings.testing.local_broker import run

ADMIN = """
[[access]]
user = "admin"
operations = ["publish", "subscribe", "browse", "manage"]
destination = "queue:>"
[[access]]
user = "admin"
operations = ["manage"]
destination = ">"
[[access]]
user = "watcher"
operations = ["monitor"]
destination = ">"
"""


def api(broker: BrokerProcess) -> tuple[str, str]:
    return "--url", f"http://127.0.0.1:{broker.events('metrics')[-1]['port']}"


def fill(url: str) -> None:
    async def work() -> None:
        async with connect(url) as client:
            for number in range(3):
                await client.publish("queue:orders", {"number": number}, b"hello\n", persistent=True, wait=True)

    run(work())


def test_a_queue_is_administered_by_commands(tmp_path: Path, tidings: Command) -> None:
    with BrokerProcess(tmp_path) as broker:
        fill(broker.url)
        at = api(broker)
        status, output, errors = tidings("status", *at)
        assert (status, errors) == (0, "")
        assert "version 0.1.0: ready" in output
        assert "3 messages received" in output
        assert json.loads(tidings("status", "--json", *at)[1])["waiting"] == 3
        line = "queue:orders: 3 waiting, 0 unacknowledged, 0 consumers\n"
        assert tidings("queue", "list", *at) == (0, line, "")
        for form in ("orders", "queue:orders", "queue://orders", "/queue/orders"):
            assert tidings("queue", "show", form, *at) == (0, line, "")
        for form in ("topic:orders", "/queues/orders", "orders/#"):
            status, _, errors = tidings("queue", "create", form, *at)
            assert (status, "E_DESTINATION_" in errors) == (1, True)
        shown = tidings("queue", "browse", "orders", "--selector", "number > 0", *at)[1]
        assert shown.splitlines()[0].endswith("number=1 hello ")
        tag = json.loads(tidings("queue", "browse", "orders", "--count", "1", "--json", *at)[1])["tag"]
        assert tidings("queue", "create", "old", *at) == (0, "created queue:old\n", "")
        assert tidings("queue", "create", "old", *at) == (0, "exists already: queue:old\n", "")
        assert tidings("queue", "move", "orders", "old", "--tag", tag, *at) == (0, "moved 1 messages\n", "")
        status, output, errors = tidings("queue", "delete", "orders", *at)
        assert (status, output) == (1, "")
        assert errors.startswith("tidings: E_QUEUE_NOT_EMPTY: ")
        assert tidings("queue", "purge", "orders", *at) == (0, "purged 2 messages\n", "")
        broker.process.kill()
        broker.process.wait()
    with broker:
        at = api(broker)
        assert tidings("queue", "delete", "orders", *at) == (0, "deleted queue:orders with 0 messages\n", "")
        assert tidings("queue", "delete", "old", "--force", *at) == (0, "deleted queue:old with 1 messages\n", "")
        assert tidings("queue", "show", "orders", *at)[0] == 1
        broker.process.kill()
        broker.process.wait()
    with broker:
        at = api(broker)
        assert json.loads(tidings("queue", "list", "--json", *at)[1]) == []


def test_connections_are_listed_and_closed(tmp_path: Path, tidings: Command) -> None:
    with BrokerProcess(tmp_path) as broker:
        at = api(broker)
        assert tidings("connection", "list", *at) == (0, "", "")
        status, _, errors = tidings("connection", "close", 5, *at)
        assert (status, "E_CONNECTION_UNKNOWN" in errors) == (1, True)


def test_users_log_in_and_are_refused_what_they_may_not(tmp_path: Path, tidings: Command) -> None:
    known = Users({})
    for name in ("admin", "watcher"):
        known = users.add(known, name, "secret", frozenset(), Cost(n=2, r=1, p=1))
    users.save(tmp_path / "tidings-data" / "users.toml", known)
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    os.chmod(secret, 0o600)
    with BrokerProcess(tmp_path, ADMIN) as broker:
        at = api(broker)
        assert "E_LOGIN" in tidings("status", *at)[2]
        watcher = (*at, "--user", "watcher", "--password-file", secret)
        assert tidings("status", *watcher)[0] == 0
        rules = tidings("user", "access", *watcher)[1].splitlines()
        assert rules[:2] == ["1. admin may browse, manage, publish, subscribe queue:>", "2. admin may manage topic:>"]
        assert len(json.loads(tidings("user", "access", "--json", *watcher)[1])) == 3
        status, _, errors = tidings("queue", "create", "orders", *watcher)
        assert (status, "E_FORBIDDEN" in errors) == (1, True)
        assert tidings("queue", "create", "orders", *at, "--user", "admin", stdin="secret\n")[0] == 0
        assert tidings("queue", "list", *watcher)[1].startswith("queue:orders")


@pytest.mark.parametrize("url", ["nowhere", "ftp://a:1", "http://a", "http://a:99999", "http://a:1/x"])
def test_a_malformed_address_is_refused(tidings: Command, url: str) -> None:
    status, _, errors = tidings("status", "--url", url)
    assert (status, errors.startswith("tidings: E_URL: ")) == (2, True)


def test_without_a_broker_the_error_says_so(tidings: Command) -> None:
    status, _, errors = tidings("status", "--url", "http://127.0.0.1:1")
    assert (status, errors.startswith("tidings: E_CONNECT: no answer from http://127.0.0.1:1")) == (1, True)
