"""Workflow triggers: what happens next follows from what happened.

Orders come in as messages. Rules with selectors decide which step each event triggers; steps wait in queues until a
worker takes them. A worker acknowledges its task and publishes what comes of it in one transaction: after a crash
neither is done twice nor forgotten. A task that fails again and again ends among the dead letters.

Run it with a broker running: python examples/workflow.py tidings://127.0.0.1:7300
"""

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass

import tidings

ORDERS, NOWHERE, SECONDS = 40, 7, 30.0  # order 7 has no address


@dataclass(frozen=True)
class Rule:
    """An event that matches is copied to a queue."""

    selector: str
    queue: str


# Orders above 1000 are checked by hand first; the others are paid at once. What is paid is shipped.
RULES = [
    Rule("event = 'ordered' AND total > 1000", "queue:checks"),
    Rule("(event = 'ordered' AND total <= 1000) OR event = 'checked'", "queue:payments"),
    Rule("event = 'paid'", "queue:shipments"),
]
# Which event a finished task of a queue is.
RESULT = {"queue:checks": "checked", "queue:payments": "paid", "queue:shipments": "shipped"}


async def trigger(client: tidings.Client, rule: Rule, ready: asyncio.Barrier) -> None:
    """Turn events into tasks, each in a transaction: the event is acknowledged if and only if the task is stored."""
    async with (
        client.transaction() as work,
        await work.subscribe("orders.>", selector=rule.selector, durable=rule.queue, ack="client") as events,
    ):
        await ready.wait()
        async for event in events:
            await work.publish(rule.queue, event.properties, persistent=True)
            await event.ack()
            await work.commit()


async def serve(client: tidings.Client, queue: str) -> None:
    """One worker: takes tasks, and says what came of them."""
    async with client.transaction() as work:
        tasks = await work.subscribe(queue, ack="client", window=4)
        async for task in tasks:
            if task.properties["address"] == "" and queue == "queue:shipments":
                await task.retry()  # perhaps another worker knows; after a few tries it becomes a dead letter
                continue
            done = {**task.properties, "event": RESULT[queue]}
            await work.publish(f"orders.{RESULT[queue]}", done, persistent=True)
            await task.ack()
            await work.commit()


async def order(shop: tidings.Client) -> None:
    for number in range(ORDERS):
        address = "" if number == NOWHERE else f"{number} High Street"
        about: dict[str, str | int] = {"event": "ordered", "order": number, "total": 100 * number, "address": address}
        await shop.publish("orders.ordered", about, persistent=True, wait=False)


async def watch(events: tidings.Subscription) -> Counter[str]:
    """Events by name, until every order that can be shipped is."""
    seen: Counter[str] = Counter()
    while seen["shipped"] < ORDERS - 1:
        event = await events.receive(SECONDS)
        if event is None:
            raise RuntimeError(f"nothing happened for {SECONDS} s; so far: {dict(seen)}")
        seen[str(event.properties["event"])] += 1
    return seen


async def run(url: str) -> tuple[Counter[str], str]:
    """Events by name, and why one order could not be shipped."""
    async with tidings.connect(url, client_id="shop") as shop, tidings.connect(url, client_id="workflow") as engine:
        events = await shop.subscribe("orders.>")
        ready = asyncio.Barrier(len(RULES) + 1)
        async with asyncio.TaskGroup() as group:  # if one of them fails, so does everything
            work = [group.create_task(trigger(engine, rule, ready)) for rule in RULES]
            work += [group.create_task(serve(engine, queue)) for queue in RESULT for _ in range(2)]
            await ready.wait()  # all rules are in force
            await order(shop)
            seen = await watch(events)
            cause = await dead_letter(shop)
            for task in work:
                task.cancel()
        for rule in RULES:  # leave nothing behind
            await engine.forget(rule.queue)
        return seen, cause


async def dead_letter(shop: tidings.Client) -> str:
    """Wait for the order that nobody can ship; why it was given up."""
    letters = await shop.subscribe("queue:dead-letters", selector=f"order = {NOWHERE}")
    letter = await letters.receive(SECONDS)
    if letter is None:
        raise RuntimeError("the order without an address is not among the dead letters")
    return str(letter.properties["JMSXDeathCause"])


def main(url: str = "tidings://127.0.0.1:7300") -> None:
    seen, cause = asyncio.run(run(url))
    for event, count in seen.items():
        print(f"{event:>8}: {count:3}")
    print(f"order {NOWHERE} has no address and is a dead letter now: {cause}")


if __name__ == "__main__":
    main(*sys.argv[1:])
