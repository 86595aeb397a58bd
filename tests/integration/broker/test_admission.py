"""Publishers are held back, or turned away, when the broker says that messages would wait too long."""

import asyncio
import fcntl
import json
import re
import socket
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from pathlib import Path

import pytest
from hardening.support.links import eventually
from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.connections.connection import ClientConnection
from tidings.broker.tuning.capacity_observer import counters
from tidings.broker.tuning.receive_windows import (
    WINDOW_MIN,
    ReceiveWindows,
    Waited,
    WindowControl,
    bound_window,
    small_segments,
)
from tidings.client import connect
from tidings.client.connection.transport import UNSENT_BYTES, limit_unsent
from tidings.errors import TidingsError
from tidings.kernel.clock import now_ms
from tidings.localnet.ports import free_ports
from tidings.node.clients.admission import Admission
from tidings.protocols.native.session import NativeSession
from tidings.testing.local_broker import local_broker, run


def test_newcomers_are_refused_while_too_much_comes() -> None:
    admission = Admission(0.01, refuses=True)
    assert admission.newcomer() is None  # nothing is known yet
    admission.rate_allowed, admission.rate = 1000.0, 5000.0
    error = admission.newcomer()
    assert error is not None
    assert error.code == "E_ADMISSION"
    assert "5000 messages a second come, 1000 are allowed" in error.reason
    admission.rate = 100.0
    assert admission.newcomer() is None
    admission.waiting_s = 0.02
    late = admission.newcomer()
    assert late is not None
    assert "messages wait 20 ms, of which at most 10 ms are allowed" in late.reason
    assert admission.refused == 2


class Queue:
    """A broker that serves `rate` bytes a second, and publishers that always fill what may wait."""

    def __init__(self, rate: float, publishers: int, buffer: int) -> None:
        self.rate, self.publishers, self.buffer = rate, publishers, buffer

    def waited_s(self, window: int | None) -> float:
        return self.publishers * min(window or self.buffer, self.buffer) / self.rate


@given(st.floats(1e6, 1e9), st.integers(1, 200), st.floats(0.001, 0.1))
def test_windows_become_so_small_that_the_bound_is_kept(rate: float, publishers: int, bound: float) -> None:
    queue, control = Queue(rate, publishers, 4 << 20), WindowControl(bound)
    for _ in range(100):
        control.decide(queue.waited_s(control.window), publishers, rate, busy=0.9)
    assert queue.waited_s(control.window) <= bound or control.window == WINDOW_MIN


@given(st.integers(1, 50))
def test_a_burst_after_idling_meets_no_window_and_leaves_none(ticks: int) -> None:
    control = WindowControl(0.005)
    for _ in range(ticks):
        assert control.decide(0.0, 1, 0.0) is None
    assert control.decide(0.05, 1, 1e6) is None
    assert control.decide(0.0, 1, 0.0) is None
    for _ in range(10):
        control.decide(0.1, 1, 1e6)
    for _ in range(60):
        control.decide(0.0, 1, 0.0)
    assert control.window is None


def test_windows_that_make_messages_dear_grow_again() -> None:
    control = WindowControl(0.001)
    for _ in range(10):
        control.decide(0.1, 1, 1e7, busy=0.5)
    small = control.window
    assert small is not None
    for _ in range(10):
        control.decide(0.1, 1, 1e6, busy=0.5)
    assert control.window is None or control.window > small


def test_quantiles_of_classes() -> None:
    waited = Waited([90.0, 9.0, 1.0], [1e-3, 2e-3])
    assert [waited.quantile(p) for p in (0.5, 0.95, 0.999)] == [1e-3, 2e-3, 4e-3]
    assert Waited([0.0, 0.0], [1.0]).quantile(0.99) == 0.0


class Noted:
    def __init__(self) -> None:
        self.heard_ms = now_ms()
        self.window: int | None = None

    def bound_window(self, window: int | None) -> None:
        self.window = window


def test_publishers_get_windows_while_messages_wait_too_long_and_lose_them_afterwards() -> None:
    async def work() -> None:
        async with local_broker() as local, connect(local.url) as client:
            await client.publish("ticks.a", {"n": 1}, persistent=True)
            broker, noted, gone = local.broker, Noted(), Noted()
            gone.heard_ms = 0
            windows = ReceiveWindows(
                Admission(1e-9), broker.read_moderation.pace, broker.forwarder, {1: noted, 2: gone}
            )
            for _ in range(5):
                await asyncio.sleep(0.03)  # a read after some silence is a sample
                for number in range(100):
                    await client.publish("ticks.a", {"n": number})
                await client.publish("ticks.a", {"n": 1}, persistent=True)
                windows.tick()
            assert noted.window is not None
            assert noted.window >= WINDOW_MIN
            assert gone.window is None
            for _ in range(100):
                windows.tick()
            assert noted.window is None

    run(work())


def flooded(window: int | None) -> tuple[int, int]:
    """Bytes that wait in the receive buffer, and in both, of a sender that fills what it may."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        small_segments(listening)
        sender = socket.create_connection(listening.getsockname())
        limit_unsent(sender)
        receiver, _ = listening.accept()
        with sender, receiver:
            bound_window(receiver, 8_000)
            bound_window(receiver, window)
            sender.setblocking(False)
            sent, quiet = 0, 0
            while quiet < 5:
                try:
                    sent += sender.send(b"x" * 190)
                    quiet = 0
                except BlockingIOError:
                    quiet += 1
                    time.sleep(0.02)
            waiting = struct.unpack("i", fcntl.ioctl(receiver, termios.FIONREAD, b"\0" * 4))[0]
            return waiting, sent


def test_a_window_bounds_what_waits_unread_and_the_client_what_waits_unsent() -> None:
    waiting, sent = flooded(8_000)
    assert waiting <= 3 * 8_000
    assert sent - waiting <= 8 * UNSENT_BYTES
    assert flooded(None)[0] > 8 * waiting


def test_a_publisher_with_a_small_window_loses_nothing() -> None:
    async def work() -> None:
        async with local_broker(admission=Admission(1e-9)) as local, connect(local.url) as client:
            for number in range(5000):
                await client.publish("ticks.a", {"n": number})
                if number % 500 == 0:
                    await client.publish("ticks.a", {}, persistent=True)
            await client.publish("ticks.a", {}, persistent=True)
            assert local.broker.forwarder.received() == 5011

    run(work())


def test_without_admission_control_connections_are_plain() -> None:
    async def work() -> None:
        async with local_broker() as local:
            made = local.broker.make_connection(ListenerSettings(NativeSession, port=0))
            assert type(made) is ClientConnection

    run(work())


def test_a_newcomer_is_refused_and_others_go_on() -> None:
    async def work() -> None:
        admission = Admission(0.01, refuses=True)
        async with local_broker(admission=admission) as local:
            async with connect(local.url) as old, connect(local.url) as new:
                await old.publish("ticks.a", {"n": 1}, persistent=True)
                admission.rate_allowed, admission.rate = 10.0, 100.0
                with pytest.raises(TidingsError, match="are allowed") as refused:
                    await new.publish("ticks.a", {"n": 2}, persistent=True)
                assert refused.value.code == "E_ADMISSION"
                await old.publish("ticks.a", {"n": 3}, persistent=True)
                admission.rate = 1.0
                await new.publish("ticks.a", {"n": 4}, persistent=True)
            assert admission.refused == 1

    run(work())


def test_what_looking_at_the_broker_costs_is_not_taken_for_what_messages_cost() -> None:
    async def work() -> None:
        async with local_broker() as here:

            def page() -> int:
                return sum(range(3_000_000))

            before = counters(here.broker.counting()).cpu_s
            began = time.process_time()
            assert here.broker.aside.doing(page)() == 4499998500000
            took, counted = (
                time.process_time() - began,
                counters(here.broker.counting()).cpu_s - before,
            )
            assert here.broker.aside.seconds > took / 2
            assert counted < took / 2

    run(work())


def test_a_real_broker_bounds_what_its_publishers_may_leave_waiting(tmp_path: Path) -> None:
    """A bound that hardly any broker keeps."""
    port, metrics = free_ports(2)
    config = tmp_path / "broker.toml"
    config.write_text(
        f'[broker]\ndata = "{tmp_path}/data"\n[[listeners]]\nport = {port}\n[metrics]\nport = {metrics}\n'
        "[admission]\nwaiting_ms_max = 0.000001\n"
    )

    def page(name: str = "metrics") -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/{name}", timeout=10) as answer:
            return str(answer.read().decode())

    async def traffic(process: "subprocess.Popen[bytes]") -> None:
        def up() -> bool:
            try:
                return bool(json.loads(page("health"))["ready"])
            except OSError:
                assert process.poll() is None
                return False

        await eventually(up, 60)
        async with connect(f"tidings://127.0.0.1:{port}") as client:

            async def slowed() -> bool:
                for number in range(300):
                    await client.publish("ticks.a", {"n": number})
                await client.publish("ticks.a", {}, persistent=True)
                told = dict(re.findall(r"^tidings_admission_(\w+) ([0-9.e+-]+)$", page(), re.MULTILINE))
                return float(told["shrunk_total"]) > 0

            await eventually(slowed, 60)

    process = subprocess.Popen([sys.executable, "-m", "tidings.cli", "broker", "--config", str(config)])
    try:
        asyncio.run(traffic(process))
    finally:
        process.terminate()
        assert process.wait(30) == 0
