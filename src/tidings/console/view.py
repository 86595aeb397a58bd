"""A network as reported by its brokers at one moment; rates come from two such moments.

>>> before = {"steady_seconds": 1.0, "cpu_seconds": 1.0, "plane": {"received": 100, "delivered": 0, "unmatched": 0}}
>>> after = {"steady_seconds": 2.0, "cpu_seconds": 1.5, "plane": {"received": 350, "delivered": 0, "unmatched": 50}}
>>> rates_between(before, after)
BrokerRates(received=250.0, delivered=0.0, unmatched=50.0, dropped=0.0, utilisation=0.5)

Brokers' numbers are unique in a network and nowhere else: brokers that stand alone have all the same. What tells
brokers apart is their *place*: the number, and above it which of the networks that the console sees it belongs to.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

Overview = Mapping[str, Any]
PLACES = 1 << 32  # of a network: numbers are below this


class BrokerState(Enum):
    UP = "up"
    FORBIDDEN = "not yours to see"  # connected, but its user may not inspect it
    LOST = "no connection"
    UNSEEN = "known from its neighbours only"


@dataclass(frozen=True, slots=True)
class BrokerRates:
    """A second; utilisation is the share of one core."""

    received: float = 0.0
    delivered: float = 0.0
    unmatched: float = 0.0
    dropped: float = 0.0
    utilisation: float = 0.0

    def __add__(self, other: "BrokerRates") -> "BrokerRates":
        return BrokerRates(
            self.received + other.received,
            self.delivered + other.delivered,
            self.unmatched + other.unmatched,
            self.dropped + other.dropped,
            max(self.utilisation, other.utilisation),
        )


@dataclass(frozen=True, slots=True)
class Said:
    """The result of asking one broker: its overview and the previous one, or the reason for none."""

    url: str
    now: Overview | None = None
    before: Overview | None = None
    state: BrokerState = BrokerState.UP
    error: str = ""


@dataclass(frozen=True, slots=True)
class LinkSnapshot:
    """Between two brokers' places, the smaller one first. `up` is False as soon as one end says so."""

    a: int
    b: int
    up: bool = True
    latency_ms: float = 0.0
    bytes_s: float = 0.0  # both ways
    waiting_bytes: int = 0
    peak_bytes_s: float = 0.0  # the busier way
    bandwidth_bytes_s: int = 0  # each way; 0: nobody has said

    @property
    def ends(self) -> tuple[int, int]:
        return self.a, self.b


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    id: int
    name: str
    state: BrokerState = BrokerState.UNSEEN
    url: str = ""
    error: str = ""
    rates: BrokerRates = BrokerRates()  # frozen
    overview: Overview = field(default_factory=dict)
    base: int = 0  # to a number of its network this is added to have the place

    @property
    def place(self) -> int:
        return self.base + self.id

    @property
    def network(self) -> Mapping[str, Any]:
        return self.overview.get("network") or {}

    def number(self, name: str) -> int:
        return int(self.overview.get(name, 0))


@dataclass(frozen=True, slots=True)
class NetworkSnapshot:
    brokers: Mapping[int, BrokerSnapshot] = field(default_factory=dict)  # by place, each once
    links: tuple[LinkSnapshot, ...] = ()
    unreached: tuple[Said, ...] = ()  # addresses that never told which broker they are
    watched: Mapping[str, BrokerSnapshot] = field(default_factory=dict)  # by address: what it says, and whether it does

    @property
    def rates(self) -> BrokerRates:
        return sum((one.rates for one in self.brokers.values()), BrokerRates())

    def name(self, place: int) -> str:
        found = self.brokers.get(place)
        return found.name if found is not None else f"broker {place % PLACES}"

    def base(self, url: str) -> int:
        """Maps a number used by the broker at an address to a place on the map."""
        return self.watched[url].base if url in self.watched else 0


def rates_between(before: Overview, after: Overview) -> BrokerRates:
    seconds = _seconds_between(before, after)
    if seconds <= 0 or after["cpu_seconds"] < before["cpu_seconds"]:  # it was restarted
        return BrokerRates()
    grown = [max(0, now - then) / seconds for then, now in zip(_counted(before), _counted(after), strict=True)]
    received, delivered, unmatched, dropped = grown
    return BrokerRates(
        received, delivered, unmatched, dropped, (after["cpu_seconds"] - before["cpu_seconds"]) / seconds
    )


def _counted(said: Overview) -> tuple[int, int, int, int]:
    plane = said["plane"]
    return plane["received"], plane["delivered"], plane["unmatched"], sum(said.get("dropped", {}).values())


def _seconds_between(before: Overview, after: Overview) -> float:
    """By the broker's own clock; not the time of day, which may be set."""
    return float(after["steady_seconds"] - before["steady_seconds"])


def network_view(said: Iterable[Said]) -> NetworkSnapshot:
    """Everything together; a broker that nobody asked is there if another one has a link or a route to it."""
    told = list(said)
    watched: dict[str, BrokerSnapshot] = {}
    networks: list[_Network] = []
    for one in told:
        latest = one.now or one.before
        if latest is not None:
            watched[one.url] = _watched(one, latest, _base(one.url, latest, networks))
    watched = _told_apart(watched)
    brokers: dict[int, BrokerSnapshot] = {}
    for broker in watched.values():  # of several addresses of one broker one that answers
        if broker.place not in brokers or brokers[broker.place].state is not BrokerState.UP:
            brokers[broker.place] = broker
    links = _links([(watched[one.url].base, one) for one in told if one.now is not None])
    known = {end for link in links for end in link.ends}
    known |= {one.base + int(router) for one in brokers.values() for router in one.network.get("routes", {})}
    for place in sorted(known - brokers.keys()):
        number = place % PLACES
        brokers[place] = BrokerSnapshot(number, f"broker {number}", base=place - number)
    unreached = tuple(one for one in told if one.now is None and one.before is None)
    return NetworkSnapshot(dict(sorted(brokers.items())), links, unreached, watched)


@dataclass(frozen=True, slots=True)
class _Network:
    """In which numbers are unique: its name and its brokers; a broker that stands alone is one by itself."""

    name: str
    runs: dict[int, str] = field(default_factory=dict)  # by number


def _base(url: str, latest: Overview, networks: list[_Network]) -> int:
    """The first place of a broker's network. Networks of one name are distinguished if they share a number."""
    number, run = latest["broker"]["id"], latest["broker"].get("run", url)
    network = latest.get("network")
    name = f"network {network.get('network', '')}" if network else f"alone {run}"
    for index, one in enumerate(networks):
        if one.name == name and one.runs.setdefault(number, run) == run:
            return index * PLACES
    networks.append(_Network(name, {number: run}))
    return (len(networks) - 1) * PLACES


def _watched(one: Said, latest: Overview, base: int) -> BrokerSnapshot:
    broker = latest["broker"]
    rates = rates_between(one.before, one.now) if one.before and one.now else BrokerRates()
    return BrokerSnapshot(broker["id"], _name(broker), one.state, one.url, one.error, rates, latest, base)


def _name(broker: Mapping[str, Any]) -> str:
    """The name it was given; brokers without a name are distinguished by their numbers."""
    return str(broker["name"]) if broker["name"] != "tidings" else f"broker {broker['id']}"


def _told_apart(watched: Mapping[str, BrokerSnapshot]) -> dict[str, BrokerSnapshot]:
    """Brokers of the same name have their addresses beside it."""
    places = {(one.name, one.place) for one in watched.values()}
    uses = Counter(name for name, _ in places)
    return {
        url: replace(one, name=f"{one.name} ({address_of(url)})") if uses[one.name] > 1 else one
        for url, one in watched.items()
    }


def address_of(url: str) -> str:
    return url.rpartition("://")[2]


def _links(told: list[tuple[int, Said]]) -> tuple[LinkSnapshot, ...]:
    """Of brokers with the bases of their places."""
    found: dict[tuple[int, int], LinkSnapshot] = {}
    down: set[tuple[int, int]] = set()
    for base, one in told:
        assert one.now is not None
        me = base + int(one.now["broker"]["id"])
        earlier = {} if one.before is None else (one.before.get("network") or {}).get("links", {})
        seconds = 0.0 if one.before is None else _seconds_between(one.before, one.now)
        for peer, link in ((one.now.get("network") or {}).get("links", {})).items():
            ends = _ends(me, base + int(peer))
            sent, received = (
                _rate(link, earlier.get(peer, link), way, seconds) for way in ("sent_bytes", "received_bytes")
            )
            seen = LinkSnapshot(
                *ends,
                link.get("state", "up") == "up",
                link["latency_ms"],
                sent + received,
                link["waiting_bytes"],
                max(sent, received),
                link.get("bandwidth_bytes_s", 0),
            )
            other = found.get(ends)
            found[ends] = seen if other is None else _both(other, seen)
        down |= {_ends(me, base + peer) for peer in one.now.get("links_down", ())}
    for ends in down - found.keys():
        found[ends] = LinkSnapshot(*ends, up=False)
    return tuple(found[ends] for ends in sorted(found))


def _ends(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _rate(now: Mapping[str, Any], before: Mapping[str, Any], name: str, seconds: float) -> float:
    """Never negative: a link that was re-established counts from zero."""
    return float(max(0, now.get(name, 0) - before.get(name, 0)) / seconds) if seconds > 0 else 0.0


def _both(one: LinkSnapshot, other: LinkSnapshot) -> LinkSnapshot:
    """Combines the reports of both ends of a link: each sees all bytes, and its own queue."""
    return LinkSnapshot(
        one.a,
        one.b,
        one.up and other.up,
        max(one.latency_ms, other.latency_ms),
        max(one.bytes_s, other.bytes_s),
        one.waiting_bytes + other.waiting_bytes,
        max(one.peak_bytes_s, other.peak_bytes_s),
        max(one.bandwidth_bytes_s, other.bandwidth_bytes_s),
    )
