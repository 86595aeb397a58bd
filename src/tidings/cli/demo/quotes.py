"""The simulated market: stock prices at three exchanges, and desks that each subscribe to a small part of them."""

import random
from collections.abc import Iterator

import numpy as np

from tidings.cli.demo.stage import Desk
from tidings.kernel.codec import MessageBatch
from tidings.matching.indexed import IndexedMatcher
from tidings.model.codec import encode_message, encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.clients.subscription_plan import predicate_of

PATTERN = "quotes.>"
EXCHANGES = {"london": "LSE", "newyork": "NYSE", "tokyo": "TSE"}  # where quotes are published
STOCKS = {
    "LSE": ("AZN", "BP", "HSBA", "RIO", "SHEL", "VOD"),
    "NYSE": ("BA", "GE", "IBM", "JPM", "KO", "XOM"),
    "TSE": ("6501", "6758", "7203", "8306", "9432", "9984"),
}


def feed(exchange: str, seed: int) -> Iterator[tuple[str, dict[str, Value]]]:
    """Topics and attributes of quotes, without end; prices wander."""
    rng = random.Random(f"{exchange} {seed}")
    prices = {stock: rng.uniform(20, 200) for stock in STOCKS[exchange]}
    while True:
        stock = rng.choice(STOCKS[exchange])
        change = rng.gauss(0, 0.01)
        prices[stock] *= 1 + change
        about: dict[str, Value] = {
            "exchange": exchange,
            "stock": stock,
            "price": round(prices[stock], 2),
            "change": round(change, 4),
            "volume": 100 * rng.randint(1, 100),
        }
        yield f"quotes.{exchange.lower()}.{stock.lower()}", about


def desks(sites: list[str], each: int) -> list[Desk]:
    """This number of desks at each site, each with a selector of its own."""
    rng = random.Random(1)
    return [
        Desk(site, f"{site}-desk-{number}", selector(rng, number, EXCHANGES.get(site, "LSE")))
        for site in sites
        for number in range(1, each + 1)
    ]


def selector(rng: random.Random, number: int, home: str) -> str:
    """Most desks look at the exchange next door, every fourth at another one."""
    exchange = rng.choice([one for one in sorted(STOCKS) if one != home]) if number % 4 == 2 else home
    stocks = rng.sample(STOCKS[exchange], 2)
    match number % 4:
        case 0:
            return f"exchange = '{exchange}' AND volume > {100 * rng.randint(80, 95)}"
        case 1:
            return "stock IN ({}) AND volume >= 5000".format(", ".join(f"'{stock}'" for stock in stocks))
        case 2:
            return f"stock = '{stocks[0]}' AND price > {rng.randint(20, 60)}"
        case _:
            return f"exchange = '{exchange}' AND (change < -0.02 OR change > 0.02)"


def encoded_predicate(desk: Desk) -> bytes:
    return encode_predicate(predicate_of(DestinationPattern.parse(PATTERN), Selector(desk.selector)))


def matches(messages: list[Message], desks: list[Desk]) -> tuple[list[int], list[list[int]]]:
    """By desk: how many messages it should get. By message: which desks want it."""
    matcher = IndexedMatcher()
    predicates = [encoded_predicate(desk) for desk in desks]
    ends = np.cumsum([len(one) for one in predicates], dtype=np.uint64)
    matcher.add_many(np.arange(len(desks), dtype=np.uint32), b"".join(predicates), ends)
    encoded = map(encode_message, messages)
    batch = MessageBatch.from_messages(
        b"".join(part for one in encoded for part in (len(one).to_bytes(4, "little"), one)),
        derived=matcher.derived_mask,
    )
    offsets, found = matcher.match(batch)
    by_message = [part.tolist() for part in np.split(found, offsets[1:-1])] if messages else []
    return np.bincount(found, minlength=len(desks)).tolist(), by_message
