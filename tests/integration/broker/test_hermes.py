"""Events of types between real brokers that arrange themselves (docs/hermes.md)."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from hardening.support.links import eventually
from hardening.support.pan_brokers import PanBrokers

from tidings.client import Client, Subscription, connect
from tidings.errors import TidingsError
from tidings.model.event_type import LEVELS_MAX
from tidings.routing.hermes import HermesOptions
from tidings.routing.hermes.messages import InterestKind

WAIT_S = 120.0


async def add_types(client: Client) -> None:
    await client.add_type("Trade", {"price": "int", "n": "int"})
    await client.add_type("Sale", {"buyer": "string"}, parent="Trade")
    await client.add_type("Auction", parent="Sale")
    await client.add_type("Weather", {"n": "int"})


class Listeners:
    """Subscriptions, and which events each was given, and how often."""

    def __init__(self) -> None:
        self.subscriptions: list[tuple[Subscription, list[int]]] = []

    async def add(self, client: Client, due: list[int], type: str, selector: str = "") -> None:
        self.subscriptions.append((await client.subscribe(type=type, selector=selector), due))
        self.got: list[Counter[int]] = []

    async def check(self) -> None:
        """Each gets what is due, and then for a while nothing more."""
        self.got = []
        for subscription, due in self.subscriptions:
            got: Counter[int] = Counter()
            while len(got) < len(due):
                delivery = await subscription.receive(WAIT_S)
                assert delivery is not None, f"{got} instead of {due}"
                got[int(delivery.properties["n"])] += 1
            self.got.append(got)
        await asyncio.sleep(0.5)  # only what is wrong comes now
        for (subscription, due), got in zip(self.subscriptions, self.got, strict=True):
            while (delivery := subscription.receive_nowait()) is not None:
                got[int(delivery.properties["n"])] += 1
            assert got == Counter(due)


def test_mixed_subscriptions_with_inheritance_get_every_event_once(tmp_path: Path) -> None:
    async def check() -> None:
        async with PanBrokers(tmp_path, "hermes") as network:
            await network.start(1, by=None)
            for router in range(2, 6):
                await network.start(router, by=router - 1)
            clients = {router: await connect(network.url(router)) for router in network.brokers}
            await eventually(network.known, WAIT_S)
            await add_types(clients[3])
            assert [one.name for one in await clients[5].get_type("Auction")] == ["Trade", "Sale", "Auction"]
            with pytest.raises(TidingsError, match="E_TYPE_UNKNOWN"):
                await clients[5].subscribe(type="Nothing")
            listeners = Listeners()
            for router in (1, 4):
                await listeners.add(clients[router], [1, 2, 3, 4], "Trade")
                await listeners.add(clients[router], [2, 3], "Sale")
                await listeners.add(clients[router], [3, 4], "Trade", "price > 25")
                await listeners.add(clients[router], [3], "Auction", "buyer = 'me' AND price > 10")
            await listeners.add(clients[5], [3], "Auction")
            await listeners.add(clients[5], [4], "Trade", "price = 40")
            publishers = {"Trade": clients[2], "Sale": clients[4], "Auction": clients[3]}
            for name, client in publishers.items():
                await client.advertise_type(name)
            await eventually(network.settled, WAIT_S)
            await publishers["Trade"].publish_event("Trade", {"price": 10, "n": 1})
            await publishers["Sale"].publish_event("Sale", {"price": 20, "n": 2, "buyer": "me"}, persistent=True)
            await publishers["Auction"].publish_event("Auction", {"price": 30, "n": 3, "buyer": "me"})
            await publishers["Trade"].publish_event("Trade", {"price": 40, "n": 4}, persistent=True)
            await listeners.check()
            with pytest.raises(TidingsError, match="E_TYPE_IN_USE: event type 'Auction' is subscribed to or adv"):
                await clients[3].remove_type("Auction")
            await clients[5].remove_type("Weather")
            for client in clients.values():
                await client.close()

    asyncio.run(check())


def test_a_persistent_event_outlives_the_restart_of_both_its_brokers(tmp_path: Path) -> None:
    """It is published while the subscriber's broker is away; then the publisher's broker restarts too."""
    slow = HermesOptions(refresh_ms=2_000, lifetime_ms=60_000, settle_ms=60_000)

    async def check() -> None:
        async with PanBrokers(tmp_path, "hermes", slow) as network:
            await network.start(1, by=None)
            await network.start(2, by=1)
            async with connect(network.url(1)) as one, connect(network.url(2), client_id="auditor") as two:
                await one.add_type("Trade", {"n": "int"})
                await one.advertise_type("Trade")
                await two.subscribe(type="Trade", selector="n > 0", durable="audit")
                await eventually(network.settled, WAIT_S)
                await network.stop(2)
                await one.publish_event("Trade", {"n": 1}, persistent=True)
                await one.publish_event("Trade", {"n": 0}, persistent=True)
                await network.stop(1)
            await network.start(1, by=None)
            await network.start(2, by=1)
            async with connect(network.url(1)) as one, connect(network.url(2), client_id="auditor") as two:
                audit = await two.subscribe(type="Trade", selector="n > 0", durable="audit")
                first = await audit.receive(WAIT_S)
                assert first is not None
                assert first.properties["n"] == 1
                assert [event_type.name for event_type in await one.types()] == ["Trade"]
                await one.advertise_type("Trade")
                await one.publish_event("Trade", {"n": 2}, persistent=True)
                second = await audit.receive(WAIT_S)
                assert second is not None
                assert second.properties["n"] == 2  # and the first not again

    asyncio.run(check())


def test_a_durable_subscription_gets_what_is_published_long_after_its_broker_went_away(tmp_path: Path) -> None:
    """So long that no tree knows of it any more; three brokers, so that the rendezvous node may be any."""
    quick = HermesOptions(refresh_ms=300, lifetime_ms=1_000, settle_ms=500)

    async def check() -> None:
        async with PanBrokers(tmp_path, "hermes", quick) as network:
            await network.start(1, by=None)
            await network.start(2, by=1)
            await network.start(3, by=1)
            one = await connect(network.url(1))
            await eventually(network.known, WAIT_S)
            await one.add_type("Trade", {"n": "int"})
            await one.advertise_type("Trade")
            async with connect(network.url(2), client_id="auditor") as two:
                await two.subscribe(type="Trade", selector="n > 0", durable="audit")
                await eventually(network.settled, WAIT_S)
                await eventually(network.known, WAIT_S)
            await network.stop(2)
            await one.publish_event("Trade", {"n": 1}, persistent=True)

            def forgotten() -> bool:
                trees = [network.hermes(router).machine.trees.trees.get("Trade") for router in (1, 3)]
                return not any(tree and tree.flows[InterestKind.FILTER] for tree in trees)

            await eventually(forgotten, WAIT_S)
            await eventually(lambda: network.hermes(1).counts()["unsettled"] == 0, WAIT_S)
            for n in (2, 0, 3):
                await one.publish_event("Trade", {"n": n}, persistent=True)
            await network.start(2, by=1)
            async with connect(network.url(2), client_id="auditor") as two:
                audit = await two.subscribe(type="Trade", selector="n > 0", durable="audit")
                await eventually(network.settled, WAIT_S)
                await one.publish_event("Trade", {"n": 4}, persistent=True)
                got = Counter[int]()
                while len(got) < 4:
                    delivery = await audit.receive(WAIT_S)
                    assert delivery is not None, got
                    got[int(delivery.properties["n"])] += 1
                await asyncio.sleep(0.5)  # only what is wrong comes now
                assert audit.receive_nowait() is None
                assert got == Counter([1, 2, 3, 4])
            await one.close()

    asyncio.run(check())


def test_a_type_that_is_added_again_in_another_form_has_it_at_every_broker(tmp_path: Path) -> None:
    """Added at 2 and looked up at 3; removed and added again at 1. The refresh comes too late to be of help."""
    slow = HermesOptions(refresh_ms=60_000, lifetime_ms=180_000, settle_ms=3_000)

    async def check() -> None:
        async with PanBrokers(tmp_path, "hermes", slow) as network:
            await network.start(1, by=None)
            await network.start(2, by=1)
            await network.start(3, by=1)
            one, two, three = [await connect(network.url(router)) for router in (1, 2, 3)]
            await eventually(network.known, WAIT_S)
            await one.add_type("Old", {"a": "int"})
            await one.add_type("New", {"b": "string"})
            await two.add_type("Sale", {"n": "int"}, parent="Old")
            await three.get_type("Sale")
            await one.remove_type("Sale")
            await one.add_type("Sale", {"n": "int"}, parent="New")
            listeners = Listeners()
            await listeners.add(one, [2, 3], "New")
            await listeners.add(one, [2, 3], "Sale")
            await listeners.add(one, [], "Old")
            for client, n in ((two, 2), (three, 3)):
                assert [event_type.name for event_type in await client.get_type("Sale")] == ["New", "Sale"]
                await client.advertise_type("Sale")
                with pytest.raises(TidingsError, match="E_EVENT_MISSING: attribute 'b'"):
                    await client.publish_event("Sale", {"a": 1, "n": n})
                await client.publish_event("Sale", {"b": "x", "n": n}, persistent=True)
            await listeners.check()
            for client in (one, two, three):
                await client.close()

    asyncio.run(check())


def test_in_a_network_that_does_not_route_by_types_the_error_names_the_setting(tmp_path: Path) -> None:
    async def check() -> None:
        async with PanBrokers(tmp_path) as network:
            await network.start(1, by=None)
            async with connect(network.url(1)) as client:
                with pytest.raises(TidingsError, match=r"E_TYPE_ROUTING: .*'bdrp'.*set \[network\] routing = 'hermes'"):
                    await client.add_type("Trade")
                with pytest.raises(TidingsError, match="E_TYPE_ROUTING"):
                    await client.subscribe(type="Trade")

    asyncio.run(check())


def test_a_hierarchy_as_deep_as_possible_carries_events_and_a_deeper_one_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        async with PanBrokers(tmp_path, "hermes") as network:
            await network.start(1, by=None)
            client, other = await connect(network.url(1)), await connect(network.url(1))
            names = [f"t{level}" for level in range(1, LEVELS_MAX + 1)]
            for name, parent in zip(names, (None, *names), strict=False):
                await client.add_type(name, {} if parent else {"n": "int"}, parent=parent)
            with pytest.raises(TidingsError, match=f"E_TYPE_DEPTH: event type 'deeper' has {LEVELS_MAX} ancestors"):
                await client.add_type("deeper", parent=names[-1])
            listeners = Listeners()
            await listeners.add(other, [1, 2], names[0])
            await listeners.add(other, [2], names[0], "n > 1")
            await eventually(network.settled, WAIT_S)
            await client.advertise_type(names[-1])
            await client.publish_event(names[-1], {"n": 1}, persistent=True)
            await client.publish_event(names[-1], {"n": 2})
            await listeners.check()
            await client.close()
            await other.close()

    asyncio.run(check())
