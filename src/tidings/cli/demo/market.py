"""A trading day: quotes are published at three sites, desks at all four receive what they want; rates as it goes on."""

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from matplotlib.figure import Figure
from rich.live import Live
from rich.table import Table

from tidings.cli.demo import quotes
from tidings.cli.demo.site_map import TITLES
from tidings.cli.demo.sites import wait_for_interests
from tidings.cli.demo.stage import Desk, Stage
from tidings.client import connect
from tidings.client.client import Client
from tidings.client.subscription import Subscription
from tidings.errors import TidingsError
from tidings.model.destination import Destination
from tidings.model.message import Message

BURST_S, LOOK_S, WAIT_S = 0.02, 0.5, 30.0
COUNTED = ("published", "delivered", "copies")


@dataclass(slots=True)
class Meter:
    """Differences of the brokers' counters between two readings."""

    times: list[float] = field(default_factory=list)
    counts: list[dict[str, dict[str, int]]] = field(default_factory=list)
    whole: int = 0  # looks between which quotes were published all the time

    def look(self, stage: Stage) -> None:
        found = {}
        for site, one in stage.network.status().items():
            if one["sees"] is not None:
                plane, network = one["sees"]["plane"], one["sees"]["counts"]
                found[site] = dict(
                    zip(COUNTED, (plane["received"], plane["delivered"], network["copies"]), strict=True)
                )
        self.times.append(time.monotonic())
        self.counts.append(found)

    def rate(self, site: str, what: str, since: int, until: int) -> float:
        """A second, between two looks."""
        before, after = self.counts[since].get(site), self.counts[until].get(site)
        if before is None or after is None or since == until:
            return 0.0
        return (after[what] - before[what]) / (self.times[until] - self.times[since])

    def table(self, sites: list[str], since: int, title: str) -> Table:
        """Rates from a look to the latest one."""
        table = Table("site", "published/s", "delivered/s", "copies sent on/s", "delivered so far", title=title)
        last = len(self.counts) - 1
        for site in sites:
            rates = (f"{self.rate(site, what, max(0, since), last):,.0f}" for what in COUNTED)
            table.add_row(site, *rates, f"{self.counts[-1].get(site, {}).get('delivered', 0):,}")
        return table


def trade(stage: Stage) -> None:
    stage.desks = quotes.desks(list(stage.network.members), stage.scale.desks)
    meter = Meter()
    asyncio.run(_trade(stage, meter))
    expected, _ = quotes.matches(stage.published, stage.desks)
    show_desks(stage, expected)
    published, delivered = len(stage.published), sum(desk.received for desk in stage.desks)
    copies = sum(one["copies"] for one in meter.counts[-1].values())
    stage.find("market data", f"{published:,} quotes, {delivered:,} deliveries to {len(stage.desks)} desks, none amiss")
    share = copies / max(1, published * (len(stage.network.members) - 1))
    stage.find("content-based routing", f"{copies:,} copies between sites, {share:.0%} of what flooding would send")
    stage.highlight(f"{delivered:,}", f"deliveries of {published:,} quotes: each to exactly the desks that want it")
    stage.highlight(f"{share:.0%}", "of the copies between sites that sending everything everywhere would take")
    texts = [
        f"Three exchanges publish {published:,} quotes. {len(stage.desks)} desks at four sites have selectors, such as "
        f"{stage.desks[0].selector}. What each desk should get was computed apart, from the selectors alone: all got "
        "that, and nothing else.",
        f"{copies:,} copies went over links, {share:.0%} of what flooding would send: a quote goes to a site only if "
        "somebody there wants it.",
    ]
    caption = f"Deliveries a second to the desks of each site, in steps of {LOOK_S:g} s, while quotes are published."
    sites = list(stage.network.members)
    picture = stage.picture("rates", lambda _: draw(meter, sites), caption)
    stage.section("Every desk got what its selector says", texts, picture)
    wrong = [
        f"{desk.name} got {desk.received}, not {n}"
        for desk, n in zip(stage.desks, expected, strict=True)
        if desk.received != n
    ]
    if wrong:
        raise TidingsError("E_DEMO_DELIVERY", f"some desks did not receive the expected messages: {'; '.join(wrong)}")


async def _trade(stage: Stage, meter: Meter) -> None:
    async with AsyncExitStack() as stack:
        listeners = await subscribe(stage, stack)
        await asyncio.to_thread(wait_for_interests, stage.network, set(stage.network.members))
        feeds = [
            asyncio.create_task(publish(stage, await stack.enter_async_context(connect(stage.url(site))), exchange))
            for site, exchange in quotes.EXCHANGES.items()
        ]
        with Live(console=stage.console, refresh_per_second=4) as live:
            while not all(one.done() for one in feeds):
                await asyncio.to_thread(meter.look, stage)
                live.update(meter.table(list(stage.network.members), len(meter.counts) - 2, "now"))
                if not any(one.done() for one in feeds):
                    meter.whole = len(meter.times)
                await asyncio.sleep(LOOK_S)
            for one in feeds:
                one.result()
            await arrived(stage)
            await asyncio.to_thread(meter.look, stage)
            live.update(meter.table(list(stage.network.members), 0, "on average"))
        if not stage.console.is_terminal:
            stage.tell("")  # there it ends without a line feed
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)


async def subscribe(stage: Stage, stack: AsyncExitStack) -> list[asyncio.Task[None]]:
    """One connection a desk; tasks that count."""
    tasks = []
    for desk in stage.desks:
        client = await stack.enter_async_context(connect(stage.url(desk.site), client_id=desk.name))
        subscription = await client.subscribe(quotes.PATTERN, selector=desk.selector, window=10_000)
        tasks.append(asyncio.create_task(count(desk, subscription)))
    return tasks


async def count(desk: Desk, subscription: Subscription) -> None:
    async for _ in subscription:
        desk.received += 1


async def publish(stage: Stage, client: Client, exchange: str) -> None:
    """Quotes at a steady rate, until the day is over."""
    rate = stage.scale.quotes_per_s / len(quotes.EXCHANGES)
    feed, began, sent = quotes.feed(exchange, seed=1), time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < stage.scale.seconds:
        while sent < elapsed * rate:
            topic, about = next(feed)
            receipt = await client.publish(topic, about)
            stage.published.append(Message(Destination.parse(topic), about, b"", id=receipt.message_id))
            sent += 1
        await asyncio.sleep(BURST_S)
    await client.publish(f"closed.{exchange.lower()}", {"exchange": exchange}, wait=True)  # the broker has all of them


async def arrived(stage: Stage) -> None:
    """Until everybody has what they want, or nothing comes any more."""
    expected_total = sum(quotes.matches(stage.published, stage.desks)[0])
    latest, changed = -1, time.monotonic()
    while (got := sum(desk.received for desk in stage.desks)) < expected_total and time.monotonic() - changed < WAIT_S:
        if got != latest:
            latest, changed = got, time.monotonic()
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.2)  # something that should not come would be here by now


def show_desks(stage: Stage, expected: list[int]) -> None:
    table = Table("desk", "selector", "received", "expected")
    for site in stage.network.members:
        for desk, matching in [pair for pair in zip(stage.desks, expected, strict=True) if pair[0].site == site][:2]:
            table.add_row(desk.name, desk.selector, f"{desk.received:,}", f"{matching:,}")
    table.caption = f"two of {stage.scale.desks} at each site"
    stage.console.print(table)


def draw(meter: Meter, sites: list[str]) -> Figure:
    """Steps between looks; the last, in which publishing ended, is not a whole one and left out."""
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    edges = [one - meter.times[0] for one in meter.times[: meter.whole]]
    for site in sites:
        rates = [meter.rate(site, "delivered", n - 1, n) for n in range(1, len(edges))]
        axes.stairs(rates, edges, baseline=None, linewidth=1.8, label=TITLES[site])
    axes.set(xlabel="seconds since the first quote", ylabel="deliveries a second")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(ncols=len(sites), loc="lower center")
    return figure
