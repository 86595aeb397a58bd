"""`subscribe(wait="network")` in simulated networks: what is published anywhere after the confirmation arrives."""

import pytest
from hardening.machines.interest_spread import run

from tidings.node.clients.interest_spread import InterestSpread
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Subscribe, SubscribeWait
from tidings.overlay.topology.graph import Graph
from tidings.sim.brokers import TOPIC, Brokers

SEEDS = range(1, 31)


def run_all() -> int:
    return sum(run(seed)["published"] for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_published_anywhere_after_the_confirmation_arrives(seed: int) -> None:
    assert run(seed)["confirmed"] > 0


def test_the_checker_sees_a_confirmation_that_is_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InterestSpread, "wait", lambda self, then: then(None))
    with pytest.raises(AssertionError, match="published after subscription"):
        run_all()


def test_the_checker_sees_a_confirmation_before_others_have_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(self: InterestSpread, number: int, one: object) -> None:
        for then in self._rounds.pop(number).waiting:
            then(None)

    monkeypatch.setattr(InterestSpread, "_ask", ask)
    with pytest.raises(AssertionError, match="published after subscription"):
        run_all()


@pytest.mark.parametrize(("scheme", "destination"), [("covering", TOPIC), ("bdrp", "queue:orders")])
def test_it_is_refused_where_it_cannot_be_confirmed(scheme: str, destination: str) -> None:
    graph = Graph()
    graph.add(1, 2, 1.0)
    settings = {
        1: NetworkSettings(1, dials=(("2", 2),), scheme=scheme),
        2: NetworkSettings(2, scheme=scheme),
    }
    brokers = Brokers(graph, settings, seed=1)
    brokers.calendar.run(until=3_000)
    broker = brokers.broker(1)
    assert broker is not None
    client = broker.connect(brokers.calendar.now, "c")
    brokers.driver.call(
        "1",
        lambda machine, now: machine.request(now, client, Subscribe(1, 1, destination, wait=SubscribeWait.NETWORK)),
    )
    brokers.calendar.run(until=4_000)
    assert [one.error.code for one in client.failures] == ["E_WAIT_NETWORK"]
    assert client.done == set()
