"""A broker is killed while persistent trades are on their way to it, and comes back: none of them is lost.

The auditor's durable subscription lives at Frankfurt. London and New York publish trades; each is on disk there
before it counts as published. Frankfurt is killed with SIGKILL, as a power failure would, and started again. What it
had not taken waits at the others, what it had taken is in its store.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from tidings.cli.demo.site_map import TITLES
from tidings.cli.demo.sites import wait_for_interests
from tidings.cli.demo.stage import Stage
from tidings.cli.demo.theme import Theme
from tidings.client import connect
from tidings.errors import TidingsError

VICTIM, FEEDERS = "frankfurt", ("london", "newyork")
PAUSE_S, DOWN_S, WAIT_S = 0.01, 1.5, 60.0


@dataclass(slots=True)
class Record:
    """Times are seconds since the first trade."""

    began: float = field(default_factory=time.monotonic)
    published: dict[int, float] = field(default_factory=dict)  # when its receipt came, by number
    received: Counter[int] = field(default_factory=Counter)
    arrivals: list[float] = field(default_factory=list)
    killed: float = 0.0
    restarted: float = 0.0

    def now(self) -> float:
        return time.monotonic() - self.began


def kill_and_recover(stage: Stage) -> None:
    record = asyncio.run(_recover(stage))
    lost = [number for number in record.published if not record.received[number]]
    again = sum(record.received.values()) - len(record.received)
    after = [at for at in record.arrivals if at > record.restarted]
    back = after[0] - record.restarted if after else 0.0
    stage.tell(
        f"killed {VICTIM} after {record.killed:.1f} s, started it again at {record.restarted:.1f} s; "
        f"{back:.1f} s later the first trade arrived"
    )
    stage.tell(f"{len(record.published)} persistent trades, {len(lost)} lost, {again} delivered twice")
    if lost:
        raise TidingsError("E_DEMO_LOST", f"{len(lost)} trades with a receipt did not arrive: {lost[:10]}")
    found = (
        f"{len(record.published)} persistent trades, 0 lost, {again} twice; first one {back:.1f} s after the restart"
    )
    stage.find(f"kill -9 of {VICTIM}", found)
    stage.highlight("0 lost", f"of {len(record.published)} persistent trades, while a broker was killed and came back")
    twice = f"{again} came twice" if again else "None came twice"
    texts = [
        f"An auditor at {TITLES[VICTIM]} has a durable subscription to trades. London and New York publish them; each "
        f"is on a disk there before it counts as published. {TITLES[VICTIM]}'s broker was killed without warning "
        f"(kill -9) after {record.killed:.1f} s and started again {record.restarted - record.killed:.1f} s later; the "
        f"first trade came {back:.1f} s after that.",
        f"All {len(record.published)} trades arrived. {twice}: a trade is delivered again, and marked so, if the "
        "broker was killed between its delivery and the acknowledgement's way to the disk.",
    ]
    caption = "Trades published and received, as they add up. While the broker is down, trades wait at the other sites."
    picture = stage.picture("recovery", lambda theme: draw(record, theme), caption)
    stage.section("A broker is killed, and nothing is lost", texts, picture)


async def _recover(stage: Stage) -> Record:
    async with connect(stage.url(VICTIM), client_id="auditor", give_up_seconds=WAIT_S) as auditor:
        audit = await auditor.subscribe("trades.>", durable="audit", ack="client")
        await asyncio.to_thread(wait_for_interests, stage.network, {VICTIM})
        record = Record()
        numbers = iter(range(stage.scale.trades))
        async with asyncio.TaskGroup() as group:
            for site in FEEDERS:
                group.create_task(publish(stage.url(site), numbers, record))
            group.create_task(fail(stage, record))
            while len(record.received) < stage.scale.trades:
                delivery = await audit.receive(WAIT_S)
                if delivery is None:
                    break
                record.received[int(delivery.properties["trade"])] += 1
                record.arrivals.append(record.now())
                await delivery.ack()
        return record


async def publish(url: str, numbers: Iterator[int], record: Record) -> None:
    """Trades, one after the other; each has its receipt before the next."""
    async with connect(url) as client:
        for number in numbers:
            await client.publish("trades.all", {"trade": number}, persistent=True)
            record.published[number] = record.now()
            await asyncio.sleep(PAUSE_S)


async def fail(stage: Stage, record: Record) -> None:
    """Kill the broker when a third of the trades is published, and start it again while they go on."""
    while len(record.published) < stage.scale.trades / 3:
        await asyncio.sleep(0.02)
    record.killed = record.now()
    await asyncio.to_thread(stage.network.stop, VICTIM, kill=True)
    await asyncio.sleep(DOWN_S)
    record.restarted = record.now()
    await asyncio.to_thread(stage.network.start, VICTIM)


def draw(record: Record, theme: Theme) -> Figure:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for label, times in (("published", sorted(record.published.values())), ("received", record.arrivals)):
        axes.step(times, range(1, len(times) + 1), where="post", label=label)
    axes.axvspan(record.killed, record.restarted, color=theme.alarm, alpha=0.18, linewidth=0, label="broker down")
    axes.set(xlabel="seconds", ylabel="trades")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
