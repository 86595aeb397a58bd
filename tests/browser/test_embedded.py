"""`console = true`: a broker with a console beside it, users, and its metrics under the same port."""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hardening.support.console import SECONDS, Browser
from selenium.webdriver import Chrome

from tidings.broker.config.load import parse
from tidings.broker.security import users
from tidings.broker.security.passwords import Cost
from tidings.broker.security.users import Users
from tidings.errors import ConfigError
from tidings.localnet.ports import free_ports
from tidings.testing.broker_process import BrokerProcess

RULES = """
[[access]]
user = "boss"
operations = ["publish", "subscribe", "browse", "manage", "trace"]
destination = ">"
"""


class OnePort(BrokerProcess):
    """With console and metrics on one port."""

    def __init__(self, directory: Path, port: int, more: str) -> None:
        self.shared = port
        super().__init__(directory, more)

    def configure(self, more: str, *, listener: str = "") -> None:
        super().configure(more, listener=listener)
        text = self.config.read_text().replace("[metrics]\nport = 0", f"[metrics]\nport = {self.shared}")
        self.config.write_text(text)


def test_log_in_with_a_user_of_the_broker(tmp_path: Path, chromium: Chrome) -> None:
    known = users.add(Users({}), "boss", "a password", frozenset(), Cost(n=2, r=1, p=1))
    users.save(tmp_path / "users.toml", known)
    (port,) = free_ports(1)
    more = f'{RULES}\n[users]\nfile = "users.toml"\n[console]\nenabled = true\nport = {port}\n'
    with OnePort(tmp_path, port, more) as broker:
        home = broker.wait_for("console")["url"].rstrip("/")
        assert home == f"http://127.0.0.1:{port}"
        with urllib.request.urlopen(f"{home}/health", timeout=SECONDS) as answer:
            assert json.loads(answer.read())["ready"] is True
        browser = Browser(chromium, home)
        browser.open("/subscriptions")
        browser.sees("Log in with a user of the broker.")
        browser.one("#user").send_keys("boss")
        browser.one("#password").send_keys("wrong")
        browser.one("button").click()
        browser.sees("unknown user or wrong password")
        browser.one("#password").send_keys("a password\n")
        browser.sees("connected to ", "Selectors, their owners")
        cookie = chromium.get_cookie("tidings_console")
        assert cookie is not None
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
        browser.press("Log out")
        browser.sees("Log in with a user of the broker.")
        browser.complaints()  # 401, which is as it should be
        child = _child_of(broker.process.pid)
        broker.signal(signal.SIGKILL)  # and the console ends too
        _wait_until_gone(child)


def test_who_may_not_manage_is_told_so_and_nothing_else(tmp_path: Path, chromium: Chrome) -> None:
    known = users.add(Users({}), "guest", "a password", frozenset(), Cost(n=2, r=1, p=1))
    users.save(tmp_path / "users.toml", known)
    (port,) = free_ports(1)
    rules = RULES.replace('"boss"', '"guest"').replace('"manage", ', "")
    more = f'{rules}\n[users]\nfile = "users.toml"\n[console]\nenabled = true\nport = {port}\n'
    with OnePort(tmp_path, port, more) as broker:
        browser = Browser(chromium, broker.wait_for("console")["url"].rstrip("/"))
        browser.open("/queues")
        browser.one("#user").send_keys("guest")
        browser.one("#password").send_keys("a password\n")
        untrue = ("E_DESTINATION_EMPTY", "Nobody has subscribed", "has not carried any message", "No network.", "0 %")
        for path, cards in {"/queues": 3, "/rates": 2, "/capacity": 1, "/routing": 2}.items():
            browser.open(path)
            refused = "guest may not inspect the broker"
            text = browser.until(lambda: seen if (seen := browser.text()).count(refused) >= cards else None)  # noqa: B023
            assert [one for one in untrue if one in text] == [], path
        browser.open("/rates")
        browser.sees("guest may not inspect the broker")
        assert {one.text for one in browser.all(".t-figure .value")} == {"–"}
        chromium.get("about:blank")  # a page that stays open would look for its console when that has ended
        browser.complaints()


def test_health_is_told_and_every_line_of_the_log_is_json_whatever_the_console_does(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with OnePort(tmp_path, port, f"[console]\nenabled = true\nport = {port}\n") as broker:
        assert _get(port, "/health")[0] == 200
        assert _get(port, "/")[0] in (200, 503)  # the console, or the broker that says that it is not up
        broker.wait_for("console")
        assert _get(port, "/")[1].startswith("<!doctype html>")
        assert _get(port, "/nope")[0] == 404
        said = broker.wait_for("console log")
        assert (said["level"], "/nope" in said["text"]) == ("warning", True)
        os.kill(_child_of(broker.process.pid), signal.SIGKILL)
        broker.wait_for("console process ended")
        assert (_get(port, "/health")[0], "tidings_messages" in _get(port, "/metrics")[1]) == (200, True)
        broker.wait_for("console", 2)
        assert _get(port, "/health")[0] == 200
        assert _get(port, "/")[1].startswith("<!doctype html>")
        assert broker.stop() == 0
        assert [json.loads(line)["event"] for line in broker.text().splitlines()][-1] == "stopped"


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def test_what_a_console_needs_is_checked() -> None:
    assert parse("console = true", "a.toml").console.enabled
    text = '[[listeners]]\nport = 1\ntls = true\n[tls]\ncertificate = "c"\n[console]\nenabled = true'
    with pytest.raises(ConfigError, match=r"console\.enabled: the console needs a native listener without TLS"):
        parse(text, "a.toml")


def _child_of(pid: int) -> int:
    """The console among the broker's processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError("the broker has no child")


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return  # ended; nobody has asked after it
        time.sleep(0.05)
    raise AssertionError("the console outlived its broker")
