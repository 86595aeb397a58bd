"""Broker processes that are ended at random instants while clients publish and consume.

    make crash KILLS=500

Most are killed (kill -9), some again while they recover, some are asked to end (SIGTERM). A single broker, or
three in a line (`crash_network`), of which the inner one is hit as well. The single broker has many messages under
way, or, every second time, a lone publisher's one, which it writes in another way (`node.alone`).

What must hold, however often it is killed: the store opens; no message that was confirmed is lost; what comes twice is
marked as redelivered; what was acknowledged, and is on disk as the broker said, does not come again; the messages of
each publisher come in their order; a transaction is there as a whole or not at all. The judge is the simulator's
(hardening.histories). Publishers and consumers are ordinary clients:
they connect again by themselves and send again what was not confirmed.
"""

import asyncio
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from hardening.kills.campaign import rounds
from hardening.kills.ledger import GROUP, Ledger
from hardening.record import noted, times
from hardening.support.links import QUICK, SECRET
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.broker.links.links import LinkSettings, Peers
from tidings.broker.server import Broker
from tidings.client import Client, Subscription, connect
from tidings.client.connection.answers import Receipt
from tidings.delivery.store import Store
from tidings.errors import TidingsError
from tidings.node.network.settings import NetworkSettings
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameType, control
from tidings.protocols.native.session import NativeSession
from tidings.store.sqlite.store import SqliteStore

SYNC_EVERY = 10  # acknowledgements, of which it is asked together whether they are on disk
START_SECONDS = 30.0
KILLS_PER_STORE = 10
QUIET_SECONDS = 0.3
MISSING_SECONDS = 20.0
context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Member:
    """A broker's place in a network."""

    router: int
    link_port: int
    dials: tuple[tuple[str, int | None], ...] = ()

    def peers(self) -> Peers:
        return Peers(
            NetworkSettings(self.router, "test", self.dials, link=QUICK),
            LinkSettings(port=self.link_port, secret=SECRET),
        )


def _opened(path: str) -> Store:
    """A file, or the address of a database, whose last holder was killed on this host."""
    if not path.startswith("postgresql://"):
        return SqliteStore(path)
    from tidings.store.postgresql.options import DatabaseOptions  # only where one is used
    from tidings.store.postgresql.place import PostgresPlace

    place = PostgresPlace(DatabaseOptions(path, 1))
    lease = place.lease()
    assert lease.wait(START_SECONDS), "the lease is not free"
    lease.on_lost(lambda _: os._exit(1))
    return place.open(lease)


def serve(path: str, port: int, ready: Connection, member: Member | None) -> None:
    """The body of the broker process; it ends by being killed, or by SIGTERM."""

    async def main() -> None:
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        settings = NodeSettings(broker_id=member.router if member else 1, deliveries_max=1_000_000)
        broker = Broker(settings, _opened(path), peers=member.peers() if member else None)
        await broker.start([])
        listening = await broker.listen(ListenerSettings(NativeSession, port=port))
        with suppress(BrokenPipeError):  # nobody waits for one that is to be killed while it starts
            ready.send(listening)
        await ended.wait()
        await broker.stop()

    asyncio.run(main())


@dataclass(slots=True)
class BrokerProcess:
    path: Path | str
    port: int = 0
    member: Member | None = None

    def start(self, *, wait: bool = True) -> None:
        mine, theirs = context.Pipe(duplex=False)
        arguments = (str(self.path), self.port, theirs, self.member)
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        if wait:
            assert mine.poll(START_SECONDS), "the broker does not start"
            self.port = mine.recv()  # EOFError: it could not open its store
        mine.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def end(self, rng: random.Random) -> None:
        """Any of the ways in which a process ends, and start it again."""
        way = rng.random()
        if way < 0.15:
            self.process.terminate()
            self.process.join(START_SECONDS)
            assert self.process.exitcode is not None, "SIGTERM did not end it"
        else:
            self.kill()
        if way > 0.8:  # and once more, wherever it is in its recovery
            self.start(wait=False)
            time.sleep(rng.uniform(0, 0.4))
            self.kill()
        self.start()

    process: "multiprocessing.context.ForkServerProcess" = field(init=False)


async def publish(client: Client, ledger: Ledger, stop: asyncio.Event) -> None:
    """To a topic with two durable mailboxes on it: one after the other, many of them not confirmed yet."""
    waiting: set[asyncio.Task[None]] = set()

    async def confirmed(n: int, receipt: Receipt) -> None:
        await receipt.confirmed()
        ledger.confirmed.add(n)

    way = f"publisher {id(client)}"
    while not stop.is_set():
        ledger.sent += 1
        n = ledger.sent
        ledger.ways[n] = way
        receipt = await client.publish("t.x", {"n": n}, bytes(n % 300), persistent=True, wait=False)
        task = asyncio.create_task(confirmed(n, receipt))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        await asyncio.sleep(0 if len(waiting) < 50 else 0.005)
    await asyncio.gather(*waiting)


async def publish_alone(client: Client, ledger: Ledger, stop: asyncio.Event) -> None:
    """The same, one at a time."""
    while not stop.is_set():
        ledger.sent += 1
        ledger.ways[ledger.sent] = "publisher"
        await client.publish("t.x", {"n": ledger.sent}, bytes(ledger.sent % 300), persistent=True, wait=True)
        ledger.confirmed.add(ledger.sent)


async def transact(client: Client, ledger: Ledger, stop: asyncio.Event) -> None:
    group = 0
    work = client.transaction()
    while not stop.is_set():
        group += 1
        try:
            await work.rollback()  # starts again, whatever was before
            for n in range(group * GROUP, (group + 1) * GROUP):
                await work.publish("queue:groups", {"n": n}, persistent=True, wait=False)
            await client.commit(work.session)
            ledger.committed.add(group)
        except TidingsError:
            await asyncio.sleep(0.01)  # the broker is gone: whether it happened is not known


async def consume(client: Client, subscription: Subscription, name: str, ledger: Ledger) -> None:
    ledger.reads(name)
    generation, done = 0, set[int]()  # what was acknowledged by this connection
    asking: set[asyncio.Task[None]] = set()
    async for message in subscription:
        n = int(message.properties["n"])
        ledger.saw(name, n, marked=message.redelivered, life=message.generation)
        if message.generation != generation:
            generation, done = message.generation, set()
        with suppress(TidingsError):
            await message.ack()
            done.add(n)
        if len(done) >= SYNC_EVERY:
            task = asyncio.create_task(finish(client, generation, ledger.finished.setdefault(name, set()), done))
            asking.add(task)
            task.add_done_callback(asking.discard)
            done = set()


async def finish(client: Client, generation: int, finished: set[int], done: set[int]) -> None:
    """Ask whether these acknowledgements are on disk; only the connection they went by can know of them."""
    if client.connected and client.generation == generation:
        with suppress(TidingsError):
            await client.ask(lambda receipt: control(FrameType.SYNC, {"receipt": receipt}), repeatable=False)
            finished |= done


async def hurt(
    path: Path | str,
    kills: int,
    rng: random.Random,
    *,
    alone: bool,
    end: Callable[[BrokerProcess, random.Random], None] = BrokerProcess.end,
) -> Ledger:
    """Run one store through this number of kills; return what clients noted. `alone`: there is one publisher, which
    waits for each receipt."""
    broker = BrokerProcess(path)
    broker.start()
    url = f"tidings://127.0.0.1:{broker.port}"
    ledger, stop = Ledger(), asyncio.Event()
    clients = [await connect(url, client_id=name) for name in ("p", "q", "w", "a", "b", "g")]
    one, two, work, first, second, groups = clients
    subscriptions = {
        "durable": await first.subscribe("t.*", durable="d", ack="client", window=20),
        "shared": await second.subscribe("t.>", shared="s", durable=True, ack="client"),
        "groups": await groups.subscribe("queue:groups", ack="client"),
    }
    readers = zip((first, second, groups), subscriptions.items(), strict=True)
    consumers = [asyncio.create_task(consume(client, one, name, ledger)) for client, (name, one) in readers]
    if alone:
        publishers = [asyncio.create_task(publish_alone(one, ledger, stop))]
    else:
        publishers = [asyncio.create_task(publish(client, ledger, stop)) for client in (one, two)]
        publishers.append(asyncio.create_task(transact(work, ledger, stop)))
    for _ in range(kills):
        await asyncio.sleep(0.03 + rng.expovariate(10))
        await asyncio.to_thread(end, broker, rng)
    await asyncio.sleep(0.1)
    stop.set()
    await asyncio.gather(*publishers)
    await quiet(ledger)
    for client in clients:
        await client.close()
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    broker.kill()
    return ledger


async def quiet(ledger: Ledger, seconds: float | None = None) -> None:
    """Until nothing is missing (or too long has passed for it to come), and a little longer for what comes twice."""
    for _ in range(int((seconds or MISSING_SECONDS) / QUIET_SECONDS)):
        if not ledger.missing():
            break
        await asyncio.sleep(QUIET_SECONDS)
    await asyncio.sleep(QUIET_SECONDS)


def one_store(kills: int, seed: int, number: int) -> Ledger:
    """The round of this number: raises AssertionError with what was broken; returns the ledger of its store."""
    context.set_forkserver_preload(["hardening.kills.broker"])
    rng = random.Random(f"{seed}/{number}")
    with tempfile.TemporaryDirectory() as directory:
        ledger = asyncio.run(hurt(Path(directory) / "store", kills, rng, alone=number % 2 == 1))
    problems = ledger.problems()
    assert not problems, f"round {number} of {kills} kills, seed {seed}: {problems[:10]}"
    return ledger


def crash(kills: int, *, kills_per_store: int = KILLS_PER_STORE, seed: int = 1) -> list[Ledger]:
    parts = parts_of(kills, kills_per_store)
    return [one_store(part, seed, number) for number, part in enumerate(parts)]


def parts_of(kills: int, each: int) -> list[int]:
    return [min(each, kills - done) for done in range(0, kills, each)]


def main(arguments: list[str]) -> None:
    kills = times(arguments[0]) if arguments else 500
    seed = int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(1 << 32)
    results = arguments[2] if arguments[2:] else None
    name, parts = "kills of one broker", parts_of(kills, KILLS_PER_STORE)

    def run() -> dict[str, int]:
        return rounds(name, seed, len(parts), lambda number: one_store(parts[number], seed, number).figures())

    figures = noted(results, name, run, kills=kills, seed=seed)
    sys.stdout.write(f"{kills} kills, seed {seed}: nothing lost of {figures['confirmed']:,} confirmed messages\n")
