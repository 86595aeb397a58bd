"""The console over https: by the command, and as a broker's child."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from hardening.support.certificates import Authority
from hardening.support.console import SECONDS

from tidings.broker.security import users
from tidings.broker.security.passwords import Cost
from tidings.broker.security.users import Users
from tidings.console.certificate import Certificate
from tidings.errors import UsageError
from tidings.localnet.ports import free_ports
from tidings.testing.broker_process import BrokerProcess


def serial(authority: Authority, port: int) -> int:
    """Of the certificate that is shown there."""
    with (
        socket.create_connection(("127.0.0.1", port), SECONDS) as plain,
        authority.client_context().wrap_socket(plain, server_hostname="127.0.0.1") as shown,
    ):
        return int((shown.getpeercert() or {})["serialNumber"], 16)  # type: ignore[arg-type]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_brokers_console_and_metrics_over_https(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.sign("broker", "server.pem")
    known = users.add(Users({}), "boss", "a password", frozenset(), Cost(n=2, r=1, p=1))
    users.save(tmp_path / "users.toml", known)
    (port,) = free_ports(1)
    more = '[tls]\ncertificate = "{}"\n[users]\nfile = "users.toml"\n'
    more += f"[console]\nenabled = true\nport = {port}\ntls = true\n"

    class OnePort(BrokerProcess):
        def configure(self, more: str, *, listener: str = "") -> None:
            super().configure(more, listener=listener)
            text = self.config.read_text()
            self.config.write_text(text.replace("[metrics]\nport = 0", f"[metrics]\nport = {port}\ntls = true"))

    with OnePort(tmp_path, more.format("server.pem")) as broker:
        home = broker.wait_for("console")["url"].rstrip("/")
        assert home == f"https://127.0.0.1:{port}"
        trusting = urllib.request.HTTPSHandler(context=authority.client_context())
        with urllib.request.build_opener(trusting).open(f"{home}/health", timeout=SECONDS) as answer:
            assert json.loads(answer.read())["ready"] is True
        opener = urllib.request.build_opener(trusting, NoRedirect())
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(f"{home}/login", b"user=boss&password=a+password", timeout=SECONDS)
        assert caught.value.code == 303
        assert "; secure" in caught.value.headers["set-cookie"].lower()
        caught.value.close()
        before = serial(authority, port)
        authority.sign("broker", "another.pem")
        broker.configure(more.format("another.pem"))
        broker.signal(signal.SIGHUP)
        until(lambda: serial(authority, port) == before + 1)
        assert broker.events("console process ended") == []
        assert broker.stop() == 0


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def test_the_command_reads_its_certificate_again_on_sighup(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    file = authority.sign("console", "console.pem")
    line = [sys.executable, "-m", "tidings.cli", "console", "--port", "0", "--certificate", str(file)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        assert console.stderr is not None
        try:
            said = console.stdout.readline()
            assert said.startswith("console on https://127.0.0.1:")
            port = int(said.rstrip().rstrip("/").rpartition(":")[2])
            before = serial(authority, port)
            authority.sign("console", "console.pem")
            os.kill(console.pid, signal.SIGHUP)
            until(lambda: serial(authority, port) == before + 1)
            file.write_text("nothing")
            os.kill(console.pid, signal.SIGHUP)
            complaint = console.stderr.readline()
            assert complaint.startswith("tidings: E_TLS: cannot use the console's certificate: ")
            assert serial(authority, port) == before + 1
            console.terminate()
            assert console.wait(SECONDS) == 0
        finally:
            console.kill()


def test_files_that_will_not_do_are_named(tmp_path: Path) -> None:
    good = Authority(tmp_path).sign("a", "a.pem")
    with pytest.raises(UsageError, match=r"E_TLS: cannot use the console's certificate: .*none.pem cannot be read"):
        Certificate(str(tmp_path / "none.pem"))
    kept = Certificate(str(good))
    with pytest.raises(UsageError, match=r"none\.pem cannot be read"):
        kept.renew(str(tmp_path / "none.pem"))
    kept.renew()  # the file that it had
