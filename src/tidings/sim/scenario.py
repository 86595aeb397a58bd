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
from tidings.node.network_settings import NetworkSettings
from tidings.overlay import effects as fx
from tidings.overlay.graph import Graph
from tidings.overlay.link import LinkOptions
from tidings.overlay.topology import from_dict
from tidings.routing.interests import InterestEncoding
from tidings.sim import faults
from tidings.sim.brokers import Brokers
from tidings.sim.faults import Fault, inflict, random_faults

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


@dataclass(frozen=True, slots=True)
class Outcome:
    lines: tuple[str, ...]
    published: int
    matched: int  # pairs of a publication and a subscription that wants it
    delivered: int


class Scenario:
    """A file, checked; `run` carries it out."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        _known(data, TOP, "the scenario")
        shape = from_dict(data.get("topology", {}))
        self.names = {str(node): number for number, node in enumerate(shape, 1)}
        self._labels = {number: name for name, number in self.names.items()}
        self.graph = Graph()
        for name in self.names:
            self.graph.add_node(self.names[name])
        for edge in shape.edges():
            ends = self.names[str(edge.a)], self.names[str(edge.b)]
            self.graph.add(*ends, edge.latency_ms, edge.bandwidth_bytes_s)
        self.run_ms = float(data.get("run_ms", 10_000))
        self._faults = [(float(one["at"]), self._fault(one)) for one in data.get("fault", [])]
        for kind, fields in (
            ("subscribe", {"at", "broker", "selector", "durable"}),
            ("publish", {"at", "broker", "attributes", "persistent", "count", "every_ms"}),
        ):
            for one in data.get(kind, []):
                _known(one, fields, kind)
                self._router(one.get("broker"))

    @classmethod
    def from_toml(cls, text: str) -> "Scenario":
        try:
            return cls(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise UsageError("E_SCENARIO", str(error)) from None
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError("E_SCENARIO", f"something is missing or of another kind: {error!r}") from None

    def run(self, seed: int) -> Outcome:
        lines: list[str] = []

        def trace(now: float, who: str, what: object) -> None:
            if text := self._describe(what):
                name = self._labels[int(who)] if who.isdigit() else who
                lines.append(f"{now:9.1f}  {name}  {text}")

        brokers = Brokers(self.graph, self._settings(), seed, trace=trace)
        calendar = brokers.calendar
        for one in self._data.get("subscribe", []):
            calendar.at(float(one["at"]), self._subscribe, brokers, one, trace)
        for one in self._data.get("publish", []):
            for number in range(int(one.get("count", 1))):
                at = float(one["at"]) + number * float(one.get("every_ms", 1))
                calendar.at(at, self._publish, brokers, one, trace)
        for at, fault in [*self._faults, *self._random_faults(seed)]:
            calendar.at(at, self._strike, brokers, fault, trace)
        calendar.run(until=self.run_ms)
        brokers.read_durables()
        calendar.run(until=self.run_ms + 100)
        brokers.check_nobody_twice()
        return self._judge(brokers, lines)

    def _judge(self, brokers: Brokers, lines: list[str]) -> Outcome:
        brokers.collect()
        matched = delivered = 0
        for subscriber in brokers.subscribers:
            wanted = [one for one in brokers.publications if subscriber.wants(one.attributes)]
            got = sum(subscriber.got.values())
            matched, delivered = matched + len(wanted), delivered + got
            kind = "durable" if subscriber.durable else "subscriber"
            name = self._labels[subscriber.router]
            lines.append(f"{kind} {subscriber.selector!r} at {name}: {got} of {len(wanted)}")
        return Outcome(tuple(lines), len(brokers.publications), matched, delivered)

    # --- what the file says ---------------------------------------------------------------------------------------

    def _settings(self) -> dict[int, NetworkSettings]:
        data = self._data
        name = data.get("encoding", "graded")
        if name not in ENCODINGS:
            raise UsageError("E_SCENARIO", f"there is no encoding {name!r}; there are {', '.join(ENCODINGS)}")
        dials: dict[int, list[tuple[str, int]]] = {router: [] for router in self.names.values()}
        for edge in self.graph.edges():
            dials[int(edge.a)].append((str(edge.b), int(edge.b)))
        return {
            router: NetworkSettings(
                router,
                "simulated",
                tuple(others),
                data.get("unicast", "link-state"),
                data.get("scheme", "bdrp"),
                ENCODINGS[name](),
                int(data.get("broadcast_above", 0)),
                link=LINK,
            )
            for router, others in dials.items()
        }

    def _router(self, name: object) -> int:
        if str(name) not in self.names:
            raise UsageError("E_SCENARIO", f"there is no broker {name!r} in the topology")
        return self.names[str(name)]

    def _fault(self, one: dict[str, Any]) -> Fault:
        [(kind, value)] = [(name, value) for name, value in one.items() if name != "at"]
        match kind:
            case "crash":
                return faults.Crash(self._router(value))
            case "restart":
                return faults.Restart(self._router(value))
            case "lose":
                return faults.LoseHost(self._router(value))
            case "cut":
                return faults.CutLink(*self._pair(value))
            case "cut_one_way":
                return faults.CutOneWay(*self._pair(value))
            case "heal":
                return faults.HealLink(*self._pair(value))
            case "partition":
                return faults.Partition(tuple(self._router(name) for name in value))
            case "join":
                return faults.Partition(())
        raise UsageError("E_SCENARIO", f"there is no fault {kind!r}")

    def _pair(self, names: list[object]) -> tuple[int, int]:
        a, b = names
        return self._router(a), self._router(b)

    def _random_faults(self, seed: int) -> list[tuple[float, Fault]]:
        """In the first half; everything they break is mended at three quarters."""
        count = int(self._data.get("random_faults", 0))
        if not count:
            return []
        plan = random_faults(self.graph, Random(f"faults {seed}"), count, self.run_ms / 2)
        mended: list[Fault] = [faults.Partition(())]
        mended += [faults.HealLink(int(edge.a), int(edge.b)) for edge in self.graph.edges()]
        mended += [faults.Slow(int(edge.a), int(edge.b), 0.0) for edge in self.graph.edges()]
        mended += [faults.Restart(router) for router in self.names.values()]
        return [*plan, *((self.run_ms * 0.75, one) for one in mended)]

    # --- what happens ---------------------------------------------------------------------------------------------

    def _subscribe(self, brokers: Brokers, one: dict[str, Any], trace: Callable[[float, str, object], None]) -> None:
        router, selector = self._router(one["broker"]), str(one.get("selector", ""))
        done = brokers.subscribe(router, selector, durable=bool(one.get("durable", False)))
        trace(brokers.calendar.now, str(router), f"subscribes {selector!r}" if done else "is down: no subscription")

    def _publish(self, brokers: Brokers, one: dict[str, Any], trace: Callable[[float, str, object], None]) -> None:
        router, attributes = self._router(one["broker"]), dict(one.get("attributes", {}))
        done = brokers.publish(router, attributes, persistent=bool(one.get("persistent", False)))
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
                peer = self._labels[int(reason.removeprefix("router "))]
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


def _known(data: dict[str, Any], names: set[str], where: str) -> None:
    for name in data:
        if name not in names:
            raise UsageError("E_SCENARIO", f"{where} has no field {name!r}; it may have {', '.join(sorted(names))}")
