"""A simulated network of whole brokers: topology, clients and publications, and the checkers that judge it.

The truth is central: the selectors of all clients, and what was published where. Checkers compare what clients got with
it:

- in stable phases everyone gets exactly what matches, once;
- at any time nobody gets anything twice, or anything that does not match;
- a persistent message that was accepted is in every matching durable subscription once all faults are healed, once;
- tables equal a fresh computation: routes the shortest, interests those that the other brokers have now.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import PERHAPS_SENT
from tidings.model.codec import ID
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import COUNTER_MAX, MessageId
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.network.settings import NetworkSettings
from tidings.node.requests import Subscribe
from tidings.node.requests import Trace as TraceRequest
from tidings.overlay.topology.graph import Graph, distances
from tidings.sim.broker import Action, SimBroker, Sizes
from tidings.sim.calendar import Calendar
from tidings.sim.client import SimClient
from tidings.sim.driver import Driver, Trace
from tidings.sim.host import DiskRecords, Host
from tidings.sim.network import PhysicalNetwork
from tidings.sim.paths import direct
from tidings.tracking.recording.recorder import TrackingSettings as TrackingSettings

TOPIC = "ticks"
EPOCH_MS = 10**9  # what clocks show when a simulation begins, less their skews


@dataclass(eq=False)
class Subscriber:
    """A subscription as the truth knows it. A durable one has no client until it is read."""

    router: int
    number: int
    selector: str
    durable: bool = False
    client: SimClient | None = None
    got: Counter[bytes] = field(default_factory=Counter)
    order: list[bytes] = field(default_factory=list)  # of what it got
    taken: int = 0  # deliveries of the client that were counted already

    @property
    def client_id(self) -> str:
        return f"client-{self.number}"

    @property
    def name(self) -> str:
        """The name used by tracking."""
        return f"durable:{self.client_id}:durable {self.number}" if self.durable else self.client_id

    def wants(self, attributes: Mapping[str, Value]) -> bool:
        return Selector(self.selector).matches(attributes) is True


@dataclass(eq=False)
class SimulatedPublication:
    router: int
    id: bytes
    attributes: dict[str, Value]
    persistent: bool
    receipt: int
    clients: list[SimClient]  # who sent it, and sent it again
    at: float
    queue: str = ""  # empty: to the topic
    committed: Callable[[], bool] | None = None  # of a transaction

    @property
    def accepted(self) -> bool:
        if self.committed is not None:
            return self.committed()
        return any(self.receipt in client.receipts for client in self.clients)


class Brokers:
    def __init__(
        self,
        graph: Graph,
        settings: Mapping[int, NetworkSettings],
        seed: int,
        skews_ms: Mapping[int, float] | None = None,
        trace: Trace | None = None,
        service: Callable[[Any], float] | None = None,
        tracking: TrackingSettings | Mapping[int, TrackingSettings] | None = None,
        sizes: Mapping[int, Sizes] | None = None,
        later: Mapping[int, NetworkSettings] | None = None,  # of hosts that were reconfigured (faults.Reconfigure)
    ) -> None:
        self.graph = graph
        self.calendar = Calendar()
        network = PhysicalNetwork.of_graph(self.calendar, graph, direct)
        self.driver = Driver(network, trace=trace, encode=lambda data: data, decode=lambda data: data, service=service)
        strategies = tracking if isinstance(tracking, Mapping) else dict.fromkeys(settings, tracking)
        self.hosts = {router: Host(records=DiskRecords(strategies[router])) for router in settings}
        self.subscribers: list[Subscriber] = []
        self.gone: list[Subscriber] = []  # who were there before
        self.publications: list[SimulatedPublication] = []
        self._numbers = self._messages = 0
        for router, one in settings.items():
            skew_ms = (skews_ms or {}).get(router, 0.0)

            def make(
                life: int, router: int = router, one: NetworkSettings = one, skew_ms: float = skew_ms
            ) -> SimBroker:
                host = self.hosts[router]
                wall_ms = EPOCH_MS + self.calendar.now + skew_ms + host.ahead_ms  # as a real process takes it
                rng = Random(f"{seed} {router} {life}")
                now = later[router] if later is not None and host.reconfigured else one
                return SimBroker(now, host, int(wall_ms) + life, rng, (sizes or {}).get(router))

            self.driver.add(str(router), router, make, skew_ms)
        for router in settings:
            self.driver.start(str(router))

    def broker(self, router: int) -> SimBroker | None:
        machine = self.driver.processes[str(router)].machine
        return machine if isinstance(machine, SimBroker) else None

    def call(self, router: int, act: Action) -> None:
        """A client acts."""
        self.driver.call(str(router), act)

    def frozen(self, router: int) -> bool:
        """Its process is stopped: clients hear nothing and wait."""
        return self.driver.processes[str(router)].frozen is not None

    def running(self) -> dict[int, SimBroker]:
        found = {router: self.broker(router) for router in self.hosts}
        return {router: broker for router, broker in found.items() if broker is not None}

    # --- clients --------------------------------------------------------------------------------------------------

    def subscribe(self, router: int, selector: str, *, durable: bool = False) -> Subscriber | None:
        """A new subscription; None if the broker is down. A durable one is left by its client at once."""
        broker = self.broker(router)
        if broker is None or self.frozen(router):
            return None
        self._numbers += 1
        subscriber = Subscriber(router, self._numbers, selector, durable)
        self.subscribers.append(subscriber)
        self._attach(broker, subscriber)
        if durable:
            client, subscriber.client = subscriber.client, None
            assert client is not None
            self.driver.call(str(router), lambda machine, now: machine.disconnect(now, client))
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Its client goes away."""
        broker, client = self.broker(subscriber.router), subscriber.client
        if broker is not None and client is not None and client.number in broker.clients:
            self.collect()
            self.driver.call(str(subscriber.router), lambda machine, now: machine.disconnect(now, client))
        self.forget(subscriber)

    def forget(self, subscriber: Subscriber) -> None:
        """Its client has gone away."""
        self.collect()
        self.subscribers.remove(subscriber)
        self.gone.append(subscriber)

    def _attach(self, broker: SimBroker, subscriber: Subscriber) -> None:
        name = f"durable {subscriber.number}" if subscriber.durable else ""
        request = Subscribe(1, 1, TOPIC, subscriber.selector, durable=name, credit=1_000_000 if name else 0)

        def act(machine: SimBroker, now: float) -> list[Any]:
            subscriber.client = machine.connect(now, subscriber.client_id)
            return machine.request(now, subscriber.client, request)

        self.driver.call(str(subscriber.router), act)

    def read_durables(self) -> None:
        """A client comes for each durable subscription and is given what waits."""
        for subscriber in self.subscribers:
            broker = self.broker(subscriber.router)
            if subscriber.durable and broker is not None:
                self._attach(broker, subscriber)

    def publish(
        self,
        router: int,
        attributes: dict[str, Value],
        *,
        persistent: bool = False,
        stray_ms: float = 0.0,
        queue: str = "",
        writer: SimClient | None = None,
    ) -> SimulatedPublication | None:
        """A new message; by the publisher's clock it is `stray_ms` later than by the calendar. None: nobody took it.
        `writer`: a client of that broker; otherwise one comes for this message alone."""
        message = self.message(router, attributes, persistent=persistent, stray_ms=stray_ms, queue=queue)
        number = len(self.publications) + 1
        client = self.send(router, message, number, writer=writer)
        if client is None:
            return None
        one = SimulatedPublication(
            router, message[ID], attributes, persistent, number, [client], self.calendar.now, queue
        )
        self.publications.append(one)
        return one

    def message(
        self, router: int, attributes: dict[str, Value], *, persistent: bool, stray_ms: float = 0.0, queue: str = ""
    ) -> bytes:
        """The next message that somebody publishes at a router."""
        self._messages += 1
        # After as many as an id can count the next publisher goes on, or ids of one moment would come again.
        before, counter = divmod(self._messages, COUNTER_MAX + 1)
        id = MessageId(1 + before, router, int(self.calendar.now + stray_ms), counter)
        destination = Destination(queue, queue=True) if queue else Destination(TOPIC)
        return encode_message(Message(destination, attributes, id=id, persistent=persistent))

    def publish_again(self, one: SimulatedPublication) -> None:
        """Its client does not know whether it arrived and sends it once more, over a new connection."""
        destination = Destination(one.queue, queue=True) if one.queue else Destination(TOPIC)
        message = Message(destination, one.attributes, id=MessageId.from_bytes(one.id), persistent=one.persistent)
        client = self.send(one.router, encode_message(message), one.receipt, flags=PERHAPS_SENT)
        if client is not None:
            one.clients.append(client)

    def send(
        self, router: int, message: bytes, number: int, *, flags: int = 0, writer: SimClient | None = None
    ) -> SimClient | None:
        """An encoded message; `number`: of the receipt. None: nobody took it."""
        broker = self.broker(router)
        if (
            broker is None
            or self.frozen(router)
            or (writer is not None and broker.clients.get(writer.number) is not writer)
        ):
            return None
        found: list[SimClient] = []

        def act(machine: SimBroker, now: float) -> list[Any]:
            client = writer or machine.connect(now)
            found.append(client)
            return machine.publish(now, client, message, number, flags=flags)

        self.driver.call(str(router), act)
        return found[0]

    def trace(self, router: int, id: bytes) -> SimClient:
        """Ask a running broker where a message went; the client has the answer some time later."""
        found: list[SimClient] = []

        def act(machine: SimBroker, now: float) -> list[Any]:
            found.append(machine.connect(now))
            return machine.request(now, found[0], TraceRequest(1, MessageId.from_bytes(id)))

        self.driver.call(str(router), act)
        return found[0]

    def collect(self) -> None:
        """Count what clients were given since the last time."""
        for subscriber in self.subscribers:
            client = subscriber.client
            if client is not None:
                new = client.deliveries[subscriber.taken :]
                subscriber.taken += len(new)
                ids = [one.message[ID] for one in new]
                subscriber.got.update(ids)
                subscriber.order += ids

    # --- checkers -------------------------------------------------------------------------------------------------

    def check_nobody_twice(self) -> None:
        self.collect()
        wanted = {one.id: one.attributes for one in self.publications}
        for subscriber in self.subscribers:
            for id, count in subscriber.got.items():
                assert count == 1, f"{self._name(subscriber)} got {id.hex()} {count} times"
                assert subscriber.wants(wanted[id]), f"{self._name(subscriber)} got {id.hex()}, which does not match"

    def check_delivered(self, publications: list[SimulatedPublication]) -> None:
        """Everyone has exactly what matches of these; durable ones are judged by `check_durable`."""
        self.collect()
        for subscriber in self.subscribers:
            if subscriber.durable:
                continue
            expected = {one.id for one in publications if subscriber.wants(one.attributes)}
            got = {one.id for one in publications if one.id in subscriber.got}
            assert got == expected, (
                f"{self._name(subscriber)} lacks {[id.hex() for id in expected - got]} "
                f"and has {[id.hex() for id in got - expected]} too much"
            )

    def check_durable(self) -> None:
        """Every accepted persistent message is in every matching durable subscription, once."""
        self.collect()
        for subscriber in self.subscribers:
            if subscriber.durable:
                expected = [one for one in self.publications if one.persistent and subscriber.wants(one.attributes)]
                lost = [f"{one.id.hex()} of router {one.router}" for one in expected if one.accepted]
                lost = [what for what in lost if bytes.fromhex(what[:32]) not in subscriber.got]
                assert lost == [], f"{self._name(subscriber)} lacks {lost}"

    def check_tables(self) -> None:
        """Routes are shortest, interests current, nothing is in transit."""
        running = self.running()
        for router, broker in running.items():
            network = broker.network
            far = distances(self.graph, router)
            expected = {int(node) for node in far if node != router}
            assert set(network.unicast.reachable()) == expected, f"router {router}: {network.unicast.reachable()}"
            for node in expected:
                hop = network.unicast.next_hop(node)
                assert hop is not None
                way = self.graph.neighbours(router)[hop].latency_ms + distances(self.graph, hop)[node]
                assert way == far[node], f"router {router} reaches {node} by {hop}"
            truth = {other: one.network.scheme.local_rows() for other, one in running.items() if other != router}
            known = {other: rows for other, rows in network.scheme.predicates.items() if rows or other in truth}
            assert known == truth, f"router {router} has other interests than the others have now"
            assert len(network.store_and_forward) == 0, (
                f"router {router} still has {len(network.store_and_forward)} in transit"
            )

    def _name(self, subscriber: Subscriber) -> str:
        kind = "durable" if subscriber.durable else "subscriber"
        return f"{kind} {subscriber.number} at router {subscriber.router} ({subscriber.selector})"


def no_loops(before: Mapping[int, Mapping[str, int]], after: Mapping[int, Mapping[str, int]]) -> None:
    """No message ran out of hops or lost its way between two readings of `network_stats`."""
    for router, stats in after.items():
        for reason in ("no_hops", "no_route"):
            grown = stats[reason] - before[router][reason]
            assert grown == 0, f"router {router}: {reason} grew by {grown} while all was quiet"
