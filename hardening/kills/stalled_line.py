"""Four broker processes in a line, one stopped and another killed: the messages of one publisher keep their order.

    python -c 'from hardening.kills.stalled_line import main; main(["10"])'          # rounds; add a seed to repeat

The durable subscriber is at the first broker, the publisher at the last. In each round the second broker is stopped
(SIGSTOP), so messages wait at the third; then the third or the fourth, which is the publisher's own, is killed and
started, and the second goes on. What one of them has in its store must arrive before what it gets while it reads that.
"""

import asyncio
import os
import random
import signal
import sys
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path

from hardening.kills.broker import BrokerProcess, context
from hardening.kills.ledger import Ledger
from hardening.kills.line import NOTED_SECONDS, line
from hardening.record import noted, times
from hardening.support.links import eventually
from tidings.client import Client, Subscription, connect
from tidings.client.connection.answers import Receipt
from tidings.errors import TidingsError

STOP_SECONDS, BETWEEN_SECONDS, ARRIVE_SECONDS = 3.0, 1.0, 60.0
UNDER_WAY_MAX = 500  # publications without a receipt


async def publish(client: Client, ledger: Ledger, stop: asyncio.Event) -> None:
    under_way: deque[Receipt] = deque()
    while not stop.is_set():
        ledger.sent += 1
        ledger.ways[ledger.sent] = "publisher"
        under_way.append(await client.publish("t.x", {"n": ledger.sent}, persistent=True, wait=False))
        if len(under_way) >= UNDER_WAY_MAX:
            await under_way.popleft().confirmed()
        elif ledger.sent % 20 == 0:
            await asyncio.sleep(0.005)
    for receipt in under_way:
        await receipt.confirmed()
    ledger.confirmed.update(range(1, ledger.sent + 1))


async def consume(subscription: Subscription, ledger: Ledger) -> None:
    async for message in subscription:
        if n := int(message.properties["n"]):
            ledger.saw("durable", n, marked=message.redelivered, life=message.generation)
        with suppress(TidingsError):
            await message.ack()


async def stall(folder: Path, rounds: int, rng: random.Random) -> Ledger:
    brokers = line(folder, 4)
    for broker in brokers:
        await asyncio.to_thread(broker.start)
    reader = await connect(f"tidings://127.0.0.1:{brokers[0].port}", client_id="r")
    writer = await connect(f"tidings://127.0.0.1:{brokers[3].port}", client_id="w")
    ledger, probe, stop = Ledger(), asyncio.Event(), asyncio.Event()
    subscription = await reader.subscribe("t.*", durable="d", ack="client", window=1000)
    await eventually(lambda: _way_known(writer, subscription, probe), 60)
    await asyncio.sleep(NOTED_SECONDS)
    reading = asyncio.create_task(consume(subscription, ledger))
    writing = asyncio.create_task(publish(writer, ledger, stop))
    for _ in range(rounds):
        await _one_round(brokers, rng.choice(brokers[2:]))
    stop.set()
    await writing
    await eventually(lambda: _all_there(ledger), ARRIVE_SECONDS)
    for client in (reader, writer):
        await client.close()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    for broker in brokers:
        broker.kill()
    return ledger


async def _one_round(brokers: list[BrokerProcess], killed: BrokerProcess) -> None:
    await asyncio.sleep(BETWEEN_SECONDS)
    stopped = brokers[1].process.pid
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)
    try:
        await asyncio.sleep(STOP_SECONDS)
        await asyncio.to_thread(killed.kill)
        await asyncio.to_thread(killed.start)
    finally:
        os.kill(stopped, signal.SIGCONT)


async def _way_known(writer: Client, subscription: Subscription, probe: asyncio.Event) -> bool:
    """A message of number 0 finds out whether the way is known."""
    await writer.publish("t.x", {"n": 0}, persistent=True)
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await (await anext(aiter(subscription))).ack()
            probe.set()
    return probe.is_set()


async def _all_there(ledger: Ledger) -> bool:
    return not ledger.missing()


def stalled_line(rounds: int, *, seed: int = 1) -> Ledger:
    """Raises AssertionError with what was broken."""
    context.set_forkserver_preload(["hardening.kills.broker"])
    with tempfile.TemporaryDirectory() as directory:
        ledger = asyncio.run(stall(Path(directory), rounds, random.Random(seed)))
    problems = ledger.problems()
    assert not problems, f"{rounds} rounds, seed {seed}, {ledger.sent} messages: {problems[:10]}"
    return ledger


def main(arguments: list[str]) -> None:
    rounds = times(arguments[0])
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    figures = noted(
        results,
        "a stopped broker and a killed one",
        lambda: {"messages": stalled_line(rounds, seed=seed).sent},
        rounds=rounds,
        seed=seed,
    )
    sys.stdout.write(f"{rounds} rounds, seed {seed}: {figures['messages']:,} messages of one publisher in order\n")
