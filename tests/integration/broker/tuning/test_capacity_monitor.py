"""The broker's own estimate: from counters to parameters, and on the page of a real process."""

import asyncio
import re
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hardening.support.links import eventually

from tidings.broker.tuning.capacity_monitor import CapacityMonitor
from tidings.broker.tuning.capacity_observer import Counters
from tidings.client import connect
from tidings.localnet.ports import free_ports


class Counted:
    """The counters of a broker whose every read brings `batch` messages, for one receiver each."""

    def __init__(self) -> None:
        self.monitor, self.second = CapacityMonitor(), 0
        self._now = Counters(0, 0, 10, 0.0, 0, 0)
        self.monitor.observe(0.0, self._now)

    def second_of(self, messages: int, batch: int, wait_s: float = 0.0) -> None:
        old, reads = self._now, messages // batch
        cpu = 0.003 + reads * 4e-5 + messages * 2e-6
        self.second += 1
        self._now = replace(
            old,
            received=old.received + messages,
            delivered=old.delivered + messages,
            cpu_s=old.cpu_s + cpu,
            reads=old.reads + reads,
            writes=old.writes + reads,
            received_bytes=old.received_bytes + 100 * messages,
            sent_bytes=old.sent_bytes + 100 * messages,
            waited=old.waited + messages,
            wait_seconds=old.wait_seconds + wait_s * messages,
        )
        self.monitor.observe(float(self.second), self._now)


def gauges(monitor: CapacityMonitor) -> dict[str, Any]:
    return {name: samples for name, _, samples in monitor.gauges()}


def test_what_is_known_is_told_and_the_rest_is_being_measured() -> None:
    counted = Counted()
    for _ in range(5):
        counted.second_of(10, 1)
    told = gauges(counted.monitor)
    assert told["capacity_measuring"] == [({}, 1.0)]
    assert told["utilisation"][0][1] == pytest.approx(0.0034, rel=0.1)
    assert not told.keys() & {"capacity_messages_per_second", "waiting_seconds", "cost_seconds", "service_seconds"}
    for second in range(40):
        counted.second_of(20_000, 1 + 3 * (second % 5))
    told = gauges(counted.monitor)
    assert told["capacity_measuring"] == [({}, 0.0)]
    assert told["replication_grade"][0][1] == pytest.approx(1)
    bounds = [value for _, value in told["capacity_interval"]]
    assert bounds[0] < told["capacity_messages_per_second"][0][1] < bounds[1]
    assert {"cost_seconds", "load", "service_seconds"} <= told.keys()


def test_predicted_waiting_times_are_compared_with_measured_ones() -> None:
    counted = Counted()
    for second in range(40):
        counted.second_of(20_000, 1 + 3 * (second % 5))
    predicted = gauges(counted.monitor)["waiting_mean_seconds"][0][1]
    counted.second_of(20_000, 13, 2 * predicted)
    found = gauges(counted.monitor)["waiting_error_ratio"][0][1]
    assert found > 1
    for _ in range(5):
        counted.second_of(20_000, 13, 1000 * predicted)
    assert gauges(counted.monitor)["waiting_error_ratio"][0][1] > found


def test_a_broker_without_traffic_predicts_nothing() -> None:
    monitor = CapacityMonitor()
    for second in range(3):
        monitor.observe(float(second), Counters(0, 0, 0, 0.01 * second, 0, 0))
    assert monitor.snapshot is None
    assert monitor.gauges() == []


def test_a_real_broker_tells_how_busy_it_is_and_that_it_is_measuring(tmp_path: Path) -> None:
    port, metrics = free_ports(2)
    config = tmp_path / "broker.toml"
    text = f'[broker]\ndata = "{tmp_path}/data"\n[[listeners]]\nport = {port}\n[metrics]\nport = {metrics}\n'
    config.write_text(text)

    def page() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    async def traffic(process: "subprocess.Popen[bytes]") -> None:
        def up() -> bool:
            try:
                return "\ntidings_ready 1\n" in page()
            except OSError:
                assert process.poll() is None
                return False

        await eventually(up, 30)
        async with connect(f"tidings://127.0.0.1:{port}") as client:
            subscription = await client.subscribe("ticks.>")

            async def told() -> bool:
                for _ in range(50):
                    await client.publish("ticks.a", {"n": 1})
                for _ in range(50):
                    await subscription.receive(10)
                return "tidings_capacity_measuring" in await asyncio.to_thread(page)

            await eventually(told, 60)

    process = subprocess.Popen([sys.executable, "-m", "tidings.cli", "broker", "--config", str(config)])
    try:
        asyncio.run(traffic(process))
        values = dict(re.findall(r"^tidings_(\w+) ([0-9.e+-]+)$", page(), re.MULTILINE))
        assert values["capacity_measuring"] == "1.0"
        assert 0 < float(values["utilisation"]) < 2
        assert float(values["replication_grade"]) == pytest.approx(1, abs=0.01)
        assert float(values["socket_waiting_seconds_count"]) > 0
    finally:
        process.terminate()
        assert process.wait(20) == 0
