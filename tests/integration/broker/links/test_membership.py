"""Peers that are added and removed while brokers run, and brokers that are forgotten."""

import asyncio
from dataclasses import replace
from pathlib import Path

from hardening.support.links import BrokerNetwork, eventually

from tidings.broker.http.network_status import status
from tidings.broker.leaving import Leaving
from tidings.broker.links.links import BrokerLinks
from tidings.client import connect
from tidings.kernel.codec import encode_message
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.node.inputs import ForgetBroker
from tidings.node.network.settings import Dials
from tidings.routing.bdrp.interests import InterestEncoding


def change(network: BrokerNetwork, router: int, dials: Dials, costs: dict[int, int]) -> None:
    """What a reload of the configuration does."""
    broker = network.brokers[router]
    assert broker.engine.node.network is not None
    assert isinstance(broker.links, BrokerLinks)
    broker.links.change_peers(replace(broker.engine.node.network.settings, dials=dials, costs=costs))


def test_links_follow_the_peers_that_are_configured(tmp_path: Path) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2), (3, 2)]) as network:
            await eventually(network.known)
            two, three = (f"127.0.0.1:{network.link_ports[router]}" for router in (2, 3))
            async with connect(network.url(1)) as reader, connect(network.url(2)) as writer:
                ticks = await reader.subscribe("ticks.>")
                await eventually(network.known)
                change(network, 1, ((two, 2), (three, 3)), {3: 7})
                await eventually(lambda: network.linked(1, 3))
                assert network.linked(1, 2)
                change(network, 1, ((three, 3),), {3: 9})
                await eventually(lambda: not network.linked(1, 2))
                await eventually(network.known)
                machine = network.brokers[1].engine.node.network
                assert machine is not None
                assert (machine.unicast.next_hop(2), machine.unicast.distance(3)) == (3, 9)
                await writer.publish("ticks.a", {"n": 1}, wait=True)
                assert (await anext(aiter(ticks))).properties["n"] == 1
                change(network, 1, ((two, 2), (three, 3)), {})
                await eventually(lambda: network.linked(1, 2))

    asyncio.run(check())


def test_what_waits_for_a_broker_that_is_forgotten_is_dropped_and_counted(tmp_path: Path) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            async with connect(network.url(2), client_id="reader") as reader:
                await reader.subscribe("ticks.>", durable="audit")
                await eventually(network.known)
            one = network.brokers[1]
            one.step(ForgetBroker(2))
            assert status(one.view())["interests"][2] > 0  # it can be reached: it is not forgotten
            await network.stop(2)
            await eventually(lambda: not status(one.view())["routes"])
            async with connect(network.url(1)) as writer:
                for n in range(3):
                    await (await writer.publish("ticks.a", {"n": n}, persistent=True)).confirmed()
                assert status(one.view())["in_transit"] == 3
                one.step(ForgetBroker(2))
                assert (status(one.view())["in_transit"], status(one.view())["interests"]) == (0, {})
                assert status(one.view())["counts"]["abandoned"] == 3
                await (await writer.publish("ticks.a", {"n": 3}, persistent=True)).confirmed()
                assert status(one.view())["in_transit"] == 0

    asyncio.run(check())


def test_what_waits_for_a_broker_that_is_forgotten_is_moved_to_a_queue_if_asked(tmp_path: Path) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2)]) as network:
            async with connect(network.url(2), client_id="reader") as reader:
                await reader.subscribe("ticks.>", durable="audit")
                await eventually(network.known)
            await network.stop(2)
            await eventually(lambda: not status(network.brokers[1].view())["routes"])
            async with connect(network.url(1)) as writer:
                for n in range(300):
                    await writer.publish("ticks.a", {"n": n}, persistent=True, wait=n == 299)
            await network.stop(1)  # afterwards they are only in its store
            await network.start(1)
            one = network.brokers[1]
            one.step(ForgetBroker(2, Destination.parse("queue:left")))
            async with connect(network.url(1)) as client:
                left = await client.subscribe("queue:left", ack="client")
                for n in range(300):
                    message = await left.receive(20.0)
                    assert message is not None
                    assert (message.properties["n"], message.properties["JMSXOriginalDestination"]) == (
                        n,
                        "topic:ticks.a",
                    )
                    await message.ack()
                assert status(one.view())["in_transit"] == 0
                counts = status(one.view())["counts"]
                assert (counts["moved"], counts["abandoned"]) == (300, 0)

    asyncio.run(check())


def test_a_leaving_broker_passes_on_what_it_has_and_counts_what_stays(tmp_path: Path) -> None:
    async def check() -> None:
        async with BrokerNetwork(tmp_path, [(1, 2), (2, 3)]) as network:
            two, ended = network.brokers[2], asyncio.Event()
            leaving = Leaving(two, ended.set)
            both = f"{network.url(2)},127.0.0.1:{network.ports[1]}"
            async with connect(both, client_id="moves") as moves, connect(network.url(3), client_id="far") as far:
                audit = await far.subscribe("ticks.>", durable="audit", ack="client")
                async with connect(network.url(2), client_id="away") as away:
                    await away.subscribe("ticks.>", durable="left")
                await eventually(network.known)
                for n in range(50):
                    await moves.publish("ticks.a", {"n": n}, persistent=True, wait=True)
                leaving.begin(3.0)
                await asyncio.wait_for(ended.wait(), 30)
                found = leaving.state()
                assert (found["left"], found["moved"], found["in_transit"], found["waiting"]) == (True, 1, 0, 50)
                assert [one["name"] for one in found["mailboxes"]] == ["durable:away:left"]
                await eventually(lambda: moves.connected)
                await moves.publish("ticks.a", {"n": 50}, persistent=True, wait=True)  # at 1 now
                for n in range(51):
                    message = await audit.receive(20.0)
                    assert message is not None
                    assert message.properties["n"] == n
                await network.stop(2)
                await eventually(lambda: not status(network.brokers[1].view())["routes"])
                await moves.publish("ticks.a", {"n": 51}, persistent=True, wait=True)
                seen = status(network.brokers[1].view())
                assert seen["interests"].get(2, 0) == 0, "what is published now is not kept for it"

    asyncio.run(check())


def test_an_explanation_names_who_wants_a_message_and_why(tmp_path: Path) -> None:
    async def check() -> None:
        exact = InterestEncoding(Encoding(grade=GradedGrade()), vectors=False, exact=True)
        for encoding, reason in ((exact, "price > 20"), (InterestEncoding(), "an encoded row of")):
            folder = tmp_path / str(encoding.exact)
            folder.mkdir()
            async with (
                BrokerNetwork(folder, [(1, 2), (2, 3)], encoding=encoding) as network,
                connect(network.url(3)) as reader,
            ):
                await reader.subscribe("ticks.>", selector="price > 20")
                await eventually(network.known)
                view = network.brokers[1].view().engine
                found = view.explain(encode_message(Message(Destination("ticks.a"), {"price": 50})))
                [one] = found["destinations"]
                assert (one["router"], one["next_hop"], one["fate"], found["others"]) == (3, 2, "sent", [2])
                assert reason in one["because"][0]
                nobody = view.explain(encode_message(Message(Destination("other"), {"size": 1})))
                assert (nobody["destinations"], nobody["others"]) == ([], [2, 3])
                await network.stop(3)
                await eventually(lambda: 3 not in status(network.brokers[1].view())["routes"])
                found = view.explain(encode_message(Message(Destination("ticks.a"), {"price": 50})))
                assert [one["fate"] for one in found["destinations"]] == ["no_route"]

    asyncio.run(check())
