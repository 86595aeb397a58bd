"""Workloads of the thesis's experiments (its chapter 3, and the joint grid of chapter 4).

Each kind of experiment is a function from its parameters to a `Design`: connections, subscriptions, publications,
copies of a message that leave the server, and the load in terms of the models of chapter 4. Messages are sent in
turn and are all of one size, so that the generator can count what comes back without reading it.

>>> design = SETUPS["and"]({"components": 3, "mismatch": "late"}, "t")
>>> design.setup.subscribers[1][0].selector
"P01 = '000' AND P02 = '000' AND P03 = '001'"
>>> design.copies, design.load.components
(1.0, 3)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from tidings.capacity.arrays import refuse
from tidings.capacity.processing import Load
from tidings.lab.connections import ConnectionSetup, WantedMessages, idle_filters
from tidings.lab.load_protocols import PROPERTY, LoadPlan

Parameter = int | float | str | bool
Parameters = Mapping[str, Parameter]

OR_SUBSCRIBERS, AND_SUBSCRIBERS, AND_PROPERTIES = 5, 10, 25  # sections 3.3.1 and 3.3.2
AGGREGATED = 4096  # subscriptions, section 3.4.1
MIX_TYPES = 64


@dataclass(frozen=True, slots=True)
class Design:
    setup: ConnectionSetup
    copies: float  # of one message, on average
    load: Load
    grades: tuple[int, ...] = ()  # receivers of each of the messages sent in turn, if they differ


class WorkloadParameters:
    """The parameters of a point, each taken once and checked; what nobody took is an error."""

    def __init__(self, kind: str, parameters: Parameters) -> None:
        self._kind, self._left = kind, dict(parameters)

    def number(self, name: str, default: int, low: int = 0, high: int = 1_000_000) -> int:
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise refuse(f"{self._kind}: {name} is a whole number from {low} to {high}, not {value!r}", "E_LAB_SETUP")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise refuse(f"{self._kind}: {name} is true or false, not {value!r}", "E_LAB_SETUP")
        return value

    def word(self, name: str, words: Sequence[str]) -> str:
        value = self._left.pop(name, words[0])
        if value not in words:
            raise refuse(f"{self._kind}: {name} is {' or '.join(words)}, not {value!r}", "E_LAB_SETUP")
        return str(value)

    def end(self) -> None:
        if self._left:
            raise refuse(f"{self._kind} has no parameter {', '.join(sorted(self._left))}", "E_LAB_SETUP")


def _filters(given: WorkloadParameters, topic: str) -> Design:
    """r subscribers that get everything, n more that get nothing; publishers, bodies and topics as wanted."""
    matching, others = given.number("matching", 1, 1, 4096), given.number("others", 0)
    topics, filtered = given.number("topics", 1, 1, 4096), given.flag("filtered", True)
    persistent, body = given.flag("persistent", False), b"x" * given.number("body", 0, 0, 1 << 20)
    publishers = given.number("publishers", 1, 1, 1000)
    names = [topic] if topics == 1 else [f"{topic}.{number:04d}" for number in range(topics)]
    selector = f"{PROPERTY} = '0'" if filtered else ""
    subscriber = tuple(WantedMessages(name, selector) for name in names)
    if persistent and matching > 1:
        raise refuse("filters: a persistent run has one durable subscriber", "E_LAB_SETUP")
    plans = tuple(LoadPlan(name, body, persistent, persistent) for name in names)
    setup = ConnectionSetup(plans, (subscriber,) * matching, idle_filters(names[0], others), publishers, persistent)
    installed = others + (matching if filtered else 0)
    return Design(setup, matching, Load(installed, matching, others + min(installed, 1)))


def _or(given: WorkloadParameters, topic: str) -> Design:
    """Section 3.3.1: n ids, by five subscribers with OR-filters or by one with a simple filter for each."""
    components, form = given.number("components", 1, 1, 1000), given.word("form", ("or", "simple"))
    publishers, count = given.number("publishers", 1, 1, 1000), OR_SUBSCRIBERS * components
    ids = [f"{number:05d}" for number in range(count)]
    each = [ids[j::OR_SUBSCRIBERS] for j in range(OR_SUBSCRIBERS)] if form == "or" else [[one] for one in ids]
    wanted = tuple((WantedMessages(topic, _any_of(part, "or")),) for part in each)
    load = Load(len(each), 1, components=len(each[0]))
    return Design(ConnectionSetup(_with_ids(topic, ids), wanted, publishers=publishers), 1.0, load)


def _and(given: WorkloadParameters, topic: str) -> Design:
    """Section 3.3.2: ten filters of n components that reject a message by their first or by their last one."""
    components, mismatch = given.number("components", 1, 1, AND_PROPERTIES), given.word("mismatch", ("early", "late"))
    publishers = given.number("publishers", 1, 1, 1000)
    decisive = 0 if mismatch == "early" else components - 1

    def properties(subscriber: int) -> list[tuple[str, str]]:
        values = [f"{subscriber if place == decisive else 0:03d}" for place in range(AND_PROPERTIES)]
        return [(f"P{place + 1:02d}", value) for place, value in enumerate(values)]

    def selector(subscriber: int) -> str:
        return " AND ".join(f"{name} = '{value}'" for name, value in properties(subscriber)[:components])

    plans = tuple(LoadPlan(topic, properties=tuple(properties(one))) for one in range(AND_SUBSCRIBERS))
    wanted = tuple((WantedMessages(topic, selector(one)),) for one in range(AND_SUBSCRIBERS))
    load = Load(AND_SUBSCRIBERS, 1, components=components)
    return Design(ConnectionSetup(plans, wanted, publishers=publishers), 1.0, load)


def _presence(given: WorkloadParameters, topic: str) -> Design:
    """Section 3.3.3: m users, each with a filter for k ids of its own."""
    users, ids = given.number("users", 50, 1, 20_000), given.number("ids", 5, 1, 1000)
    form, publishers = given.word("form", ("in", "or")), given.number("publishers", 1, 1, 1000)
    names = [f"{number:06d}" for number in range(users * ids)]
    wanted = tuple((WantedMessages(topic, _any_of(names[i * ids : (i + 1) * ids], form)),) for i in range(users))
    return Design(
        ConnectionSetup(_with_ids(topic, names), wanted, publishers=publishers), 1.0, Load(users, 1, components=ids)
    )


def _aggregation(given: WorkloadParameters, topic: str) -> Design:
    """Section 3.4.1: 4096 subscriptions on a number of connections. The native protocol and STOMP have no sessions."""
    connections, publishers = given.number("connections", 64, 1, AGGREGATED), given.number("publishers", 1, 1, 1000)
    if AGGREGATED % connections:
        raise refuse(f"aggregation: {AGGREGATED} subscriptions do not divide into {connections}", "E_LAB_SETUP")
    ids = [f"{number:04d}" for number in range(AGGREGATED)]
    wanted = tuple(
        tuple(WantedMessages(topic, f"id = '{one}'") for one in ids[c::connections]) for c in range(connections)
    )
    return Design(ConnectionSetup(_with_ids(topic, ids), wanted, publishers=publishers), 1.0, Load(AGGREGATED, 1))


def _mix(given: WorkloadParameters, topic: str) -> Design:
    """Messages of many types; every subscriber takes its own share of them, a probe all of them, others none.

    So the number of receivers varies from message to message, and who watches the probe knows what has come.
    """
    subscribers, percent = given.number("subscribers", 10, 0, 4096), given.number("match_percent", 100, 0, 100)
    others, body = given.number("others", 0), b"x" * given.number("body", 0, 0, 1 << 20)
    publishers = given.number("publishers", 1, 1, 1000)
    types = [f"{number:02d}" for number in range(MIX_TYPES)]
    taken = [Random(f"mix {one}").sample(types, MIX_TYPES * percent // 100) for one in range(subscribers)]
    wanted = tuple((WantedMessages(topic, _any_of(sorted(some), "in")),) for some in taken if some)
    grades = [1 + sum(one in some for some in taken) for one in types]
    plans = tuple(LoadPlan(topic, body, properties=((PROPERTY, "0"), ("id", one))) for one in types)
    setup = ConnectionSetup(plans, (*wanted, (WantedMessages(topic),)), idle_filters(topic, others), publishers)
    mean = sum(grades) / len(grades)
    return Design(setup, mean, Load(others + len(wanted) + 1, mean), tuple(grades))


def _any_of(ids: Sequence[str], form: str) -> str:
    quoted = [f"'{one}'" for one in ids]
    return f"id IN ({', '.join(quoted)})" if form == "in" else " OR ".join(f"id = {one}" for one in quoted)


def _with_ids(topic: str, ids: Sequence[str]) -> tuple[LoadPlan, ...]:
    return tuple(LoadPlan(topic, properties=(("id", one),)) for one in ids)


def _checked(kind: str, make: Callable[[WorkloadParameters, str], Design]) -> Callable[[Parameters, str], Design]:
    def design(parameters: Parameters, topic: str) -> Design:
        given = WorkloadParameters(kind, parameters)
        found = make(given, topic)
        given.end()
        return found

    return design


SETUPS: Mapping[str, Callable[[Parameters, str], Design]] = MappingProxyType(
    {
        kind: _checked(kind, make)
        for kind, make in {
            "filters": _filters,
            "or": _or,
            "and": _and,
            "presence": _presence,
            "aggregation": _aggregation,
            "mix": _mix,
        }.items()
    }
)


@dataclass(frozen=True, slots=True)
class Registration:
    """Parameters of `registration`."""

    subscriptions: int
    form: str
    active: bool  # publishers do not rest meanwhile

    @classmethod
    def of(cls, parameters: Parameters) -> "Registration":
        given = WorkloadParameters("registration", parameters)
        count, form = given.number("subscriptions", 1024, 1, 1 << 17), given.word("form", ("simple", "or", "in"))
        active = given.flag("active", False)
        given.end()
        return cls(count, form, active)


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """Parameters of `first-message`."""

    subscribers: int  # that come one after another
    groups: int

    @classmethod
    def of(cls, parameters: Parameters) -> "FirstMessage":
        given = WorkloadParameters("first-message", parameters)
        newcomers, groups = given.number("subscribers", 40, 1, 10_000), given.number("groups", 20, 1, 1000)
        given.end()
        return cls(newcomers, groups)


@dataclass(frozen=True, slots=True)
class WaitingWorkload:
    """Parameters of `waiting`: a mix at a rate; 0 is as fast as possible."""

    rate: int
    seconds: int
    design: Design

    @classmethod
    def of(cls, parameters: Parameters, topic: str = "check") -> "WaitingWorkload":
        given = WorkloadParameters("waiting", parameters)
        rate, seconds = given.number("rate", 0), given.number("seconds", 2, 1, 600)
        design = _mix(given, topic)
        given.end()
        if design.setup.publishers > 1:
            raise refuse("waiting: messages come over one connection; leave out publishers", "E_LAB_SETUP")
        return cls(rate, seconds, design)


SPECIAL: Mapping[str, Callable[[Parameters], object]] = MappingProxyType(  # measured by other means than throughput
    {"registration": Registration.of, "first-message": FirstMessage.of, "waiting": WaitingWorkload.of}
)
