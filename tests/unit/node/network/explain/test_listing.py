"""What a broker lists of its network, and how it explains messages and selectors."""

from typing import Any

from tidings.kernel.codec import encode_message
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.node.network.explain import listing
from tidings.node.network.explain.explanation import explain, explain_selector
from tidings.node.network.network import Network
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.graph import Graph
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.sim.brokers import TOPIC, Brokers

EXACT = InterestEncoding(Encoding(grade=GradedGrade()), vectors=False, exact=True)
MANY = f"sym IN ({', '.join(repr(f'S{number:05}') for number in range(1000))})"


def line(*selectors: str, **settings: Any) -> list[Network]:
    """Three brokers, the last of which has these subscriptions."""
    graph = Graph()
    graph.add(1, 2, 5.0)
    graph.add(2, 3, 5.0)
    each = {
        router: NetworkSettings(
            router, dials=((str(router + 1), router + 1),) if router < 3 else (), **({"encoding": EXACT} | settings)
        )
        for router in (1, 2, 3)
    }
    brokers = Brokers(graph, each, seed=1)
    for one in selectors:
        assert brokers.subscribe(3, one) is not None
    brokers.calendar.run(until=4000)
    running = [brokers.broker(router) for router in (1, 2, 3)]
    return [one.network for one in running if one is not None]


def message(**attributes: Any) -> bytes:
    return encode_message(Message(Destination(TOPIC), attributes))


def test_interests_are_listed_by_what_they_cost() -> None:
    first, _, third = line("price > 20", "price > 20", MANY, "size BETWEEN 1 AND 2")
    total, items = listing.interests(third, 0, 10, "")
    assert (total, [one["form"] for one in items]) == (3, ["exact"] * 3)
    assert items[0]["row_bytes"] >= items[0]["exact_bytes"] > 5000
    assert [one["exact_bytes"] for one in items] == sorted((one["exact_bytes"] for one in items), reverse=True)
    [price] = [one for one in items if "price" in one["filter"]]
    assert (price["subscriptions"], price["rows"], price["in_vain"]) == (2, 1, 0)
    assert listing.interests(third, 1, 1, "") == (3, items[1:2])
    assert listing.interests(third, 0, 10, "price") == (1, [price])
    assert listing.interests(first, 0, 10, "") == (0, [])
    assert listing.covering(third, 0, 10, "") == (0, [])


def test_encoded_interests_say_what_the_encoding_makes_of_them() -> None:
    plain = InterestEncoding(Encoding(alternatives_max=16))
    _, _, third = line("sym IN ('a', 'b')", MANY, "price * 2 > 7", encoding=plain)
    items = listing.interests(third, 0, 10, "")[1]
    assert {one["form"] for one in items} == {"encoded"}
    assert min(one["rows"] for one in items) == 1  # of IN with a thousand values nothing is left but the attribute
    cost = explain_selector(third, TOPIC, MANY)["cost"]
    assert cost["exact_bytes"] > cost["row_bytes"]


def test_a_selector_is_explained_by_its_cost_and_by_who_asks_for_some_of_it() -> None:
    first, _, third = line("price > 20", "sym = 'XYZ'")
    found = explain_selector(first, TOPIC, "price BETWEEN 10 AND 30")
    assert (found["cost"]["subscriptions"], found["cost"]["form"], found["cost"]["rows"]) == (0, "exact", 1)
    [like] = found["like_it"]
    assert like["router"] == 3
    assert any("price > 20" in one for one in like["because"])
    nothing = explain_selector(first, "other.topic", "")
    assert nothing["like_it"] == []
    assert explain_selector(third, TOPIC, "price > 20")["cost"]["subscriptions"] == 1
    assert explain_selector(third, "queue:orders", "")["cost"]["form"] == "here"


def test_tables_of_covering_are_listed_and_explain_a_message() -> None:
    first, _, third = line("price > 20", "price > 30", scheme="covering")
    total, items = listing.covering(first, 0, 200, "")
    assert total == len(items)
    assert {one["table"] for one in items} == {"advertisement", "subscription"}
    own = listing.covering(third, 0, 200, "price")[1]
    assert {(one["table"], one["neighbour"]) for one in own} == {("subscription", 0), ("told", 2)}
    assert len({one["key"] for one in own}) == len(own)
    found = explain(first, message(price=25))
    [one] = found["destinations"]
    assert (one["router"], one["fate"], found["stops"], found["others"]) == (2, "sent", "", [])
    assert "price > 20" in one["because"][0]
    assert explain(first, message(price=5))["others"] == [2]


def test_a_message_that_nobody_advertised_stops_here() -> None:
    first, _, _ = line("price > 20", scheme="covering", advertise=("other.>",))
    found = explain(first, message(price=25))
    assert (found["stops"], found["destinations"], found["others"]) == ("unadvertised", [], [2])
