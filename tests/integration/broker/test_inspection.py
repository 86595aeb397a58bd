"""INSPECT over real sockets: what a broker tells, to whom, and that its lists come by pages."""

from pathlib import Path

import pytest
from hardening.support.links import BrokerNetwork, eventually
from hardening.support.raw_connection import RawConnection

from tidings.broker.inspection import PAGE, PAGE_MAX, TEXT_MAX
from tidings.broker.security import users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.client import connect
from tidings.delivery.policy import QueuePolicy
from tidings.errors import RemoteError, SecurityError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings
from tidings.protocols.native.frames import FrameType, control
from tidings.testing.local_broker import local_broker, run


def test_the_overview_counts_what_happened() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            ticks = await client.subscribe("ticks.>", selector="price > 20")
            for price in (10, 30, 50):
                await client.publish("ticks.a", {"price": price})
            await client.publish("queue:work", persistent=True)
            for _ in range(2):
                await ticks.receive()
            seen = await client.inspect()
            assert (seen["version"], seen["part"], seen["broker"]["name"]) == (1, "overview", "tidings")
            assert (seen["plane"]["received"], seen["plane"]["unmatched"], seen["waiting"]) == (4, 1, 1)
            assert (seen["connections"], seen["network"], seen["capacity"]) == (1, {}, {})

    run(check())


def test_subscriptions_show_selector_owner_and_what_they_got() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url, client_id="reader") as client:
            ticks = await client.subscribe("ticks.>", selector="price > 20")
            await client.subscribe("queue:work", selector="big = TRUE")
            await client.subscribe("long", selector="a = '" + "x" * 1000 + "'")
            await client.publish("ticks.a", {"price": 30})
            await ticks.receive()
            seen = await client.inspect("subscriptions")
            direct, queue, long = seen["items"]
            assert (direct["destination"], direct["selector"], direct["delivered"]) == ("ticks.>", "price > 20", 1)
            assert (direct["client"], direct["kind"], queue["kind"]) == ("reader", "direct", "queue")
            assert queue["selector"] == "big = TRUE"
            assert len(long["selector"]) == TEXT_MAX
            found = await client.inspect("subscriptions", containing="price")
            assert (found["total"], [one["destination"] for one in found["items"]]) == (1, ["ticks.>"])
            assert (await client.inspect("subscriptions", containing="reader"))["total"] == 3
            (mailbox,) = (await client.inspect("mailboxes"))["items"]
            assert (mailbox["name"], mailbox["consumers"]) == ("queue:work", 1)
            names = {
                one["destination"]: one["subscriptions"] for one in (await client.inspect("destinations"))["items"]
            }
            assert names == {"ticks.>": 1, "queue:work": 1, "long": 1}

    run(check())


def test_policies_users_rules_and_quotas_are_listed() -> None:
    rules = AccessRules(
        (
            Rule("root", DestinationPattern.parse(">"), frozenset({"manage"})),
            Rule("", DestinationPattern.parse("a.>"), frozenset({"publish"}), False, "x = 1", group="ops"),
        )
    )
    known = users.add(Users({}), "root", "pw", frozenset({"ops"}), Cost(n=2, r=1, p=1))
    guard = UserGuard(known, rules, BrokerLimits())
    policies = (QueuePolicy(DestinationPattern.parse("queue:a"), messages_max=7),)

    async def check() -> None:
        async with (
            local_broker(guard=guard, settings=NodeSettings(policies=policies)) as here,
            connect(here.url, user="root", password="pw") as client,
        ):
            (policy,) = (await client.inspect("policies"))["items"]
            assert (policy["destination"], policy["messages_max"], policy["queues"]) == ("queue:a", 7, 0)
            (user,) = (await client.inspect("users", containing="ops"))["items"]
            assert user == {"name": "root", "groups": ["ops"], "password": True}
            first, second = (await client.inspect("access"))["items"]
            assert (first["number"], first["user"], first["allow"], first["operations"]) == (
                1,
                "root",
                True,
                ["manage"],
            )
            assert (second["group"], second["allow"], second["selector"]) == ("ops", False, "x = 1")
            assert (await client.inspect("quotas"))["items"] == []

    run(check())


def test_traffic_by_destination_is_counted_once_somebody_asks() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            await client.subscribe("ticks.>")
            await client.publish("ticks.a", wait=True)
            assert (await client.inspect("traffic"))["items"] == []
            for name in ("ticks.a", "ticks.b", "ticks.b", "nobody", "queue:work"):
                await client.publish(name, wait=True)
            async with client.transaction() as session:  # Python delivers these, not the forwarding plane
                await session.publish("ticks.b")
                await session.commit()
            seen = await client.inspect("traffic")
            counts = {one["destination"]: (one["in"], one["out"]) for one in seen["items"]}
            expected = {"topic:ticks.b": (3, 3), "topic:ticks.a": (1, 1), "topic:nobody": (1, 0)}
            assert counts.pop("queue:work")[0] == 1
            assert counts == expected
            assert seen["items"][0]["destination"] == "topic:ticks.b", "the busiest comes first"
            assert (await client.inspect("traffic", containing="nob"))["total"] == 1

    run(check())


def test_lists_come_by_pages() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            for number in range(250):
                await client.subscribe(f"t.{number}")
            first = await client.inspect("subscriptions")
            rest = await client.inspect("subscriptions", offset=PAGE, count=10_000)
            assert (first["total"], len(first["items"]), len(rest["items"])) == (250, PAGE, 250 - PAGE)
            assert PAGE_MAX >= 250 - PAGE
            names = [one["destination"] for one in first["items"] + rest["items"]]
            assert names == [f"t.{number}" for number in range(250)]
            assert (await client.inspect("subscriptions", offset=900))["items"] == []

    run(check())


def test_names_are_whole_and_can_be_used() -> None:
    async def check() -> None:
        async with local_broker() as here, connect(here.url) as client:
            queues = [f"queue:{'x' * 1023}{last}" for last in "ab"]
            for queue in queues:
                await client.publish(queue, persistent=True)
                await client.subscribe(queue)
            mailboxes = (await client.inspect("mailboxes"))["items"]
            assert sorted(one["name"] for one in mailboxes) == queues
            for part in ("subscriptions", "destinations"):
                assert sorted(one["destination"] for one in (await client.inspect(part))["items"]) == queues
            await client.inspect("traffic")  # counted from now on
            await client.publish(queues[0], persistent=True)
            assert [one["destination"] for one in (await client.inspect("traffic"))["items"]] == queues[:1]

    run(check())


def test_a_page_is_as_long_as_a_frame() -> None:
    async def check() -> None:
        limits = BrokerLimits(frame_bytes_max=1 << 16)
        async with local_broker(limits=limits) as here, connect(here.url) as client:
            names = [f"{number}." + '"' * 1000 for number in range(150)]
            for name in names:
                await client.subscribe(name)
            found: list[str] = []
            while len(found) < len(names):
                page = await client.inspect("subscriptions", offset=len(found), count=PAGE_MAX)
                assert (page["total"], 0 < len(page["items"]) < 50) == (150, True)
                found += [one["destination"] for one in page["items"]]
            assert found == names

    run(check())


def test_a_client_that_does_not_read_is_slow() -> None:
    async def check() -> None:
        limits = BrokerLimits(output_bytes_max=1 << 16, stall_ms=100)
        async with local_broker(limits=limits) as here, connect(here.url, client_id="me") as client:
            lazy = await RawConnection.open(here.url, receive_bytes=4096)
            await lazy.greet()
            await lazy.send(control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": "t"}))

            async def slow() -> bool:
                await client.publish("t", body=bytes(50_000), wait=False)
                items = (await client.inspect("connections"))["items"]
                return {one["client"]: one["slow"] for one in items} == {"": True, "me": False}

            await eventually(slow, 60)
            lazy.writer.close()

    run(check())


def test_links_and_routes_are_told(tmp_path: Path) -> None:
    async def check() -> None:
        async with (
            BrokerNetwork(tmp_path, [(1, 2), (2, 3)]) as network,
            connect(network.url(1)) as client,
            connect(network.url(3)) as far,
        ):
            ticks = await far.subscribe("ticks.a")
            await eventually(network.known)
            for name in ("ticks.a", "nobody"):
                await client.publish(name, wait=True)
            assert await ticks.receive(60) is not None
            plane = (await client.inspect())["plane"]
            assert (plane["received"], plane["unmatched"]) == (2, 1), "what others want is not what nobody wants"
            seen = await client.inspect()
            assert seen["network"]["links"]["2"]["state"] == "up"
            assert seen["network"]["links"]["2"]["sent_bytes"] > 0
            assert seen["links_down"] == []
            routes = {one["router"]: one for one in (await client.inspect("routing"))["items"]}
            assert (routes[3]["next_hop"], routes[3]["interests"]) == (2, 1)
            await network.stop(2)

            async def told() -> bool:
                return bool((await client.inspect())["links_down"] == [2])

            await eventually(told)

    run(check())


def test_only_who_may_manage_everything_may_inspect() -> None:
    async def check() -> None:
        known = Users({})
        for name in ("boss", "guest"):
            known = users.add(known, name, "password", frozenset(), Cost(n=2, r=1, p=1))
        rules = AccessRules((Rule("boss", DestinationPattern.parse(">"), frozenset({"manage"})),))
        async with local_broker(guard=UserGuard(known, rules, BrokerLimits())) as here:
            async with connect(here.url, user="boss", password="password") as boss:
                assert (await boss.inspect())["connections"] == 1
                with pytest.raises(RemoteError, match="E_INSPECT"):
                    await boss.inspect("weather")
            async with connect(here.url, user="guest", password="password") as guest:
                with pytest.raises(SecurityError, match="E_FORBIDDEN"):
                    await guest.inspect()
                assert guest.connected

    run(check())
