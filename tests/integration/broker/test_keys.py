"""Messages found by the value of an attribute, or by the trace id of their traceparent."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hardening.support.links import BrokerNetwork, eventually

from tidings.broker.tracking_thread import TrackingOptions
from tidings.client import Client, connect
from tidings.errors import RemoteError, UsageError
from tidings.model.message_id import MessageId
from tidings.store.sqlite.store import SqliteStore
from tidings.testing.local_broker import local_broker, run
from tidings.tracking.recording.recorder import TrackingSettings

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
KEYED = TrackingSettings(persist_ms=100, keys=("order_id", "traceparent"))


def test_messages_are_found_by_a_key_now_and_after_a_restart(tmp_path: Path) -> None:
    made: dict[str, MessageId] = {}

    async def publish(client: Client) -> None:
        for number in range(3000):
            receipt = await client.publish("orders.new", {"order_id": number % 1000, "price": 1.5})
            if number % 1000 == 41:
                made[f"plain {number}"] = receipt.message_id
        stored = await client.publish("orders.new", {"order_id": 41.0}, persistent=True)
        async with client.transaction() as transaction:
            committed = await transaction.publish("queue:orders", {"order_id": 41}, persistent=True)
        await client.publish("orders.new", {"order_id": "41"}, wait=True)  # a text is another value
        traced = await client.publish("orders.new", {"traceparent": PARENT}, wait=True)
        made.update({"stored": stored.message_id, "committed": committed.message_id, "traced": traced.message_id})
        await check(client)

    async def check(client: Client) -> None:
        found = await client.find_messages("order_id", 41)
        assert set(found.messages) == {id for name, id in made.items() if name != "traced"}
        assert not (found.more)
        assert not (found.unasked)
        assert not (found.unrecorded)
        assert len((await client.find_messages("order_id", "41")).messages) == 6
        newest = await client.find_messages("order_id", 41, count=2)
        assert newest.more
        assert newest.messages == found.messages[-2:]
        later = datetime.now(UTC) + timedelta(minutes=1)
        assert (await client.find_messages("order_id", 41, since=later)).messages == ()
        assert (await client.find_messages("traceparent", TRACE.upper())).messages == (made["traced"],)
        assert (await client.find_messages("traceparent", PARENT)).messages == (made["traced"],)
        assert (await client.find_messages("price", 1.5)).unrecorded
        with pytest.raises(UsageError, match="E_ARGUMENT"):
            await client.find_messages("order_id", 41, since=datetime(2025, 1, 1))  # noqa: DTZ001

    async def work() -> None:
        for life in (publish, check, check):
            options = TrackingOptions(KEYED, tmp_path / "tracking")
            store = SqliteStore(tmp_path / "store.db")
            async with local_broker(store, tracking=options) as (_, url), connect(url) as client:
                await life(client)

    run(work())
    assert (tmp_path / "tracking" / "keys" / "since").exists()


def test_any_broker_finds_what_was_published_at_another_and_names_those_that_do_not_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2), (2, 3)], tracking=KEYED) as network:
            await eventually(network.known)
            async with connect(network.url(3)) as far, connect(network.url(1)) as near:
                receipts = [await one.publish("orders", {"order_id": "A-1"}, wait=True) for one in (far, near)]
                found = await near.find_messages("order_id", "A-1")
                assert set(found.messages) == {receipt.message_id for receipt in receipts}
                other = await near.find_messages("customer", "A-1")
                assert (other.messages, other.unrecorded) == ((), (1, 2, 3))
                with pytest.raises(RemoteError, match="E_TRACE_KEY"):
                    await near.find_messages("order_id", "A-1", count=1001)

    run(work())
