"""`tidings type`, `tidings sub --type` and `tidings pub --type`, against a real broker."""

import json
import subprocess
import sys
from pathlib import Path

from hardening.support.command import Command

from tidings.testing.local_broker import BrokerThread


def test_types_are_added_shown_used_and_removed(tmp_path: Path, tidings: Command) -> None:
    with BrokerThread() as broker:
        at = ("--url", broker.url)
        assert tidings("type", "add", "Trade", "price:float", *at)[:2] == (0, "added Trade\n")
        assert tidings("type", "add", "Sale", "buyer:string", "--parent", "Trade", *at)[0] == 0
        shown = json.loads(tidings("type", "list", "--json", *at)[1])
        assert {one["name"] for one in shown} == {"Trade", "Sale"}
        status, text, _ = tidings("type", "show", "Sale", *at)
        assert status == 0
        assert "price" in text
        assert "buyer" in text

        listen = [
            sys.executable,
            "-m",
            "tidings.cli",
            "sub",
            "--type",
            "Trade",
            "price > 20",
            "--count",
            "1",
            "--json",
            *at,
        ]
        with subprocess.Popen(listen, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as listener:
            assert listener.stdout is not None
            sent = ("pub", "--type", "Sale", "--prop", "price=50.0", "--prop", "buyer=me", *at)
            while listener.poll() is None:  # its subscription is active at some time
                assert tidings(*sent)[0] == 0
                try:
                    listener.wait(0.5)
                except subprocess.TimeoutExpired:
                    continue
            received = json.loads(listener.stdout.readline())
        assert received["properties"] == {"price": 50.0, "buyer": "me"}

        status, _, complaint = tidings("type", "remove", "Trade", *at)
        assert status != 0
        assert "E_TYPE_SUBTYPES" in complaint
        assert tidings("type", "remove", "Sale", *at)[:2] == (0, "removed Sale\n")
        assert tidings("type", "remove", "Trade", *at)[0] == 0


def test_an_event_that_does_not_fit_its_type_is_refused(tidings: Command) -> None:
    with BrokerThread() as broker:
        at = ("--url", broker.url)
        assert tidings("type", "add", "Trade", "price:float", *at)[0] == 0
        status, _, complaint = tidings("pub", "--type", "Trade", "--prop", "price=high", *at)
        assert status != 0
        assert "E_EVENT_WRONG_TYPE" in complaint
        status, _, complaint = tidings("type", "add", "Sale", "buyer:text", *at)
        assert status != 0
        assert "text" in complaint
