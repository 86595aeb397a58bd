"""A far subscriber that reads at a tenth of the rate: its publisher waits, nothing is lost, others keep their rate.

    python -m hardening.network.slow_subscriber 20 [RESULTS]      # seconds of load

Four broker processes in a line, `congestion = "push-back"`. At the first, one client publishes as fast as it may for a
slow subscriber at the last, and one at a steady rate for a subscriber at the third. The steady one is measured alone
and beside the slow one; then the slow subscriber reads all that is left.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hardening.record import noted, times
from hardening.support.links import eventually
from tidings.client import Client, Subscription, connect
from tidings.localnet.member import Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.localnet.ports import free_ports
from tidings.overlay.topology.generate import line

CAMPAIGN = "a far slow subscriber"
BODY = bytes(4096)
STEADY_RATE, SLOW_RATE = 200.0, 100.0  # messages a second; the publisher of the slow one could send ten times as many
WAIT_SECONDS = 120.0


@asynccontextmanager
async def network(folder: Path) -> AsyncIterator[LocalNetwork]:
    routing = Routing(heartbeat_ms=500.0, settings={"congestion": "push-back"})
    made = LocalNetwork.create(folder, line(4), LocalOptions(port=free_ports(12)[0], routing=routing))
    await asyncio.to_thread(made.start)
    try:
        await eventually(made.settled, WAIT_SECONDS)
        yield made
    finally:
        await asyncio.to_thread(made.stop, kill=True)


async def steady(writer: Client, reader: Subscription, seconds: float) -> int:
    """Counts the steady messages that arrive in this time."""
    got, begin = 0, time.monotonic()

    async def read() -> None:
        nonlocal got
        async for _ in reader:
            got += 1

    reading = asyncio.create_task(read())
    sent = 0
    while (passed := time.monotonic() - begin) < seconds:
        while sent < passed * STEADY_RATE:
            sent += 1
            await writer.publish("steady.x", {"n": sent}, BODY)
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.5)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return got


async def flood(writer: Client, stop: asyncio.Event) -> int:
    """As fast as the publisher may; returns how many."""
    sent = 0
    while not stop.is_set():
        sent += 1
        await writer.publish("slow.x", {"n": sent}, BODY)
        if sent % 20 == 0:
            await asyncio.sleep(0)
    return sent


async def read_slowly(reader: Subscription, numbers: list[int], hurry: asyncio.Event) -> None:
    async for message in reader:
        numbers.append(int(message.properties["n"]))
        if not hurry.is_set():
            await asyncio.sleep(1 / SLOW_RATE)


async def _heard(writer: Client, reader: Subscription, topic: str) -> bool:
    """A message finds out whether the way is known."""
    await writer.publish(topic, {"n": 0})
    return await reader.receive(0.5) is not None


async def measure(folder: Path, seconds: float) -> dict[str, int]:
    """Raises AssertionError if something is lost or the steady subscriber is harmed."""
    async with network(folder) as made:
        first, third, last = (made.members[name].url() for name in "134")
        async with connect(first) as one, connect(first) as two, connect(third) as near, connect(last) as far:
            steadily = await near.subscribe("steady.>")
            slowly = await far.subscribe("slow.>", window=20)
            await eventually(lambda: _heard(one, steadily, "steady.x"), WAIT_SECONDS)
            await eventually(lambda: _heard(two, slowly, "slow.x"), WAIT_SECONDS)
            numbers: list[int] = []
            hurry, stop = asyncio.Event(), asyncio.Event()
            alone = await steady(one, steadily, seconds / 2)
            reading = asyncio.create_task(read_slowly(slowly, numbers, hurry))
            flooding = asyncio.create_task(flood(two, stop))
            beside = await steady(one, steadily, seconds / 2)
            at_rate = len(numbers)
            stop.set()
            hurry.set()
            sent = await asyncio.wait_for(flooding, WAIT_SECONDS)
            await eventually(lambda: bool(numbers) and numbers[-1] == sent, WAIT_SECONDS)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            dropped = slowly.dropped
        mine = [n for n in numbers if n]
        assert mine == list(range(1, sent + 1)), f"{sent - len(set(mine))} of {sent} are lost"
        assert not dropped, f"{dropped} were dropped"
        assert beside >= 0.9 * alone, f"the other subscriber got {beside} instead of {alone}"
        found = {"published": sent, "read_slowly": at_rate, "steady_alone": alone, "steady_beside": beside}
        return found | {"waited": _pushed_back(made)}


def _pushed_back(made: LocalNetwork) -> int:
    """Counts the times that publishers at the first broker had to wait."""
    seen: dict[str, Any] | None = made.members["1"].status()
    return 0 if seen is None else int(seen["plane"]["pushed_back"])


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        sys.exit("usage: python -m hardening.network.slow_subscriber SECONDS [RESULTS]")
    seconds, results = times(arguments[0]), arguments[1] if arguments[1:] else None
    with tempfile.TemporaryDirectory() as folder:
        net = Path(folder) / "net"
        found = noted(results, CAMPAIGN, lambda: asyncio.run(measure(net, seconds)), seconds=seconds)
    shown = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in found.items())
    sys.stdout.write(f"nothing lost: {shown}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
