"""Market data: one feed, many who want a little of it.

A feed publishes quotes of a few stocks. A trader, a risk desk and an auditor subscribe, each with a selector: the
broker does the choosing, and nobody receives what they would throw away. What the auditor wants is kept on disk.

Run it with a broker running: python examples/market_data.py tidings://127.0.0.1:7300
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import tidings

QUOTES = 2000
STOCKS = {"ABC": 95.0, "DEF": 40.0, "GHI": 12.0, "XYZ": 120.0}
# Who wants what. `change` is relative to the quote before.
WANTED = {
    "trader": "stock = 'XYZ' AND price > 121",
    "risk desk": "change < -0.018 AND volume >= 500",
    "small caps": "price BETWEEN 10 AND 50 AND stock <> 'GHI'",
}


@dataclass(frozen=True)
class Quote:
    stock: str
    price: float
    change: float
    volume: int

    @property
    def topic(self) -> str:
        return f"quotes.{self.stock.lower()}"

    @property
    def properties(self) -> dict[str, str | float | int]:
        return {"stock": self.stock, "price": self.price, "change": self.change, "volume": self.volume}


def quotes(count: int, seed: int) -> Iterator[Quote]:
    """Prices that wander."""
    rng, prices = random.Random(seed), dict(STOCKS)
    for _ in range(count):
        stock = rng.choice(sorted(prices))
        change = rng.uniform(-0.02, 0.02)
        prices[stock] *= 1 + change
        yield Quote(stock, round(prices[stock], 2), round(change, 4), 100 * rng.randint(1, 10))


async def count_all(subscription: tidings.Subscription) -> int:
    """Messages until the one that says the day is over; how many there were before it."""
    count = 0
    async for message in subscription:
        if message.properties.get("closing"):
            return count
        count += 1
    raise RuntimeError("the connection ended before the day did")


async def trade(url: str) -> dict[str, int]:
    """How many quotes each subscriber got."""
    async with tidings.connect(url, client_id="feed") as feed, tidings.connect(url, client_id="auditor") as auditor:
        async with tidings.connect(url, client_id="desks") as desks:
            # Everybody also wants to hear of the end of the day, which is an attribute like any other.
            desk = {
                name: asyncio.create_task(
                    count_all(await desks.subscribe("quotes.>", selector=f"({wanted}) OR closing = TRUE"))
                )
                for name, wanted in WANTED.items()
            }
            # Durable: the broker goes on collecting while the auditor is away.
            audit = await auditor.subscribe("quotes.>", selector="volume = 1000", durable="large trades", ack="client")
            await audit.close()
            for quote in quotes(QUOTES, seed=1):
                await feed.publish(quote.topic, quote.properties, persistent=quote.volume == 1000, wait=False)
            await feed.publish("quotes.end", {"closing": True, "volume": 1000}, persistent=True)
            received = {name: await task for name, task in desk.items()}
        received["auditor"] = await read_audit(auditor)
        return received


async def read_audit(auditor: tidings.Client) -> int:
    """What was collected while the auditor was away; each message is acknowledged, so none comes again."""
    audit = await auditor.subscribe("quotes.>", selector="volume = 1000", durable="large trades", ack="client")
    count = 0
    async for message in audit:
        await message.ack()
        if message.properties.get("closing"):
            await audit.close()
            await auditor.forget("large trades")
            return count
        count += 1
    raise RuntimeError("the connection ended before everything was read")


def expected() -> Counter[str]:
    """The same by hand: what a selector says of each quote, without a broker."""
    wanted = {name: tidings.Selector(text) for name, text in (WANTED | {"auditor": "volume = 1000"}).items()}
    return Counter(
        name for quote in quotes(QUOTES, seed=1) for name, one in wanted.items() if one.matches(quote.properties)
    )


def main(url: str = "tidings://127.0.0.1:7300") -> None:
    received = asyncio.run(trade(url))
    print(f"{QUOTES} quotes were published")
    for name, count in received.items():
        print(f"{name:>10} got {count:4}, {count / QUOTES:6.1%}: {(WANTED | {'auditor': 'volume = 1000'})[name]}")
    if received != expected():
        sys.exit(f"but by their selectors they should have got {dict(expected())}")


if __name__ == "__main__":
    main(*sys.argv[1:])
