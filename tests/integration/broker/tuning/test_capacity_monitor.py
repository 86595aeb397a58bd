"""The broker's own estimate: from counters to parameters, and on the page of a real process."""

import asyncio
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from hardening.support.links import eventually

from tidings.broker.tuning.capacity_monitor import CapacityMonitor
from tidings.broker.tuning.capacity_observer import Counters
from tidings.client import connect
from tidings.localnet.ports import free_ports


def counted(seconds: int, rate: int, grade: int, filters: int, t_rcv: float, t_tx: float) -> Counters:
    messages = seconds * rate
    sums = (float(messages * grade), float(messages * grade**2), float(messages * grade**3))
    return Counters(messages, messages * grade, filters, messages * (t_rcv + grade * t_tx), sums)


def test_parameters_are_found_in_the_counters() -> None:
    monitor = CapacityMonitor()
    for second in range(20):
        monitor.observe(float(second), counted(second, 1000, 4, 100, 2e-4, 5e-5))
    found = monitor.snapshot
    assert found is not None
    assert found.service_mean == pytest.approx(4e-4, rel=1e-3)
    assert found.utilisation == pytest.approx(0.4, rel=1e-3)
    assert found.replication == pytest.approx(4)
    assert found.capacity == pytest.approx(0.9 / 4e-4, rel=1e-3)
    names = [name for name, _, _ in monitor.gauges()]
    assert {"utilisation", "capacity_messages_per_second", "waiting_seconds"} <= set(names)


def test_a_broker_without_traffic_predicts_nothing() -> None:
    monitor = CapacityMonitor()
    for second in range(3):
        monitor.observe(float(second), Counters(0, 0, 0, 0.01 * second, (0.0, 0.0, 0.0)))
    assert monitor.snapshot is None
    assert monitor.gauges() == []


def test_a_real_broker_tells_what_it_can_carry(tmp_path: Path) -> None:
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
            await client.subscribe("ticks.>")

            async def told() -> bool:
                for _ in range(50):
                    await client.publish("ticks.a", {"n": 1})
                return "tidings_capacity_messages_per_second" in await asyncio.to_thread(page)

            await eventually(told, 60)

    process = subprocess.Popen([sys.executable, "-m", "tidings.cli", "broker", "--config", str(config)])
    try:
        asyncio.run(traffic(process))
        values = dict(re.findall(r"^tidings_(\w+) ([0-9.e+-]+)$", page(), re.MULTILINE))
        assert float(values["capacity_messages_per_second"]) > 0
        assert float(values["replication_grade"]) == pytest.approx(1, abs=0.01)
    finally:
        process.terminate()
        assert process.wait(20) == 0
