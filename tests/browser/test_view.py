"""What the console makes of what brokers say: rates, links seen from both ends, brokers that nobody watches."""

from typing import Any

import pytest

from tidings.console.force_layout import layout
from tidings.console.panes.map import broker_facts
from tidings.console.panes.playback import EXAMPLE, film_of
from tidings.console.panes.playground import properties_of
from tidings.console.panes.queues import why_unseen
from tidings.console.view import BrokerState, LinkSnapshot, Said, network_view
from tidings.console.widgets.network_map import load_class, load_text, use_level
from tidings.console.widgets.parts import SHOWN_BYTES, body_text
from tidings.errors import RemoteError, SecurityError, UsageError


def overview(
    id: int, at_s: float, received: int = 0, links: dict[int, int] | None = None, **more: Any
) -> dict[str, Any]:
    described = {
        str(peer): {"state": "up", "latency_ms": 2.0, "waiting_bytes": 10, "sent_bytes": sent, "received_bytes": 0}
        for peer, sent in (links or {}).items()
    }
    return {
        "broker": {"id": id, "name": "tidings"},
        "time_ms": 0,  # the time of day may stand still, or be set back
        "steady_seconds": at_s,
        "cpu_seconds": at_s / 2,
        "plane": {"received": received, "delivered": 0, "unmatched": 0},
        "network": {"links": described, "routes": {str(peer): peer for peer in links or {}}},
    } | more


def test_rates_and_links_come_from_two_moments() -> None:
    view = network_view(
        [
            Said("a", overview(1, 12, 500, {2: 3000}), overview(1, 10, 100, {2: 1000})),
            Said("b", overview(2, 12, 0, {1: 2500}), overview(2, 10, 0, {1: 1000})),
        ]
    )
    assert view.brokers[1].rates.received == 200
    assert view.brokers[1].rates.utilisation == pytest.approx(0.5)
    (link,) = view.links
    assert (link.ends, link.up, link.bytes_s, link.waiting_bytes) == ((1, 2), True, 1000.0, 20)


@pytest.mark.parametrize(("role", "shown"), [("single", None), ("active", "active, of a pair")])
def test_of_a_pair_the_role_is_shown(role: str, shown: str | None) -> None:
    broker = {"broker": {"id": 1, "name": "orders", "role": role}, "connections": 0, "filters": 0}
    view = network_view([Said("a", overview(1, 12) | broker, None)])
    assert broker_facts(view.brokers[1]).get("Role") == shown


def test_brokers_that_are_not_watched_or_are_gone_stay_on_the_map() -> None:
    view = network_view(
        [
            Said("a", overview(1, 12, links={7: 0}, links_down=[2]), None),
            Said("b", None, overview(2, 10), BrokerState.LOST, "no connection"),
            Said("c", None, None, BrokerState.LOST, "refused"),
        ]
    )
    states = {id: broker.state for id, broker in view.brokers.items()}
    assert states == {1: BrokerState.UP, 2: BrokerState.LOST, 7: BrokerState.UNSEEN}
    assert [(link.ends, link.up) for link in view.links] == [((1, 2), False), ((1, 7), True)]
    assert [one.url for one in view.unreached] == ["c"]


def test_brokers_that_stand_alone_are_several_whatever_their_numbers() -> None:
    said = [
        Said("tidings://a:1", overview(1, 12, 500, network={}), overview(1, 10, 100, network={})),
        Said("tidings://b:1", overview(1, 12, 0, network={}), overview(1, 10, 0, network={})),
        Said("tidings://c:1", None, overview(1, 10, network={}), BrokerState.LOST, "no connection"),
    ]
    view = network_view(said)
    assert [one.rates.received for one in view.brokers.values()] == [200, 0, 0]
    assert [(one.id, one.url, one.state) for one in view.brokers.values()] == [
        (1, "tidings://a:1", BrokerState.UP),
        (1, "tidings://b:1", BrokerState.UP),
        (1, "tidings://c:1", BrokerState.LOST),
    ]
    assert [one.name for one in view.brokers.values()] == ["broker 1 (a:1)", "broker 1 (b:1)", "broker 1 (c:1)"]
    assert view.watched.keys() == {one.url for one in said}
    assert view.rates.received == 200


def test_a_broker_that_stands_alone_with_two_addresses_is_one() -> None:
    one, other = ({"broker": {"id": 1, "name": "tidings", "run": run}} for run in ("one", "other"))
    view = network_view(
        [Said(url, overview(1, 12, network={}) | run) for url, run in zip("abc", (one, one, other), strict=True)]
    )
    assert [broker.url for broker in view.brokers.values()] == ["a", "c"]


def test_what_mailboxes_drop_is_dropped_too() -> None:
    said = Said(
        "a", overview(1, 12, dropped={"oldest": 30, "far": 10}), overview(1, 10, dropped={"oldest": 10, "far": 4})
    )
    assert network_view([said]).brokers[1].rates.dropped == 13


def linked(id: int, peer: int, network: str, run: str) -> dict[str, Any]:
    said = overview(id, 12, links={peer: 0})
    return said | {
        "broker": {"id": id, "name": "tidings", "run": run},
        "network": said["network"] | {"network": network},
    }


@pytest.mark.parametrize("names", [("one", "two"), ("one", "one")])
def test_networks_with_the_same_numbers_are_several(names: tuple[str, str]) -> None:
    said = [Said(f"{i}", linked(id, 3 - id, names[i // 2], f"run {i}")) for i, id in enumerate((1, 2, 1, 2))]
    view = network_view(said)
    assert [one.id for one in view.brokers.values()] == [1, 2, 1, 2]
    assert {ends for link in view.links for ends in link.ends} == view.brokers.keys()
    assert len(view.links) == 2
    assert view.name(view.base("3") + 1) == "broker 1 (2)", "a number is that of the network where it was told"


def test_a_broker_of_a_network_with_two_addresses_is_one() -> None:
    said = linked(1, 2, "one", "a run")
    view = network_view([Said("a", None, said, BrokerState.LOST, "refused"), Said("b", said)])
    assert [(one.id, one.url, one.state) for one in view.brokers.values()] == [
        (1, "b", BrokerState.UP),
        (2, "", BrokerState.UNSEEN),
    ]
    assert {url: one.state for url, one in view.watched.items()} == {"a": BrokerState.LOST, "b": BrokerState.UP}


def test_a_broker_that_was_started_anew_has_no_negative_rates() -> None:
    view = network_view([Said("a", overview(1, 3, 5) | {"steady_seconds": 20.0}, overview(1, 10, 500))])
    assert view.brokers[1].rates.received == 0


def test_colours() -> None:
    assert [use_level(share) for share in (0.0, 0.1, 0.3, 0.6, 0.95)] == [0, 1, 2, 3, 4]
    rates = (0.0, 100.0, 400.0, 1000.0)
    compared = [load_class(LinkSnapshot(1, 2, bytes_s=rate), 1000.0) for rate in rates]
    assert compared == ["load-0", "load-1", "load-2", "load-3"]
    known = [LinkSnapshot(1, 2, peak_bytes_s=rate, bandwidth_bytes_s=1000) for rate in rates]
    assert [load_class(link, 5000.0) for link in known] == ["use-0", "use-1", "use-2", "use-4"]
    assert load_text(known[3], 5000.0) == "80 % or more of its bandwidth"
    assert load_class(LinkSnapshot(1, 2, waiting_bytes=1 << 20), 0.0) == "waits"
    assert load_text(LinkSnapshot(1, 2, up=False), 0.0) == "down"


def test_the_busier_way_of_a_link_counts_against_its_bandwidth() -> None:
    said = [overview(1, at_s, links={2: sent}) for at_s, sent in ((10, 0), (12, 6000))]
    for one, received in zip(said, (0, 1000), strict=True):
        one["network"]["links"]["2"] |= {"received_bytes": received, "bandwidth_bytes_s": 10_000}
    (link,) = network_view([Said("a", said[1], said[0])]).links
    assert (link.bytes_s, link.peak_bytes_s, link.bandwidth_bytes_s) == (3500.0, 3000.0, 10_000)


def test_no_two_brokers_stand_in_one_place() -> None:
    nodes = tuple(range(1, 101))
    links = tuple((node, node // 2) for node in nodes if node > 1)
    places = layout(nodes, links)
    gaps = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for n, a in places.items() for m, b in places.items() if n < m]
    assert min(gaps) > 0.01
    assert layout(nodes, links) is places, "the same network is not drawn twice"


def test_the_example_scenario_plays() -> None:
    film = film_of(EXAMPLE, 1)
    crash = next(number for number, step in enumerate(film.steps) if step.text == "crashes")
    oslo = film.number("oslo")
    assert all(link.up for link in film.view(crash - 1).links)
    assert film.view(crash).brokers[oslo].state is BrokerState.LOST
    assert not any(link.up for link in film.view(crash).links if oslo in link.ends)
    assert all(link.up for link in film.view(len(film.steps) - 1).links), "it was restarted"
    assert film.lit(crash).brokers.keys() == {oslo}
    with pytest.raises(UsageError, match="no line of a simulation"):
        film_of("nothing of the kind", 1)


@pytest.mark.parametrize(
    ("told", "instead"),
    [("count = 3\nevery_ms = 2000", "count = 4294967295\nevery_ms = 0"), ("run", "random_faults = 99999\nrun")],
)
def test_a_scenario_without_end_is_not_begun(told: str, instead: str) -> None:
    with pytest.raises(UsageError, match="at most 50,000 messages and 10,000 faults here"):
        film_of(EXAMPLE.replace(told, instead, 1), 1)


def test_a_run_can_be_stopped() -> None:
    with pytest.raises(UsageError, match="E_STOPPED"):
        film_of(EXAMPLE, 1, lambda: True)


@pytest.mark.parametrize("character", ["é", "€", "😀"])
def test_a_long_text_is_text_wherever_it_is_cut(character: str) -> None:
    for before in range(4):
        body = ("x" * before + character * SHOWN_BYTES).encode()
        assert body_text(body).startswith("x" * before + character * 400)
    assert body_text(b"x" + character.encode()[:-1]).startswith("78 "), "what is whole is no text if it ends within one"


ENDLESS = ['{"a": ' + "9" * 5000 + "}", '{"a": ' + "[" * 30_000]


@pytest.mark.parametrize("text", ["{oops", "[1]", '{"a": [1]}', '{"a": null}', *ENDLESS])
def test_properties_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="E_PROPERTIES"):
        properties_of(text)


def test_only_the_queue_of_dead_letters_is_empty_before_there_is_one() -> None:
    unknown = RemoteError("E_QUEUE_UNKNOWN", "there is no such thing")
    assert why_unseen(unknown, "queue:dead", "queue:dead") == ""
    assert why_unseen(unknown, "queue:a", "queue:dead") == "There is no such queue."
    assert why_unseen(SecurityError("E_FORBIDDEN", "you may not"), "queue:dead", "queue:dead") == "you may not"
