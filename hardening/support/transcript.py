"""Simulations as text one can read: a script above a line of dashes, and below it what happened.

    protocol link-state
    link 1 2 5                    costs and takes 5 ms; 1 dials 2. "link 1 2 5 both": both dial
    at 2000 crash 2               also: restart, lose, cut, cut-one-way, heal, slow, partition, join
    run 9000

Shown are faults, links, tables and what routing protocols say; pings, greetings and acknowledgements are left out.
"""

from hardening.machines.unicast import Scenario, check_unicast, simulate
from tidings.errors import UsageError
from tidings.overlay import effects as fx
from tidings.overlay.topology.graph import Graph
from tidings.routing.control.messages import FloodItem, FloodSummary, Topic, VectorRequest, VectorUpdate, Version
from tidings.routing.effects import Install
from tidings.routing.unicast.link_state import decode_links
from tidings.routing.unicast.protocol import INFINITY
from tidings.sim import faults
from tidings.sim.faults import Fault

DASHES = "-" * 20


def play(script: str) -> str:
    """Runs a script and returns the events line by line; at the end the tables are checked against the truth."""
    protocol, run_ms = "link-state", 0.0
    scenario = Scenario(Graph(), {}, [])
    for number, line in enumerate(script.splitlines(), 1):
        words = line.partition("#")[0].split()
        try:
            match words:
                case []:
                    pass
                case ["protocol", name]:
                    protocol = name
                case ["run", until]:
                    run_ms = float(until)
                case ["link", a, b, cost, *both]:
                    _add_link(scenario, int(a), int(b), float(cost), both == ["both"])
                case ["at", at, *fault]:
                    scenario.faults.append((float(at), _fault(fault)))
                case _:
                    raise ValueError(line)
        except (ValueError, TypeError):
            raise UsageError("E_SCRIPT", f"line {number} is not a valid command: {line!r}", position=number) from None
    lines: list[str] = []

    def trace(now: float, who: str, what: object) -> None:
        text = _describe(what)
        if text:
            lines.append(f"{now:8.1f}  {who:>3}  {text}")

    driver = simulate(protocol, 0, scenario, trace)
    driver.calendar.run(until=run_ms)
    check_unicast(driver, scenario.graph)
    return "\n".join(lines) + "\n"


def _add_link(scenario: Scenario, a: int, b: int, cost: float, both: bool) -> None:
    scenario.graph.add(a, b, cost)
    scenario.dials.setdefault(a, []).append(str(b))
    scenario.dials.setdefault(b, [])
    if both:
        scenario.dials[b].append(str(a))


def _fault(words: list[str]) -> Fault:
    numbers = [int(word) for word in words[1:]]
    match words[0]:
        case "crash":
            return faults.Crash(*numbers)
        case "restart":
            return faults.Restart(*numbers)
        case "lose":
            return faults.LoseHost(*numbers)
        case "cut":
            return faults.CutLink(*numbers)
        case "cut-one-way":
            return faults.CutOneWay(*numbers)
        case "heal":
            return faults.HealLink(*numbers)
        case "slow":
            return faults.Slow(*numbers)
        case "partition":
            return faults.Partition(tuple(numbers))
        case "join":
            return faults.Partition(())
        case _:
            raise ValueError(words[0])


def _describe(what: object) -> str:
    match what:
        case fx.LinkUp(peer=peer, incarnation=incarnation, latency_ms=latency_ms):
            return f"link to {peer} up (incarnation {incarnation}, {latency_ms:.1f} ms)"
        case fx.LinkDown(peer=peer, reason=reason):
            return f"link to {peer} down: {reason}"
        case Install(table=table):
            routes = [f"{one} by {route.next_hop} at {route.distance}" for one, route in sorted(table.routes.items())]
            return "ROUTES " + (", ".join(routes) or "none")
        case fx.Received(connection=connection, message=message):
            said = _said(message)
            return f"hears on {connection}: {said}" if said else ""
        case fx.Report(code=code, reason=reason):
            return f"reports {code}: {reason}"
        case str():
            return what
        case faults.Crash() | faults.Restart():
            return ""  # the process says so itself
        case _:
            return str(what)


def _said(message: fx.ControlMessage) -> str:
    match message:
        case FloodItem(topic=Topic.LINKS, origin=origin, version=version, payload=payload, full=full):
            links = (
                ", ".join(f"{peer} at {cost}" for peer, cost in decode_links(payload).items()) if full else "as before"
            )
            return f"links of {origin} {_version(version)}: {links or 'none'}"
        case FloodSummary(known=known):
            return "summary " + (", ".join(f"{one.origin} {_version(one.version)}" for one in known) or "of nothing")
        case VectorUpdate(routes=routes, whole=whole):
            told = (f"{to} {_version(version)} at {'∞' if far == INFINITY else far}" for to, version, far in routes)
            return f"{'whole table' if whole else 'changed'} " + ", ".join(told)
        case VectorRequest(destination=destination, version=version):
            return f"request for {destination} {_version(version)}"
        case _:
            return ""


def _version(version: Version) -> str:
    return f"v{version.incarnation}.{version.sequence}"
