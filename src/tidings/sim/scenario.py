"""Simulations from a file: a network of brokers, clients and faults, and what happened, line by line.

    scheme = "bdrp"                      # or flooding; also unicast, encoding, broadcast_above
    run_ms = 9000
    random_faults = 3                    # besides those below: drawn from the seed, healed in the end
    [topology]                           # as in topology files
    latency_ms = 5
    links = [{between = ["paris", "oslo"]}, {between = ["oslo", "rome"]}]
    [[subscribe]]
    at = 100
    broker = "rome"
    selector = "price > 20"
    durable = true
    [[publish]]
    at = 3000
    broker = "paris"
    attributes = {price = 50}
    persistent = true
    [[fault]]
    at = 2000
    crash = "oslo"                       # restart, lose, cut = [a, b], cut_one_way, heal, partition = [...], join

Everything follows from the file and the seed.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tidings.errors import UsageError
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.node.network.settings import NetworkSettings
from tidings.overlay import effects as fx
from tidings.overlay.link.machine import LinkOptions
from tidings.overlay.topology.graph import Graph
from tidings.overlay.topology.toml_format import from_dict
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.sim import faults
from tidings.sim.brokers import Brokers
from tidings.sim.calendar import Calendar
from tidings.sim.faults import Fault, inflict, random_faults
from tidings.sim.scenario_tables import Fields, Publish, ScenarioSubscribe, read_publish, read_subscribe, refuse

ENCODINGS: dict[str, Callable[[], InterestEncoding]] = {
    "vectors": InterestEncoding,
    "elements": lambda: InterestEncoding(vectors=False),
    "graded": lambda: InterestEncoding(Encoding(grade=GradedGrade()), vectors=False),
}
# Quicker than in production, so that a run is short; the proportions are the same.
LINK = LinkOptions(
    heartbeat_ms=500, suspect_ms=1200, dead_ms=2500, handshake_ms=1500, backoff_first_ms=50, backoff_max_ms=1000
)
TOP = {"scheme", "unicast", "encoding", "broadcast_above", "run_ms", "random_faults"}
TOP |= {"topology", "subscribe", "publish", "fault"}
SUBSCRIBE = {"at", "broker", "selector", "durable"}
EVENTS_AT_ONCE = 100  # before it is asked again whether to stop
PUBLISH = {"at", "broker", "attributes", "persistent", "count", "every_ms"}


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    lines: tuple[str, ...]
    published: int
    matched: int  # pairs of a publication and a subscription that wants it
    delivered: int


class Scenario:
    """A file, checked; `run` carries it out."""

    def __init__(self, data: dict[str, Any]) -> None:
        fields = Fields(data, "the scenario", TOP)
        shape = from_dict(Fields(data.get("topology", {}), "topology").data)
        self.names: dict[str, int] = {}
        for number, node in enumerate(shape, 1):
            if self.names.setdefault(str(node), number) != number:
                raise refuse(f"topology: two brokers are called {node}")
        self._labels = {number: name for name, number in self.names.items()}
        self.graph = Graph()
        for name in self.names:
            self.graph.add_node(self.names[name])
        for edge in shape.edges():
            ends = self.names[str(edge.a)], self.names[str(edge.b)]
            self.graph.add(*ends, edge.latency_ms, edge.bandwidth_bytes_s)
        self.run_ms = fields.number("run_ms", 10_000.0)
        self._faults = [(one.number("at"), self._fault(one)) for one in fields.tables("fault")]
        self._random_count = fields.whole("random_faults", 0)
        if self._random_count and not list(self.graph.edges()):
            raise refuse("random_faults need a link that may fail")
        subscribes, publishes = fields.tables("subscribe", SUBSCRIBE), fields.tables("publish", PUBLISH)
        self._subscribes = [read_subscribe(one) for one in subscribes]
        self._publishes = [read_publish(one) for one in publishes]
        for one in (*subscribes, *publishes):
            self._router(one, one.data.get("broker"))
        self._settings = self._settings_of(fields)

    @classmethod
    def from_toml(cls, text: str) -> "Scenario":
        try:
            return cls(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise refuse(str(error)) from None
        except RecursionError:
            raise refuse("too deeply nested") from None

    @property
    def message_count(self) -> int:
        return sum(one.count for one in self._publishes)

    @property
    def fault_count(self) -> int:
        return len(self._faults) + self._random_count

    def run(self, seed: int, stopped: Callable[[], bool] = lambda: False) -> ScenarioOutcome:
        """`stopped` is asked now and then; once it says so the run ends with E_STOPPED."""
        lines: list[str] = []

        def trace(now: float, who: str, what: object) -> None:
            if text := self._describe(what):
                name = self._labels[int(who)] if who.isdecimal() else who
                lines.append(f"{now:9.1f}  {name}  {text}")

        brokers = Brokers(self.graph, self._settings, seed, trace=trace)
        calendar = brokers.calendar
        for wish in self._subscribes:
            calendar.at(wish.at, self._subscribe, brokers, wish, trace)
        for one in self._publishes:
            for number in range(one.count):
                calendar.at(one.at + number * one.every_ms, self._publish, brokers, one, trace)
        for at, fault in [*self._faults, *self._random_faults(seed)]:
            calendar.at(at, self._strike, brokers, fault, trace)
        _run(calendar, self.run_ms, stopped)
        brokers.read_durables()
        _run(calendar, self.run_ms + 100, stopped)
        brokers.check_nobody_twice()
        return self._judge(brokers, lines, stopped)

    def _judge(self, brokers: Brokers, lines: list[str], stopped: Callable[[], bool]) -> ScenarioOutcome:
        brokers.collect()
        matched = delivered = 0
        for subscriber in brokers.subscribers:
            _heed(stopped)
            wanted = [one for one in brokers.publications if subscriber.wants(one.attributes)]
            got = sum(subscriber.got.values())
            matched, delivered = matched + len(wanted), delivered + got
            kind = "durable" if subscriber.durable else "subscriber"
            name = self._labels[subscriber.router]
            lines.append(f"{kind} {subscriber.selector!r} at {name}: {got} of {len(wanted)}")
        return ScenarioOutcome(tuple(lines), len(brokers.publications), matched, delivered)

    # --- what the file says ---------------------------------------------------------------------------------------

    def _settings_of(self, fields: Fields) -> dict[int, NetworkSettings]:
        name, unicast = fields.text("encoding", "graded"), fields.text("unicast", "link-state")
        scheme, broadcast_above = fields.text("scheme", "bdrp"), fields.whole("broadcast_above", 0)
        if name not in ENCODINGS:
            raise refuse(f"there is no encoding {name!r}; there are {', '.join(ENCODINGS)}")
        dials: dict[int, list[tuple[str, int]]] = {router: [] for router in self.names.values()}
        for edge in self.graph.edges():
            dials[int(edge.a)].append((str(edge.b), int(edge.b)))
        return {
            router: NetworkSettings(
                router, "simulated", tuple(others), unicast, scheme, ENCODINGS[name](), broadcast_above, link=LINK
            )
            for router, others in dials.items()
        }

    def _router(self, where: Fields, name: object) -> int:
        if name is None:
            raise refuse(f"{where.where}: broker is missing")
        if str(name) not in self.names:
            raise refuse(f"{where.where}: there is no broker {name!r} in the topology")
        return self.names[str(name)]

    def _fault(self, one: Fields) -> Fault:
        kinds = [name for name in one.data if name != "at"]
        if len(kinds) != 1:
            raise refuse(f"{one.where}: a fault does one thing, not {len(kinds)}")
        kind, value = kinds[0], one.data[kinds[0]]
        match kind:
            case "crash":
                return faults.Crash(self._router(one, value))
            case "restart":
                return faults.Restart(self._router(one, value))
            case "lose":
                return faults.LoseHost(self._router(one, value))
            case "cut":
                return faults.CutLink(*self._pair(one, value))
            case "cut_one_way":
                return faults.CutOneWay(*self._pair(one, value))
            case "heal":
                return faults.HealLink(*self._pair(one, value))
            case "partition":
                return faults.Partition(self._group(one, value))
            case "join":
                return faults.Partition(())
        raise refuse(f"{one.where}: there is no fault {kind!r}")

    def _group(self, one: Fields, names: object) -> tuple[int, ...]:
        if not isinstance(names, list):
            raise refuse(f"{one.where}: brokers are a list, not {names!r:.40}")
        return tuple(self._router(one, name) for name in names)

    def _pair(self, one: Fields, names: object) -> tuple[int, int]:
        group = self._group(one, names)
        if len(group) != 2 or group[1] not in self.graph.neighbours(group[0]):
            raise refuse(f"{one.where}: there is no link between {' and '.join(map(self._label, group)) or 'nobody'}")
        return group[0], group[1]

    def _random_faults(self, seed: int) -> list[tuple[float, Fault]]:
        """In the first half; everything they break is mended at three quarters."""
        if not self._random_count:
            return []
        plan = random_faults(self.graph, Random(f"faults {seed}"), self._random_count, self.run_ms / 2)
        mended: list[Fault] = [faults.Partition(())]
        mended += [faults.HealLink(int(edge.a), int(edge.b)) for edge in self.graph.edges()]
        mended += [faults.Slow(int(edge.a), int(edge.b), 0.0) for edge in self.graph.edges()]
        mended += [faults.Restart(router) for router in self.names.values()]
        return [*plan, *((self.run_ms * 0.75, one) for one in mended)]

    # --- what happens ---------------------------------------------------------------------------------------------

    def _subscribe(self, brokers: Brokers, one: ScenarioSubscribe, trace: Callable[[float, str, object], None]) -> None:
        router, selector = self.names[str(one.broker)], one.selector
        done = brokers.subscribe(router, selector, durable=one.durable)
        trace(brokers.calendar.now, str(router), f"subscribes {selector!r}" if done else "is down: no subscription")

    def _publish(self, brokers: Brokers, one: Publish, trace: Callable[[float, str, object], None]) -> None:
        router, attributes = self.names[str(one.broker)], dict(one.attributes)
        done = brokers.publish(router, attributes, persistent=one.persistent)
        trace(brokers.calendar.now, str(router), f"publishes {attributes}" if done else "is down: nothing published")

    @staticmethod
    def _strike(brokers: Brokers, fault: Fault, trace: Callable[[float, str, object], None]) -> None:
        trace(brokers.calendar.now, "*", fault)
        inflict(brokers.driver, fault)

    def _describe(self, what: object) -> str:
        match what:
            case str():
                quiet = what.startswith(("closes", "loses", "dials"))
                return "" if quiet else what
            case fx.Report(code="LINK_UP" | "LINK_DOWN" as code, reason=reason) if reason.startswith("router "):
                number, _, _ = reason.removeprefix("router ").partition(":")
                peer = self._labels[int(number)]
                return f"link to {peer} {'up' if code == 'LINK_UP' else 'down'}"
            case fx.Received():
                return ""
            case _ if type(what).__module__ == faults.__name__:
                values = [getattr(what, name) for name in type(what).__dataclass_fields__]  # type: ignore[attr-defined]
                return " ".join([type(what).__name__, *map(self._label, values)])
        return ""

    def _label(self, value: object) -> str:
        if isinstance(value, tuple):
            return ", ".join(map(self._label, value)) or "ends"
        return self._labels[value] if isinstance(value, int) else f"{value:g} ms"


def _run(calendar: Calendar, until: float, stopped: Callable[[], bool]) -> None:
    while calendar.run(until, EVENTS_AT_ONCE) == EVENTS_AT_ONCE:
        _heed(stopped)


def _heed(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise UsageError("E_STOPPED", "the run was stopped")
