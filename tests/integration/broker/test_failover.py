"""Pairs of broker processes on one store: taking over, handing over, what a standby says; `make failover` for more."""

import json
import random
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from hardening.histories import Delivery
from hardening.kills.failover import FailoverEvent, FailoverLedger, Half, Pair, one_pair
from hardening.support.postgresql import Cluster

from tidings.broker.tenure import LOST_STATUS, end_if_lost
from tidings.errors import StoreError
from tidings.testing.broker_process import BrokerProcess


def test_nothing_confirmed_is_lost_when_the_active_broker_is_killed_stopped_or_hands_over() -> None:
    found = one_pair([FailoverEvent.KILL, FailoverEvent.SWITCH, FailoverEvent.STOP], random.Random(1))
    assert len(found.native.confirmed) > 100, "there was load"
    assert len(found.native.committed) > 0
    assert len(found.stomp.confirmed) > 10
    assert sum(map(len, found.waits.values())) == 3


def test_a_process_that_was_stopped_for_longer_than_its_lease_confirms_nothing_and_ends(server: Cluster) -> None:
    found = one_pair([FailoverEvent.STOP, FailoverEvent.KILL], random.Random(2), server.database())
    assert len(found.native.confirmed) > 100, "there was load"
    assert {name: len(waits) for name, waits in found.waits.items()} == {"stop": 1, "kill": 1}


def test_the_ledger_notices_what_a_takeover_loses_or_doubles() -> None:
    ledger = FailoverLedger()
    ledger.stomp.confirmed.add(1)
    ledger.stomp.reads("stomp")
    ledger.native.given["durable"] = [Delivery(0, 1, 0, 1, 5), Delivery(1, 2, 1, 1, 5)]
    assert ledger.problems() == [
        "durable: 5 came again without a mark",
        "stomp: stomp: 1 was confirmed and is lost",
    ]


def page(half: Half, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{half.metrics}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_standby_says_what_it_is_and_ends_when_asked(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    try:
        active = pair.active()
        (standby,) = (half for half in pair.halves if half is not active)
        assert page(active, "/health")[0] == page(active, "/ready")[0] == 200
        status, text = page(standby, "/health")
        assert (status, json.loads(text)["role"], json.loads(text)["ready"]) == (503, "standby", False)
        assert page(standby, "/live")[0] == 200
        assert page(standby, "/ready") == (503, "not ready: standby\n")
        assert 'tidings_role{role="standby"} 1' in page(standby, "/metrics")[1]
        assert 'tidings_role{role="active"} 1' in page(active, "/metrics")[1]
        assert json.loads(page(active, "/api/v1/status")[1])["broker"]["role"] == "active"
        assert standby.process is not None
        standby.process.terminate()
        assert standby.process.wait(60) == 0
        assert page(active, "/ready")[0] == 200
    finally:
        pair.end()


def test_a_broker_that_is_no_pair_refuses_to_hand_over(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as process:
        half = Half(tmp_path, 0, 0, process.events("metrics")[-1]["port"])
        with pytest.raises(urllib.error.HTTPError) as refused:
            half.switch_over()
        assert refused.value.code == 409
        assert json.load(refused.value)["code"] == "E_NO_STANDBY"
        assert json.loads(process.get("/health"))["role"] == "single"


def test_a_broker_that_loses_its_lease_ends_with_one_error(caplog: pytest.LogCaptureFixture) -> None:
    class Lost:
        epoch = 1

        def acquire(self) -> bool:
            return True

        def wait(self, seconds: float) -> bool:
            return True

        def on_lost(self, callback: Callable[[StoreError], None]) -> None:
            callback(StoreError("E_STORE_LEASE", "epoch 2 holds the lease"))

        def release(self) -> None: ...

    ended: list[int] = []
    end_if_lost(Lost(), ended.append)
    assert ended == [LOST_STATUS]
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("CRITICAL", "this broker can no longer write its store and ends")
    ]
