"""The audit log: who did what from where, and nothing that is secret."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hardening.support.management_api import Api, api, guard

from tidings.broker.log_rate_limit import LINES_ALL_MAX, LINES_MAX, LogRateLimit
from tidings.broker.security.audit import Audit, log, open_audit
from tidings.client import connect
from tidings.errors import ConfigError, SecurityError, TidingsError
from tidings.testing.local_broker import run


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    open_audit(tmp_path / "audit.jsonl")
    yield tmp_path / "audit.jsonl"
    open_audit(None)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def without_time(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("time", "level")}


def test_logins_refusals_and_actions_of_every_way_in(file: Path) -> None:
    async def check() -> None:
        async with api(guard()) as here:
            await use(here)

    async def use(here: Api) -> None:
        async with connect(here.local.url, user="clerk", password="clerk-pw") as clerk:
            with pytest.raises(TidingsError, match="E_FORBIDDEN"):
                await clerk.publish("closed.x", wait=True)
        with pytest.raises(SecurityError):
            async with connect(here.local.url, user="clerk", password="a wrong secret"):
                pass
        await here.ask("POST", "/queues", {"name": "orders"}, user="admin")
        await here.ask("DELETE", "/queues/nothing", {}, user="admin")
        await here.ask("POST", "/configuration/reload", {}, user="admin")
        await here.ask("POST", "/configuration/reload", {}, user="clerk")
        await here.ask("GET", "/queues", user="admin")
        async with connect(here.local.url, user="admin", password="admin-pw") as admin:
            await admin.queue("queue:orders").purge()

    run(check())
    assert file.stat().st_mode & 0o777 == 0o600
    found = [without_time(line) for line in lines(file)]
    (local,) = {line["address"] for line in found}
    logins = [(line["user"], line["protocol"]) for line in found if line["event"] == "login"]
    assert logins[0] == ("clerk", "native")
    assert ("admin", "management") in logins
    (wrong,) = [line for line in found if line["event"] == "login-refused"]
    assert (wrong["user"], wrong["code"], wrong["protocol"]) == ("clerk", "E_LOGIN", "native")
    refused = [(line["user"], line["protocol"]) for line in found if line["event"] == "request-refused"]
    assert refused == [("clerk", "native"), ("clerk", "management")]
    who = {"event": "action", "user": "admin", "address": local}
    assert [line for line in found if line["event"] == "action"] == [
        who | {"protocol": "management", "action": "create queue", "queue": "queue:orders"},
        who
        | {"protocol": "management", "action": "delete queue", "queue": "queue:nothing", "force": False}
        | {"code": "E_QUEUE_UNKNOWN"},
        who | {"protocol": "management", "action": "reloadConfiguration"},
        who | {"protocol": "native", "action": "purge queue", "queue": "queue:orders"},
    ]
    text = file.read_text()
    assert "-pw" not in text
    assert "a wrong secret" not in text


def test_strangers_cannot_fill_it_and_what_is_left_out_is_counted(file: Path) -> None:
    now = [0.0]
    limit = LogRateLimit(lambda: now[0])
    audit = Audit(limit)
    for number in range(1000):
        audit.login_refused("eve", f"10.{number}.0.1" if number > 500 else "10.0.0.1", "native", "E_LOGIN")
    assert len(lines(file)) == LINES_ALL_MAX
    assert sum(line["address"] == "10.0.0.1" for line in lines(file)) == LINES_MAX
    for _ in range(1000):
        audit.action("admin", "10.0.0.1", "management", "purge queue", {"queue": "queue:a"})
    assert len(lines(file)) == LINES_ALL_MAX + 1000, "actions of administrators are all there"
    now[0] = 60.0
    limit.tick()
    assert lines(file)[-1]["count"] == 1000 - LINES_ALL_MAX


def test_a_renamed_file_is_opened_anew(file: Path) -> None:
    audit = Audit(LogRateLimit())
    audit.action("admin", "", "native", "first", {})
    file.rename(file.with_suffix(".1"))
    audit.action("admin", "", "native", "second", {})
    open_audit(file)
    audit.action("admin", "", "native", "third", {})
    assert [line["action"] for line in lines(file.with_suffix(".1"))] == ["first", "second"]
    assert [line["action"] for line in lines(file)] == ["third"]


def test_a_file_that_cannot_be_opened_is_refused_and_the_one_before_goes_on(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"logging\.audit_file"):
        open_audit(tmp_path)
    Audit(LogRateLimit()).action("admin", "", "native", "still", {})
    assert [line["action"] for line in lines(file)] == ["still"]


def test_without_a_file_nothing_is_written_or_counted() -> None:
    open_audit(None)
    limit = LogRateLimit()
    for _ in range(1000):
        Audit(limit).login("admin", "10.0.0.1", "native")
    assert not limit.suppressed
    assert not log.handlers
