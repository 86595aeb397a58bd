"""What administrators do by the native protocol: create and delete queues, end connections."""

import asyncio

import pytest

from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users, add
from tidings.client import connect
from tidings.errors import RemoteError, SecurityError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.testing.local_broker import local_broker, run


def test_queues_are_created_and_deleted() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client, connect(here.url) as other:
            orders = client.queue("queue:orders")
            assert [await orders.create(), await orders.create()] == [True, False]
            assert (await client.inspect("mailboxes"))["items"][0]["name"] == "queue:orders"
            assert await orders.delete() == 0
            assert (await client.inspect("mailboxes"))["total"] == 0
            with pytest.raises(RemoteError, match="E_QUEUE_UNKNOWN"):
                await orders.delete()
            await client.publish("queue:orders", wait=True)
            with pytest.raises(RemoteError, match="E_QUEUE_NOT_EMPTY"):
                await orders.delete()
            taking = await other.subscribe("queue:orders", ack="client")
            await taking.receive()
            with pytest.raises(RemoteError, match="E_QUEUE_BUSY"):
                await orders.delete()
            assert await orders.delete(force=True) == 1

    run(check())


def test_a_connection_is_ended_by_those_who_may() -> None:
    rules = AccessRules((Rule("root", DestinationPattern.parse(">"), frozenset({"manage"})),))
    users = Users({})
    for name in ("root", "alice"):
        users = add(users, name, "pw", frozenset(), cost=Cost(n=2, r=1, p=1))

    async def check() -> None:
        guard = UserGuard(users, rules, BrokerLimits())
        async with (
            local_broker(guard=guard) as here,
            connect(here.url, user="root", password="pw") as root,
            connect(here.url, user="alice", password="pw", reconnect=False) as alice,
        ):
            found = {one["user"]: one["connection"] for one in (await root.inspect("connections"))["items"]}
            with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                await alice.end_connection(found["root"])
            with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                await alice.queue("queue:a").create()
            with pytest.raises(RemoteError, match="E_CONNECTION_UNKNOWN"):
                await root.end_connection(10_000)
            await root.end_connection(found["alice"])
            while (await root.inspect("connections"))["total"] > 1:
                await asyncio.sleep(0.01)
            assert [one["user"] for one in (await root.inspect("connections"))["items"]] == ["root"]

    run(check())
