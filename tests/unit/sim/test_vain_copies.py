"""Subscriptions that an encoding widens: who is to blame for copies in vain, and the bound on them."""

from typing import Any

import pytest

from tidings.matching.encoding import Encoding
from tidings.node.network.explain.vain_copies import VainCopies
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.link.machine import LinkOptions
from tidings.overlay.topology.graph import Graph
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.effects import Effect, Report
from tidings.sim.brokers import Brokers, Subscriber

LINK = LinkOptions(heartbeat_ms=200, suspect_ms=500, dead_ms=1200)
PLAIN = InterestEncoding(Encoding(bits=256, hashes=7))  # ranges say no more than that the attribute is there
STEP_MS = 5.0


class Network:
    def __init__(self, in_vain_max: float, encoding: InterestEncoding = PLAIN) -> None:
        settings = {
            router: NetworkSettings(
                router,
                dials=(("2", 2),) if router == 1 else (),
                link=LINK,
                encoding=encoding,
                in_vain_max=in_vain_max,
            )
            for router in (1, 2)
        }
        graph = Graph()
        graph.add(1, 2, 5.0)
        self.brokers = Brokers(graph, settings, seed=1)
        self.now = 2000.0

    def run(self, ms: float) -> None:
        self.now += ms
        self.brokers.calendar.run(until=self.now)
        self.brokers.collect()

    def publish(self, count: int, **attributes: Any) -> None:
        for _ in range(count):
            self.brokers.publish(1, attributes, persistent=False)
            self.run(STEP_MS)

    def subscribe(self, selector: str) -> Subscriber:
        made = self.brokers.subscribe(2, selector)
        assert made is not None
        self.run(500)
        return made

    @property
    def receiver(self) -> Any:
        return self.brokers.broker(2)

    def in_vain(self) -> int:
        return int(self.receiver.forwarder.network_stats()["in_vain"])


def test_a_subscription_that_brings_too_much_in_vain_is_advertised_exactly() -> None:
    network = Network(in_vain_max=0.1)
    dear, stock = network.subscribe("price > 90"), network.subscribe("stock = 'XYZ'")
    network.publish(600, price=50)
    assert network.in_vain() < 400, "a second or two of it"
    before = network.in_vain()
    network.publish(300, price=50)
    assert network.in_vain() == before
    network.publish(10, price=91)
    network.publish(10, stock="XYZ")
    network.run(500)
    assert (sum(dear.got.values()), sum(stock.got.values())) == (10, 10)
    local = network.receiver.network.scheme.local
    forms = {network.receiver.network.scheme.local.cost(one).form for one in local.costliest(10)}
    assert forms == {"exact", "encoded"}  # what is not to blame stays as it is
    network.brokers.unsubscribe(dear)
    network.run(1000)
    assert len(local.rows()) == 1


def test_without_a_bound_the_worst_subscription_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Effect] = []
    tick = VainCopies.tick

    def listen(self: VainCopies, now: float) -> list[Effect]:
        effects = tick(self, now)
        said.extend(effects)
        return effects

    monkeypatch.setattr(VainCopies, "tick", listen)
    network = Network(in_vain_max=1.0)
    network.subscribe("price > 90")
    network.subscribe("size > 90")
    network.publish(700, price=50)
    assert network.in_vain() == 700
    [report] = said
    assert isinstance(report, Report)
    assert report.code == "E_INTEREST_IN_VAIN"
    assert "price > 90" in report.reason
    blamed = network.receiver.network.vain_copies.blamed
    assert len(blamed) == 1
    assert min(blamed.values()) >= 10


@pytest.mark.parametrize("vectors", [True, False])
def test_nothing_is_lost_while_subscriptions_are_narrowed(vectors: bool) -> None:
    network = Network(in_vain_max=0.0, encoding=InterestEncoding(Encoding(bits=256, hashes=7), vectors=vectors))
    readers = [network.subscribe(f"price > {low}") for low in range(0, 100, 10)]
    for price in range(400):
        network.publish(1, price=price % 100)
    network.run(1000)
    due = [sum(price % 100 > low for price in range(400)) for low in range(0, 100, 10)]
    assert [sum(one.got.values()) for one in readers] == due
