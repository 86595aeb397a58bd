"""Publishers are held back, or turned away, when the broker says that messages would wait too long."""

import asyncio
import json
import re
import subprocess
import sys
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
from tidings.client import connect
from tidings.errors import TidingsError
from tidings.localnet.ports import free_ports
from tidings.node.clients.admission import (
    BURST_MESSAGES_MIN,
    BURST_SECONDS,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    Admission,
)
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.native.session import NativeSession
from tidings.protocols.stomp.session import StompSession
from tidings.protocols.websocket.frames import WebSocketLayer
from tidings.testing.local_broker import local_broker, run


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@given(
    allowed=st.floats(2000, 1e6),
    steps=st.lists(st.tuples(st.floats(0, 0.1), st.integers(0, 500)), min_size=1, max_size=80),
)
def test_who_pauses_as_told_publishes_no_more_than_allowed(allowed: float, steps: list[tuple[float, int]]) -> None:
    clock = Hand()
    admission = Admission(0.01, clock=clock, rate_allowed=allowed)
    admission.took(0)
    begin, received, largest, pause = clock.now, 0, 0, 0.0
    for gap, messages in steps:
        clock.now += pause + gap
        received, largest = received + messages, max(largest, messages)
        pause = admission.took(received)
        before = max(0.0, clock.now - begin) * allowed  # what may have come by now
        burst = max(allowed * BURST_SECONDS, BURST_MESSAGES_MIN)
        assert pause < PAUSE_SECONDS_MAX
        # One read may overdraw, and debts shorter than a timer are kept.
        assert received <= before + burst + largest + allowed * PAUSE_SECONDS_MIN + 1


def test_without_an_estimate_everything_is_admitted() -> None:
    admission = Admission(0.01, clock=Hand())
    assert admission.took(1_000_000) == 0.0
    assert admission.newcomer() is None
    refusing = Admission(0.01, refuses=True, clock=Hand())
    assert refusing.newcomer() is None


def test_newcomers_are_refused_while_too_much_comes() -> None:
    clock = Hand()
    admission = Admission(0.01, refuses=True, clock=clock, rate_allowed=1000.0)
    admission.took(0)
    clock.now += 1.0
    assert admission.took(5000) == 0.0  # who publishes already goes on
    error = admission.newcomer()
    assert error is not None
    assert error.code == "E_ADMISSION"
    assert "5000 messages a second come, 1000 are allowed" in error.reason
    clock.now += 1.0
    admission.took(5100)
    assert admission.newcomer() is None
    assert admission.refused == 1


def test_a_fast_publisher_has_to_pause_and_loses_nothing() -> None:
    async def work() -> None:
        admission = Admission(0.01, clock=time.monotonic)
        async with local_broker(admission=admission) as local:
            admission.rate_allowed = 2000.0
            async with connect(local.url) as client:
                for number in range(500):
                    await client.publish("ticks.a", {"n": number})
                    if number % 50 == 49:
                        await client.publish("ticks.end", {}, persistent=True)  # confirmed: all before it have come
                assert local.broker.forwarder.received() == 510
            assert admission.pauses > 0

    run(work())


def test_publishers_of_other_protocols_pause_as_well() -> None:
    async def work() -> None:
        admission = Admission(0.01, clock=time.monotonic)
        async with local_broker(admission=admission) as local:
            admission.rate_allowed = 2000.0
            port = await local.broker.listen(ListenerSettings(StompSession, port=0))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
            assert b"CONNECTED" in await reader.readuntil(b"\0")
            for number in range(10):
                writer.write(b"SEND\ndestination:/topic/a\n\n\0" * 50)
                writer.write(b"SEND\ndestination:/topic/a\nreceipt:%d\n\n\0" % number)
                assert b"RECEIPT" in await reader.readuntil(b"\0")
            writer.close()
            assert admission.pauses > 0
            assert local.broker.forwarder.received() == 510
            layered = ListenerSettings(StompSession, port=0, make_layer=lambda: WebSocketLayer(("*",)))
            gateway = ListenerSettings(NativeSession, port=0, make_gateway=AmqpSession)
            for listener in (layered, gateway):
                made = local.broker.make_connection(listener)
                assert "buffer_updated" in vars(made), "its reads are watched"

    run(work())


def test_without_admission_control_connections_are_plain() -> None:
    async def work() -> None:
        async with local_broker() as local:
            made = local.broker.make_connection(ListenerSettings(NativeSession, port=0))
            assert type(made) is ClientConnection

    run(work())


def test_a_newcomer_is_refused_and_others_go_on() -> None:
    async def work() -> None:
        admission = Admission(0.01, refuses=True, clock=time.monotonic)
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

            before = counters(here.broker.forwarder, here.broker.aside).cpu_s
            began = time.process_time()
            assert here.broker.aside.doing(page)() == 4499998500000
            took, counted = (
                time.process_time() - began,
                counters(here.broker.forwarder, here.broker.aside).cpu_s - before,
            )
            assert here.broker.aside.seconds > took / 2
            assert counted < took / 2

    run(work())


def test_a_real_broker_holds_its_publisher_to_what_it_predicts(tmp_path: Path) -> None:
    """A bound that hardly any broker keeps: as soon as it knows itself, it slows the publisher down."""
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
                return float(told["pauses_total"]) > 0 and "rate" in told

            await eventually(slowed, 60)

    process = subprocess.Popen([sys.executable, "-m", "tidings.cli", "broker", "--config", str(config)])
    try:
        asyncio.run(traffic(process))
    finally:
        process.terminate()
        assert process.wait(30) == 0
