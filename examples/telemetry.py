"""Telemetry over sites: sensors in a plant, a control room beside them, headquarters behind a slow link.

Three brokers: plant ── hub ── headquarters; what is sent over the last link takes 150 ms. Content decides what
crosses it: headquarters asks for alarms only, so thousands of readings stay at the plant. Alarms are persistent:
when headquarters is cut off they wait at the nearest broker that has them, and arrive, once each, when it is back.

Run it by itself, it starts its own brokers: python examples/telemetry.py
"""

import asyncio
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tidings
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.localnet.ports import free_ports
from tidings.overlay.topology.toml_format import from_toml

SITES = """
links = [
    {between = ["plant", "hub"], latency_ms = 1},
    {between = ["hub", "headquarters"], latency_ms = 150},
]
"""
READINGS, SENSORS, SECONDS = 3000, 20, 60.0
ALARM = "temperature > 95"


def temperature(reading: int) -> float:
    """A machine that gets hot now and then."""
    return round(70 + 26 * math.sin(reading / 40) ** 3 + reading % 7 / 10, 1)


async def measure(plant: tidings.Client, first: int, count: int) -> list[int]:
    """Publish readings; returns the numbers of those that are alarms."""
    alarms = []
    for n in range(first, first + count):
        reading = {"n": n, "sensor": n % SENSORS, "temperature": temperature(n)}
        alarm = temperature(n) > 95
        alarms += [n] * alarm
        await plant.publish(f"plant.press.{n % SENSORS}", reading, persistent=alarm, wait=False)
    await plant.publish("plant.mark", {"n": first + count}, wait=True)  # the broker has taken all of them
    return alarms


async def receive(subscription: tidings.Subscription, wanted: list[int]) -> list[int]:
    """As many messages as there are alarms, each acknowledged; what is not would come again."""
    got: list[int] = []
    while len(got) < len(wanted):
        message = await subscription.receive(SECONDS)
        if message is None:
            raise RuntimeError(f"{len(wanted) - len(got)} alarms did not arrive within {SECONDS} s")
        got.append(int(message.properties["n"]))
        await message.ack()
    await subscription.close()  # returns when the broker has noted what was acknowledged
    return got


async def until(network: LocalNetwork, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the brokers did not find each other; their logs are in {network.folder}")
        await asyncio.sleep(0.1)


def knows(network: LocalNetwork, site: str, other: str) -> bool:
    """Whether a site has heard what the clients of another one want."""
    return bool(network.status()[site]["sees"]["interests"].get(str(network.members[other].router)))


def sent_on(network: LocalNetwork, site: str) -> int:
    """Copies of messages that a broker has sent to others."""
    return int(network.status()[site]["sees"]["counts"]["copies"])


async def watch(network: LocalNetwork) -> tuple[int, int, int]:
    """Readings, alarms, and copies that went over the slow link."""
    urls = {name: member.url() for name, member in network.members.items()}
    await until(network, network.settled)
    async with tidings.connect(urls["plant"]) as plant:
        room = await plant.subscribe("plant.press.>", policy="drop-oldest")  # the control room sees everything
        async with tidings.connect(urls["headquarters"], client_id="duty officer") as office:
            alarms = await office.subscribe("plant.press.>", selector=ALARM, durable="alarms", ack="client")
            await until(network, lambda: knows(network, "plant", "headquarters"))
            expected = await measure(plant, 0, READINGS)
            got = await receive(alarms, expected)
        network.stop("headquarters", kill=True)  # a power failure, while the plant works on
        expected += await measure(plant, READINGS, READINGS)
        network.start("headquarters")
        await until(network, network.settled)
        async with tidings.connect(urls["headquarters"], client_id="duty officer") as office:
            alarms = await office.subscribe("plant.press.>", selector=ALARM, durable="alarms", ack="client")
            got += await receive(alarms, expected[len(got) :])
        if sorted(got) != expected:
            raise RuntimeError("some alarms came twice, and others not at all")
        if await room.receive(SECONDS) is None:
            raise RuntimeError("the control room saw nothing")
    return 2 * READINGS, len(got), sent_on(network, "hub")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = from_toml(SITES)
        options = LocalOptions(port=free_ports(3 * len(graph))[0], delays=True)
        network = LocalNetwork.create(Path(folder), graph, options)
        try:
            network.start()
            readings, alarms, copies = asyncio.run(watch(network))
        finally:
            network.stop(kill=True)
    print(f"{readings} readings at the plant, {alarms} of them alarms ({ALARM})")
    print(f"{copies} copies went over the slow link, among them those repeated after headquarters failed")
    print(f"headquarters has all {alarms}, once each")


if __name__ == "__main__":
    main()
