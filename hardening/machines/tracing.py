"""Traces judged in the simulator: whole brokers with faults, and ids that moved, come again or are invented.

Brokers crash, restart, lose links and set their clocks; each records with a strategy of its own. Messages are published
as usual, sent again at the same broker or at another one than their ids name (their publisher moved), with ids of
brokers that do not exist, and with ids of other brokers that nothing proves. Afterwards each message is traced from
any broker, and the truth is known:

- whoever got a message is named, or a broker says that it is unsure, which only one that crashed may say;
- of a message that somebody got or that was accepted, no broker that is sure of itself says "no" for all of them;
- what an invented id would hide is refused: nobody gets it.

    python -m hardening.machines.tracing 17            # one seed; two numbers: all from the first to the second
    python -m hardening.machines.tracing 1 400 --processes 2 --results bench/results/hardening/tracing.json
"""

import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hardening.seeds import parser, run_seeds
from hardening.simulate import checkers
from hardening.simulate.choices import draw
from hardening.simulate.fault_plans import healing
from hardening.simulate.scenario import FAULTS_MS, SKEW_MS, random_scenario, random_tracking
from tidings.kernel.codec import altered, decode_message, encode_message
from tidings.kernel.forwarder import PERHAPS_SENT
from tidings.model.codec import ID
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.sim.brokers import Brokers, Subscriber
from tidings.sim.client import SimClient
from tidings.sim.faults import Crash, LoseHost, Unclog, inflict

START_MS, SETTLE_MS, ANSWER_MS, CONVERGE_MS, POLL_MS = 2500.0, 4000.0, 6000.0, 60_000.0, 500.0
MESSAGES = 120
SELECTORS = ("x > 3", "x < 2 AND y = 1", "y = 0", "")
WAYS = {"plain": 10, "again": 2, "moved": 3, "moved, lost before": 2, "unknown broker": 2, "spoofed": 2}
STRATEGIES = ("runs", "runs", "bloom", "async")
STRANGER = 4_000_000_000  # no broker has this number


@dataclass
class Sent:
    id: bytes
    way: str
    at: float
    clients: list[tuple[int, SimClient, int]] = field(default_factory=list)  # where, by whom, receipt

    def accepted(self) -> set[int]:
        """Brokers that confirmed it."""
        return {router for router, client, receipt in self.clients if receipt in client.receipts}


class Run:
    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"traces {seed}")
        schemes = {"world": "brokers", "scheme": rng.choice(("bdrp", "flooding", "covering-selective"))}
        schemes["overlay"] = rng.choice(("tree", "ring", "waxman", "barabasi-albert"))
        fixed = {"tracking": "runs", "moment": "any", "strain": "none", "roll": "none"}
        self.scenario = one = random_scenario(draw(seed, **schemes, **fixed))
        self.tracking = {router: random_tracking(rng.choice(STRATEGIES), rng) for router in one.settings}
        self.brokers = Brokers(
            one.graph, one.settings, seed, one.skews_ms, tracking=self.tracking, sizes=one.sizes, later=one.later
        )
        self.routers = list(one.settings)
        self.sent: list[Sent] = []

    def run(self) -> Counter[str]:
        brokers, rng = self.brokers, self.rng
        for router in self.routers:
            for _ in range(rng.randint(1, 2)):
                brokers.subscribe(router, rng.choice(SELECTORS))
        self.until(START_MS)
        self.converge()
        start = brokers.calendar.now
        for at, fault in self.scenario.faults:
            brokers.calendar.at(start + at, inflict, brokers.driver, fault, brokers.hosts)
        for _ in range(MESSAGES):
            brokers.calendar.at(start + rng.uniform(0, FAULTS_MS), self.publish)
        self.until(start + FAULTS_MS)
        for fault in [*healing(self.scenario.graph, self.routers), *self.unclogging()]:
            inflict(brokers.driver, fault, brokers.hosts)
        self.until(brokers.calendar.now + SETTLE_MS)
        self.converge()
        brokers.collect()
        return self.judge()

    def until(self, at: float) -> None:
        self.brokers.calendar.run(until=at)

    def converge(self) -> None:
        limit = self.brokers.calendar.now + CONVERGE_MS
        while missing := checkers.converged(self.brokers, pan=False):
            if self.brokers.calendar.now >= limit:
                checkers.fail("converges", missing)
            self.until(self.brokers.calendar.now + POLL_MS)

    def unclogging(self) -> list[Unclog]:
        edges = [(int(edge.a), int(edge.b)) for edge in self.scenario.graph.edges()]
        ways = [way for a, b in edges for way in ((a, b), (b, a))]
        return [Unclog(a, b) for a, b in ways if self.brokers.driver.network.wire(a, b).stuck is not None]

    # --- messages -------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        rng = self.rng
        router, way = rng.choice(self.routers), rng.choices(list(WAYS), list(WAYS.values()))[0]
        attributes: dict[str, Value] = {"x": rng.randint(0, 6), "y": rng.randint(0, 1)}
        stray_ms = self.scenario.skews_ms[router] + rng.uniform(-SKEW_MS, SKEW_MS)
        message = self.brokers.message(router, attributes, persistent=False, stray_ms=stray_ms)
        others = [other for other in self.routers if other != router]
        if way in ("spoofed", "unknown broker"):
            own = MessageId.from_bytes(message[ID])
            named = STRANGER if way == "unknown broker" else rng.choice([*others, STRANGER])
            message = encode_message(altered(decode_message(message), id=MessageId(9, named, own.ms, own.counter)))
        one = Sent(message[ID], way, self.brokers.calendar.now)
        self.sent.append(one)
        after = self.brokers.calendar.after
        match way:
            case "plain" | "spoofed":
                self._send(one, router, message, 0)
            case "unknown broker":
                self._send(one, router, message, PERHAPS_SENT)
            case "again":
                self._send(one, router, message, 0)
                after(rng.uniform(1, 400), self._send, one, router, message, PERHAPS_SENT)
            case "moved":
                self._send(one, router, message, 0)
                after(rng.uniform(1, 400), self._send, one, rng.choice(others), message, PERHAPS_SENT)
            case _:
                after(rng.uniform(1, 400), self._send, one, rng.choice(others), message, PERHAPS_SENT)

    def _send(self, one: Sent, router: int, message: bytes, flags: int) -> None:
        number = sum(len(other.clients) for other in self.sent) + 1
        client = self.brokers.send(router, message, number, flags=flags)
        if client is not None:
            one.clients.append((router, client, number))

    # --- the truth ------------------------------------------------------------------------------------------------

    def judge(self) -> Counter[str]:
        crashed = {fault.node for _, fault in self.scenario.faults if isinstance(fault, Crash | LoseHost)}
        asked = [(one, self.brokers.trace(self.rng.choice(self.routers), one.id)) for one in self.sent]
        self.until(self.brokers.calendar.now + ANSWER_MS)
        figures: Counter[str] = Counter(faults=len(self.scenario.faults))
        everybody = [*self.brokers.subscribers, *self.brokers.gone]
        for one, client in asked:
            got_by = [who for who in everybody if who.got[one.id]]
            self.check(one, client, got_by, crashed)
            figures.update(traces=1, deliveries=len(got_by), **{one.way.replace(", ", "_").replace(" ", "_"): 1})
        return figures

    def check(self, one: Sent, client: SimClient, got_by: list[Subscriber], crashed: set[int]) -> None:
        what = f"{one.id.hex()} ({one.way})"
        if len(client.paths) != 1:
            checkers.fail("tracking", f"no answer about {what}: {client.failures}")
        (path,) = client.paths
        unsure = set(path.unknown)
        if set(path.unasked) - {STRANGER}:
            checkers.fail("tracking", f"{what} was not asked for everywhere: {path.unasked}")
        if not unsure <= crashed:
            checkers.fail("tracking", f"{what}: {unsure} are unsure and only {crashed} crashed")
        if one.way == "spoofed":
            if got_by or any(not client.ended for _, client, _ in one.clients if client.life >= 0 and client.receipts):
                checkers.fail("tracking", f"{what} was taken; {[who.name for who in got_by]} got it")
            return
        entered = one.accepted()
        if entered - unsure and not path.confirmed:
            checkers.fail("tracking", f"{what} was accepted by {entered}, and nobody has it")
        named = {(broker, statement.peer) for broker, statement in path.subscribers}
        for who in got_by:
            late = who.router in crashed and self._late(who, one)
            if (who.router, who.name) not in named and who.router not in unsure and not late:
                checkers.fail("tracking", f"{what} reached {who.name} at {who.router}; {sorted(named)} are named")

    def _late(self, who: Subscriber, one: Sent) -> bool:
        """True if it was delivered so long after its time that a crash just then may have left no trace of it."""
        deliveries = [] if who.client is None else who.client.deliveries
        at = max((delivery.at for delivery in deliveries if delivery.message[ID] == one.id), default=one.at)
        return at - one.at > self.tracking[who.router].persist_ms / 2


def judged(seed: int) -> dict[str, int]:
    return dict(Run(seed).run())


def main() -> int:
    return run_seeds(parser("machines.tracing", __doc__ or "").parse_args(), "traces", judged)


if __name__ == "__main__":
    sys.exit(main())
