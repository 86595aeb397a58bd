"""`tidings net explain` and `list`, with answers of a broker in the simulator."""

from typing import Any

import pytest
from typer.testing import CliRunner

from tidings.cli.net import app
from tidings.cli.queue.management import ManagementClient
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.node.network.explain import listing
from tidings.node.network.explain.explanation import explain, explain_selector
from tidings.node.network.network import Network
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.graph import Graph
from tidings.sim.brokers import TOPIC, Brokers


def network(monkeypatch: pytest.MonkeyPatch, asked: int, **settings: Any) -> None:
    """Two brokers, the second of which has a subscriber; what commands ask of a broker this one answers."""
    graph = Graph()
    graph.add(1, 2, 5.0)
    each = {one: NetworkSettings(one, dials=(("2", 2),) if one == 1 else (), **settings) for one in (1, 2)}
    brokers = Brokers(graph, each, seed=1)
    assert brokers.subscribe(2, "price > 20") is not None
    brokers.calendar.run(until=4000)
    broker = brokers.broker(asked)
    assert broker is not None
    known = broker.network

    def ask(self: ManagementClient, method: str, *path: str, query: dict[str, str]) -> dict[str, Any]:
        return answer(known, path, query)

    monkeypatch.setattr(ManagementClient, "ask", ask)


def answer(known: Network, path: tuple[str, ...], query: dict[str, str]) -> dict[str, Any]:
    match path[1:]:
        case ("explain",):
            return explain(known, encode_message(Message(Destination(query["destination"]), {"price": 50})))
        case ("explain", "selector"):
            return explain_selector(known, query["destination"], query["selector"])
        case (what,):
            page = int(query["offset"]), int(query["limit"]), query["containing"]
            total, items = (listing.interests if what == "interests" else listing.covering)(known, *page)
            return {"total": total, "items": items}
    raise AssertionError(path)


def run(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_a_message_and_a_selector_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    network(monkeypatch, 1)
    said = run("explain", TOPIC, "--attributes", '{"price": 50}')
    assert "to broker 2, by broker 2, because it asks for: an encoded row" in said
    assert "0 subscriptions at this broker" in run("explain", TOPIC, "--selector", "price > 5")
    network(monkeypatch, 2)
    said = run("explain", TOPIC, "--selector", "price > 20")
    assert "1 subscriptions at this broker" in said
    assert "let more through than the filter" in said


def test_what_nobody_has_advertised_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    network(monkeypatch, 1, scheme="covering", advertise=("other.>",))
    said = run("explain", TOPIC, "--attributes", '{"price": 50}')
    assert "nobody at this broker has advertised it" in said
    assert "brokers that do not get it: 2" in said


def test_interests_and_tables_of_covering_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    network(monkeypatch, 2, scheme="covering")
    said = run("list", "interests")
    assert "encoded" in said
    assert "1 of 1" in said
    assert "subscription" in run("list", "covering")
