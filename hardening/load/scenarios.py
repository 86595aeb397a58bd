"""Load that a broker must bear: half frames, a flood of changes to subscriptions, hours of traffic.

    python -m hardening.load.scenarios half 5000              # connections that begin a frame and say no more
    python -m hardening.load.scenarios churn 100000 1000 20   # subscriptions, changes a second, seconds
    python -m hardening.load.scenarios silent 1000            # subscribers, one of which never reads
    python -m hardening.load.scenarios soak 30         # minutes at 70 % of capacity; memory and files must stay flat

Each begins a broker process of its own and fails with a reason. A file name at the end: the figures are added to it.
"""

import asyncio
import resource
import socket
import struct
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from hardening.load.stream import stream, subscriber
from hardening.record import noted
from tidings.client import Client, connect
from tidings.protocols.native.frames import FrameType
from tidings.testing.broker_process import BrokerProcess

HALF = struct.pack("<IBBH", 60_000, FrameType.HELLO, 0, 0) + bytes(30_000)  # an incomplete frame before login
ANSWER_SECONDS = 60.0
RATE = 500.0  # messages a second of a soak that are looked at one by one
SHARE = 0.7  # of the broker's capacity, by the stream beside them
STREAM_READERS = 3
CALIBRATION_SECONDS = 8.0
CEILING_MIB = 64
LOOKS = 30  # how often memory is looked at during a soak
GROWTH = 1.05  # what it may be larger by at most in the last fifth of a soak than in the second


def allow_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def resident_kib(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def open_files(broker: BrokerProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{broker.process.pid}/fd").iterdir())


async def answers(url: str) -> float:
    """Publishes and receives one message; returns the seconds that this took."""
    began = time.monotonic()
    async with asyncio.timeout(ANSWER_SECONDS), connect(url) as client:
        seen = await client.subscribe("probe")
        await client.publish("probe", {"n": 1}, wait=True)
        assert await seen.receive(ANSWER_SECONDS) is not None, "no answer"
    return time.monotonic() - began


def half_frames(count: int, folder: Path, login_seconds: float = 30.0) -> dict[str, float]:
    """Others are served meanwhile, and who never ends its frame is cut off."""
    allow_files()
    with BrokerProcess(folder, f"[limits]\nlogin_seconds = {login_seconds}\n") as broker:
        before = resident_kib(broker)
        sockets = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(count)]
        for one in sockets:
            one.sendall(HALF)
        waited = asyncio.run(answers(broker.url))
        grown = resident_kib(broker) - before
        for one in sockets:
            one.settimeout(ANSWER_SECONDS)
            while one.recv(4096):  # the error, then the end
                pass
            one.close()
        after = asyncio.run(answers(broker.url))
    return {
        "connections": count,
        "kib each": round(grown / count, 1),
        "seconds to answer": round(waited, 3),
        "and after": round(after, 3),
    }


async def _churn(url: str, subscriptions: int, rate: int, seconds: float) -> dict[str, float]:
    each = 5_000  # subscriptions of a connection
    async with connect(url) as writer, connect(url) as reader:
        clients: list[Client] = [await connect(url) for _ in range((subscriptions + each - 1) // each)]
        kept = [
            await clients[number // each].subscribe("churn.>", selector=f"n = {number} AND kind = 'x'")
            for number in range(subscriptions)
        ]
        seen = await reader.subscribe("churn.>", selector="kind = 'y'")
        began, changes, sent = time.monotonic(), 0, 0
        while time.monotonic() < began + seconds:
            await kept[changes % subscriptions].close()
            client = clients[(changes % subscriptions) // each]
            selector = f"n = {changes} AND kind = 'z'"
            kept[changes % subscriptions] = await client.subscribe("churn.>", selector=selector)
            changes += 1
            await writer.publish("churn.a", {"n": changes, "kind": "y"}, wait=True)
            sent += 1
            await asyncio.sleep(max(0.0, began + 2 * changes / rate - time.monotonic()))
        took = time.monotonic() - began
        for number in range(1, sent + 1):
            message = await seen.receive(ANSWER_SECONDS)
            assert message is not None, f"{sent - number + 1} of {sent} messages did not arrive"
            assert message.properties["n"] == number
        for client in clients:
            await client.close()
    return {"subscriptions": subscriptions, "changes a second": round(2 * changes / took), "messages": sent}


def churn(subscriptions: int, rate: int, seconds: float, folder: Path) -> dict[str, float]:
    with BrokerProcess(folder) as broker:
        return asyncio.run(_churn(broker.url, subscriptions, rate, seconds))


async def _soak(broker: BrokerProcess, seconds: float, growth: float) -> dict[str, float]:
    async with connect(broker.url) as writer, connect(broker.url, client_id="soak") as reader:
        plain = await reader.subscribe("soak.a")
        kept = await reader.subscribe("soak.b", durable="kept", ack="client")
        began, number, kib, files = time.monotonic(), 0, list[int](), list[int]()
        while time.monotonic() < began + seconds:
            number += 1
            await writer.publish("soak.a", {"n": number}, bytes(200), wait=False)
            await writer.publish("soak.b", {"n": number}, bytes(200), persistent=True, wait=False)
            for subscription in (plain, kept):
                message = await subscription.receive(ANSWER_SECONDS)
                assert message is not None, f"message {number} did not come"
                assert message.properties["n"] == number
                if subscription is kept:
                    await message.ack()
            if time.monotonic() > began + (len(kib) + 1) * seconds / (LOOKS + 1):
                kib.append(resident_kib(broker))
                files.append(open_files(broker))
            await asyncio.sleep(max(0.0, began + 2 * number / RATE - time.monotonic()))
    fifth = LOOKS // 5
    early_kib, late_kib = max(kib[fifth : 2 * fifth]), max(kib[-fifth:])
    assert late_kib < growth * early_kib, f"{early_kib} KiB became {late_kib}: {kib}"
    assert max(files[-fifth:]) <= max(files[fifth : 2 * fifth]) + 2, f"open files: {files}"
    figures = {"minutes": round(seconds / 60, 1), "looked at": 2 * number, "kib early": early_kib, "kib late": late_kib}
    return figures | {"open files": max(files[-fifth:])}


def soak(
    minutes: float, folder: Path, calibration_seconds: float = CALIBRATION_SECONDS, growth: float = GROWTH
) -> dict[str, float]:
    """Persistent and other messages looked at one by one, and beside them as many as make 70 % of what it can take."""
    with (
        BrokerProcess(folder, f'[broker]\ndata = "{folder / "data"}"\n') as broker,
        stream(broker.port, STREAM_READERS) as many,
    ):
        capacity = many.capacity(calibration_seconds)
        many.pace(SHARE * capacity)
        figures = asyncio.run(_soak(broker, minutes * 60, growth))
        return {**figures, "capacity a second": round(capacity), "messages": many.finish()}


def silent(subscribers: int, folder: Path, seconds: float = 10.0) -> dict[str, float]:
    """Of many subscribers one never reads: what the others get without it and with it, and how large the broker is."""
    allow_files()
    with (
        BrokerProcess(folder, f"[limits]\nmemory_bytes_max = {CEILING_MIB << 20}\n") as broker,
        stream(broker.port, subscribers - 1) as many,
    ):
        before = many.capacity(seconds)
        quiet_kib = resident_kib(broker)
        with subscriber(broker.port):
            many.capacity(seconds)  # until the broker waits for it no longer
            after = many.capacity(seconds)
            grown_kib = resident_kib(broker) - quiet_kib
        messages = many.finish()
    assert grown_kib < 2 * 1024 * CEILING_MIB, f"{grown_kib} KiB more than before"
    return {"subscribers": subscribers, "a second before": round(before), "a second beside it": round(after),
            "kib more": grown_kib, "messages": messages}  # fmt: skip


def main(arguments: list[str]) -> None:
    name, *numbers = arguments
    results = numbers.pop() if numbers and not numbers[-1].replace(".", "").isdecimal() else ""
    match name, numbers:
        case "half", [count]:
            run = partial(half_frames, int(count))
        case "churn", [subscriptions, rate, seconds]:
            run = partial(churn, int(subscriptions), int(rate), float(seconds))
        case "silent", [subscribers]:
            run = partial(silent, int(subscribers))
        case "soak", [minutes]:
            run = partial(soak, float(minutes))
        case _:
            kinds = "half N | churn N RATE SECONDS | silent N | soak MINUTES"
            sys.exit(f"usage: python -m hardening.load.scenarios {kinds} [RESULTS]")
    with tempfile.TemporaryDirectory() as folder:
        figures = noted(results or None, "load", lambda: run(Path(folder)), kind=name)
    sys.stdout.write(f"{name}: {figures}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
