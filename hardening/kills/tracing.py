"""A broker that records and is killed (SIGKILL) at random instants, again and again; then every message is traced.

    make trace-kills KILLS=50

What was stored is found, and what was lost with a process the broker knows to be unknown: it never says of a message
that was published, or of a subscriber that got it, that it was not so.
"""

import asyncio
import random
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tidings.client import Client, connect
from tidings.errors import TidingsError
from tidings.model.message_id import MessageId
from tidings.testing.broker_process import BrokerProcess

ME = "me"
PAUSE_SECONDS = 0.005  # between messages: enough of them to be worth it, few enough to be traced
TRACKING = """
[tracking]
persist_ms = 100
skew_ms = 500
jitter_ms = 500
skew_between_brokers_ms = 1000
"""


@dataclass(slots=True)
class Seen:
    """The events that clients know to have happened."""

    published: set[MessageId] = field(default_factory=set)
    received: set[MessageId] = field(default_factory=set)


@dataclass(slots=True)
class Told:
    """The final answers of the broker."""

    found: int = 0
    unknown: int = 0
    problems: list[str] = field(default_factory=list)


async def traffic(broker: BrokerProcess, seconds: float, seen: Seen) -> None:
    """Until the time is over, and with it the process."""
    client = await connect(broker.url, client_id=ME, reconnect=False)
    ticks = await client.subscribe("ticks.>")
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        seen.published.add((await client.publish("ticks.a", {"n": 1}, wait=True)).message_id)
        message = await ticks.receive(60)
        assert message is not None
        seen.received.add(message.message_id)
        await asyncio.sleep(PAUSE_SECONDS)
    broker.signal(signal.SIGKILL)
    with suppress(TidingsError):
        await client.close()


async def check(client: Client, seen: Seen) -> Told:
    told = Told()
    for message in sorted(seen.published):
        path = await client.trace(message)
        named = {one.peer for _, one in path.subscribers}
        sure, found = not path.unknown, path.confirmed and ME in named
        told.found += found
        told.unknown += not found and not sure
        if sure and not path.confirmed:
            told.problems.append(f"{message} was published, and is denied")
        elif sure and message in seen.received and ME not in named:
            told.problems.append(f"{message} was received, and its subscriber is denied")
    return told


def hurt(directory: Path, kills: int, rng: random.Random, seconds_max: float = 4.0) -> Told:
    seen = Seen()
    for _ in range(kills):
        with BrokerProcess(directory, TRACKING) as broker:
            asyncio.run(traffic(broker, rng.uniform(0.05, seconds_max), seen))
            broker.process.wait()

    async def ask(url: str) -> Told:
        async with connect(url) as client:
            return await check(client, seen)

    with BrokerProcess(directory, TRACKING) as broker:
        return asyncio.run(ask(broker.url))


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
    with tempfile.TemporaryDirectory() as name:
        told = hurt(Path(name), kills, random.Random(seed))
    sys.stdout.write(f"{kills} kills, seed {seed}: {told.found} messages found, {told.unknown} unknown\n")
    if told.problems:
        sys.exit("\n".join(told.problems[:20]))


if __name__ == "__main__":
    main()
