"""Attacks by messages: of the greatest size, with the most properties, and dear to match."""

import asyncio
from contextlib import suppress
from random import Random

from hardening.innocent.wire import Native, Target, message, publish, publish_until, stomp
from hardening.limits_table import STOMP_HEAD_BYTES_MAX, STOMP_HEADERS_MAX
from tidings.client import connect
from tidings.model.destination import NAME_BYTES_MAX
from tidings.model.message import PROPERTIES_MAX
from tidings.model.values import Value
from tidings.node.limits import BrokerLimits
from tidings.protocols.native.frames import FrameType

MEGABYTE = 1 << 20
FRAME_BYTES = BrokerLimits().frame_bytes_max
MIXED = "".join(Random(1).choices("abcdefgh", k=MEGABYTE))
LONG_RUN = "a_" * 2046


def _with_subscriptions(
    target: Target, destination: str, selectors: list[str], properties: dict[str, Value], body: bytes = b""
) -> None:
    reader = Native(target)
    for number, selector in enumerate(selectors, 1):
        reader.send([reader.subscribe(number, destination, selector=selector)])
    reader.wait(FrameType.OK, times=len(selectors))
    publish_until(target, Native(target), publish(message(destination, properties, body)))


def like(target: Target) -> None:
    """A pattern of 4096 characters and a property of 1 MiB."""
    _with_subscriptions(target, "like", [f"a LIKE '%{LONG_RUN}b%'"], {"a": "a" * MEGABYTE + "b"})


def negated_likes(target: Target) -> None:
    """2000 patterns that no index helps with, and a property of 1 MiB."""
    patterns = [f"NOT (a LIKE '%{'a_' * 31}{number}%')" for number in range(2000)]
    _with_subscriptions(target, "likes", patterns, {"a": "a" * MEGABYTE})


def substrings(target: Target) -> None:
    rng = Random(2)
    words = ["".join(rng.choices("abcdefgh", k=rng.randrange(1, 9))) for _ in range(5000)]
    _with_subscriptions(target, "words", [f"a LIKE '%{word}%'" for word in words], {"a": MIXED})


def programs(target: Target) -> None:
    """Selectors of 8,000 words and signs."""
    _with_subscriptions(target, "sums", [" + ".join(["b"] * 4000) + f" = {n}" for n in range(100)], {"b": 1})


def properties(target: Target) -> None:
    """As many properties as a message may have, 4000 of them with a filter."""
    filters = [f"p{number} = 'x'" for number in range(4000)]
    _with_subscriptions(target, "wide", filters, {f"p{number}": str(number) for number in range(PROPERTIES_MAX)})


def attribute_names(target: Target) -> None:
    names = [f"{number:a>255}" for number in range(1000)]
    _with_subscriptions(target, "names", [f"{name} > 1" for name in names], dict.fromkeys(names, 1))


def destinations(target: Target) -> None:
    """Names of the greatest length, of as many levels as fit, and patterns of wildcards for them."""
    name = ".".join("a" * (NAME_BYTES_MAX // 2))
    reader, rng = Native(target), Random(3)
    for number in range(1, 1001):
        pattern = ".".join(rng.choice("a*") for _ in range(NAME_BYTES_MAX // 2))
        reader.send([reader.subscribe(number, pattern)])
    reader.wait(FrameType.OK, times=1000)
    publish_until(target, Native(target), publish(message(name)), many=50)


def many_destinations(target: Target) -> None:
    """Publications to queues that come into being by them."""
    sender = Native(target)
    for number in range(0, 1 << 30, 200):
        if target.over:
            return
        sender.send(publish(message(f"topic:t.{n}.{'x' * 1000}")) for n in range(number, number + 200))
        sender.ask(FrameType.SYNC, {})


def large_frames(target: Target) -> None:
    """Messages as large as a frame may be, to three subscribers and a durable one."""
    encoded = message("large", {"n": 1}, bytes(FRAME_BYTES - 200), persistent=True)
    readers = [Native(target, client=f"large{number}") for number in range(3)]
    for reader in readers:
        reader.ask(FrameType.SUBSCRIBE, {"subscription": 1, "destination": "large", "policy": "drop-oldest"})
    durable = Native(target, client="kept")
    durable.ask(FrameType.SUBSCRIBE, {"subscription": 1, "destination": "large", "durable": "d"})
    sender, frame = Native(target), publish(encoded, receipt=1)
    while not target.over:
        sender.send([frame])
        for reader in readers:
            for kind, _ in reader.frames():
                if kind is FrameType.DELIVER:
                    break
        sender.wait(FrameType.RECEIPTS, FrameType.REFUSED)


def small_persistent(target: Target) -> None:
    """Persistent messages to a queue, as many as fit into a socket."""
    encoded = message("queue:flood", {"n": 1}, b"", persistent=True)
    publish_until(target, Native(target), publish(encoded, receipt=1), many=2000)


def small_for_many(target: Target) -> None:
    """Messages to a queue whose consumer acknowledges them one by one."""
    publish_until(target, Native(target), publish(message("nobody.wants.this", {"n": 1}), receipt=1), many=4000)


def stomp_headers(target: Target) -> None:
    """Frames with as many headers as there may be, and filters on them that read them as numbers."""
    reader = Native(target)
    for number in range(1, 501):
        reader.send([reader.subscribe(number, "st", selector=f"h{number} > 5")])
    reader.wait(FrameType.OK, times=500)
    headers = b"".join(b"h%d:%d\n" % (number, number % 10) for number in range(1, STOMP_HEADERS_MAX))
    _send(target, (b"SEND\ndestination:/topic/st\n" + headers + b"\n\0") * 20)


def stomp_bytes(target: Target) -> None:
    """One header of 60 kB, and a pattern of 4096 characters for it."""
    reader = Native(target)
    selector = f"h LIKE '%{LONG_RUN}b%'"
    reader.send([reader.subscribe(1, "st", selector=selector)])
    reader.wait(FrameType.OK)
    head = b"SEND\ndestination:/topic/st\nh:"
    _send(target, (head.ljust(STOMP_HEAD_BYTES_MAX - 3, b"a") + b"\n\n\0") * 20)


def _send(target: Target, block: bytes) -> None:
    sender = stomp(target)
    sender.settimeout(1)
    while not target.over:
        with suppress(TimeoutError):
            sender.sendall(block)


def stomp_small(target: Target) -> None:
    """Many small frames at once, some with a receipt."""
    _send(target, b"SEND\ndestination:/queue/st\npersistent:true\n\nx\0" * 2000)


def busy_program(target: Target) -> None:
    """The asynchronous client at its own limits: it publishes and subscribes as fast as it can."""

    async def run() -> None:
        async with connect(f"tidings://127.0.0.1:{target.ports['native']}") as client:
            own = await client.subscribe("own")

            async def read() -> None:
                async for _ in own:
                    pass

            reading = asyncio.create_task(read())
            while not target.over:
                await client.publish("own", {"n": 1}, bytes(200), wait=False)
                await client.publish("queue:own", {"n": 1}, bytes(200), persistent=True, wait=False)
            reading.cancel()

    asyncio.run(run())
