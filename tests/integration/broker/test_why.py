"""`trace --why`: every way in which a subscriber does not get a message is told apart."""

import asyncio
from pathlib import Path

import pytest

from tidings.client import Client, connect
from tidings.errors import TidingsError
from tidings.model.message_id import MessageId
from tidings.testing.broker_process import BrokerProcess
from tidings.tracking.query.path import WhyNot

SLOW = """
[limits]
sink_bytes_max = 65536
"""


async def codes(client: Client, message: MessageId, why: str | WhyNot) -> dict[str, str]:
    path = await client.trace(message, why=why)
    return {one.reason.code: one.reason.detail for one in path.reasons}


async def tell(url: str) -> None:
    async with connect(url, client_id="till") as till, connect(url, client_id="audit") as audit:
        early = await till.publish("sales.north", {"price": 5}, wait=True)
        await asyncio.sleep(1.2)  # further apart than clocks may be
        dear = await audit.subscribe("sales.>", selector="kind = 'a' AND price > 10")
        cheap = await till.publish("sales.north", {"price": 5, "kind": "a"}, wait=True)
        sold = await till.publish("sales.north", {"price": 50, "kind": "a"}, wait=True)
        assert await dear.receive(20) is not None
        found = await codes(till, cheap.message_id, WhyNot("audit", "sales.north", {"price": 5, "kind": "a"}))
        assert found == {
            "selector": "'price > 10' at position 15 is false (price = 5) of \"kind = 'a' AND price > 10\""
        }
        assert "delivered" in await codes(till, sold.message_id, "audit")
        assert "not-attached" in await codes(till, early.message_id, "audit")
        other = await codes(till, cheap.message_id, WhyNot("audit", "news"))
        assert other == {"destination": "sales.>"}
        assert await codes(till, cheap.message_id, "nobody") == {}
        with pytest.raises(TidingsError, match="destination"):
            await till.trace(cheap.message_id, why=WhyNot("audit", attributes={"price": 5}))


async def wait_and_die(url: str) -> None:
    async with connect(url, client_id="till") as till:
        waits = await till.publish("queue:jobs", {"n": 1}, wait=True)
        assert "in queue:jobs, behind 0 others" in (await codes(till, waits.message_id, "queue:jobs"))["waits"]
        late = await till.publish("queue:jobs", {"n": 2}, wait=True, expires_in=0.2)
        dead = await till.publish("queue:jobs", {"n": 3}, priority=9, wait=True)
        jobs = await till.subscribe("queue:jobs", selector="n = 3", ack="client")
        job = await jobs.receive(20)
        assert job is not None
        assert job.message_id == dead.message_id
        assert "has not acknowledged" in (await codes(till, dead.message_id, "queue:jobs"))["waits"]
        await job.reject()
        for message, code in ((dead, "buried"), (late, "expired")):
            async with asyncio.timeout(30):
                while code not in (found := await codes(till, message.message_id, "queue:jobs")):
                    await asyncio.sleep(0.05)
            assert "waits" not in found
        assert "rejected by its consumer" in (await codes(till, dead.message_id, "queue:jobs"))["dead-letter"]


def test_reasons_of_subscriptions_and_queues(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        asyncio.run(tell(broker.url))
        asyncio.run(wait_and_die(broker.url))


async def lose(url: str) -> MessageId:
    async with connect(url, client_id="till") as till, connect(url, client_id="slow") as slow:
        await slow.subscribe("ticks", policy="drop-oldest", window=1)
        first = await till.publish("ticks", {}, b"x" * 20_000, wait=True)
        sent = [await till.publish("ticks", {}, b"x" * 20_000, wait=True) for _ in range(20)]
        assert "delivered" in await codes(till, first.message_id, "slow")
        found = [await codes(till, one.message_id, "slow") for one in sent]
        lost = [one.message_id for one, why in zip(sent, found, strict=True) if "dropped" in why]
        assert lost
        assert not any("dropped" in why and "delivered" in why for why in found)
        return lost[0]


def test_what_a_policy_dropped_is_told_after_a_restart_too(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SLOW) as broker:
        lost = asyncio.run(lose(broker.url))
        assert broker.stop() == 0

    async def ask(url: str) -> dict[str, str]:
        async with connect(url) as client:
            return await codes(client, lost, "slow")

    with BrokerProcess(tmp_path, SLOW) as broker:
        assert "dropped" in asyncio.run(ask(broker.url))
