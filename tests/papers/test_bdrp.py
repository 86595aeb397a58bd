"""Carzaniga, Hall, Toffetti Carughi, Wolf: content-based routing with unicast state (B-DRP), by its sections."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pytest
from hardening.contracts.reference_forwarding import Forward, decode_forward, encode_forward
from hardening.simulate.scenario import LINK

from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import FRAME_HEADER_BYTES, DirectSink, Forwarder, NetworkShape
from tidings.matching.categories import PlainGrade, equals, exists
from tidings.matching.encoding import Encoding
from tidings.matching.workload import Workload
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.values import Kind, Value
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.generate import barabasi_albert, line, square_diagonal
from tidings.overlay.topology.graph import Graph, shortest_path
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.sim.brokers import Brokers

SEEDS = range(8)
FORWARD, PUBLISH, DELIVER = 0x41, 0x10, 0x11
TOPIC = DestinationPattern.parse("t").constraint


def x_is(value: int) -> Predicate:
    return Predicate.of(Constraint("x", Op.EQ, value))


def frame(kind: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "little") + bytes((kind, 0, 0, 0)) + payload


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size = int.from_bytes(data[:4], "little")
        yield data[4], data[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + size]
        data = data[FRAME_HEADER_BYTES + size :]


@dataclass(frozen=True)
class Crossing:
    """One copy ⟨D, m⟩ on one link."""

    source: int
    to: int
    copy: Forward


def nodes_of(graph: Graph) -> list[int]:
    return [int(node) for node in graph]


def path(graph: Graph, source: int, to: int) -> list[int]:
    return [int(node) for node in shortest_path(graph, source, to)]


class Routers:
    """The kernel's forwarding plane at every node of a graph, wired by bytes; UNICAST are the shortest paths.

    `wants` are the predicates of the routers' clients. Each router knows the encoded interests of those that `informed`
    allows for it; by default every router knows all.
    """

    def __init__(
        self,
        graph: Graph,
        wants: dict[int, list[Predicate]],
        *,
        encoding: InterestEncoding | None = None,
        broadcast_above: int = 0,
        informed: set[int] | None = None,
    ) -> None:
        self.encoding = encoding or InterestEncoding()
        self.nodes = nodes_of(graph)
        self.planes: dict[int, Forwarder] = {}
        self.links: dict[tuple[int, int], int] = {}
        self.clients: dict[int, list[int]] = {}
        self.publishers: dict[int, int] = {}
        self._counter = 0
        rows = {}
        for router, predicates in wants.items():
            local = LocalInterests(self.encoding)
            for one in predicates:
                local.add(encode_predicate(one.within(TOPIC)))
            rows[router] = local.rows()
        for router in self.nodes:
            plane = self.planes[router] = Forwarder()
            bits, hashes = self.encoding.encoding.bits, self.encoding.encoding.hashes
            plane.join(NetworkShape(router, bits=bits, hashes=hashes, broadcast_above=broadcast_above))
            for neighbour in map(int, graph.neighbours(router)):
                self.links[router, neighbour] = plane.open()
                plane.link(self.links[router, neighbour], neighbour)
            self.publishers[router] = plane.open()
            plane.log_in(self.publishers[router], 1 << 20, False)
            self.clients[router] = [self.attach(router, one) for one in wants.get(router, [])]
            plane.routes({to: path(graph, router, to)[1] for to in self.nodes if to != router})
            for other, some in rows.items():
                if other != router and (informed is None or router in informed):
                    plane.interest(other, some, ())

    def attach(self, router: int, predicate: Predicate) -> int:
        """The connection of a client with this predicate, of which no other router hears."""
        plane = self.planes[router]
        client = plane.open()
        plane.log_in(client, 1 << 20, False)
        plane.subscribe(DirectSink(client, 1, encode_predicate(predicate.within(TOPIC)), no_local=True))
        return client

    def publish(self, router: int, attributes: dict[str, Value]) -> tuple[dict[int, list[int]], list[Crossing]]:
        """How often each client of each router gets the message, and the copies on the links."""
        self._counter += 1
        id = MessageId(1, router, 5, self._counter)
        message = encode_message(Message(Destination("t"), attributes, id=id))
        self.planes[router].feed_bytes(self.publishers[router], frame(PUBLISH, bytes(4) + message), 0)
        crossings: list[Crossing] = []
        while new := list(self._on_links()):
            for one in new:
                data = frame(FORWARD, encode_forward(one.copy))
                self.planes[one.to].feed_bytes(self.links[one.to, one.source], data, 0)
            crossings += new
        given = {
            node: [sum(kind == DELIVER for kind, _ in frames(self.planes[node].take(one, 1 << 20, 0))) for one in some]
            for node, some in self.clients.items()
        }
        return given, crossings

    def _on_links(self) -> Iterator[Crossing]:
        for (router, neighbour), connection in self.links.items():
            for kind, payload in frames(self.planes[router].take(connection, 1 << 20, 0)):
                assert kind == FORWARD
                yield Crossing(router, neighbour, decode_forward(payload))


def random_routers(seed: int) -> tuple[Graph, dict[int, list[Predicate]], Routers, Random]:
    """A network with cycles and unique shortest paths, whose routers have up to three clients."""
    rng = Random(seed)
    graph = barabasi_albert(rng.randint(4, 16), rng)
    wants = {node: [x_is(rng.randrange(4)) for _ in range(rng.randint(0, 3))] for node in nodes_of(graph)}
    return graph, wants, Routers(graph, wants), rng


def expected(wants: dict[int, list[Predicate]], attributes: dict[str, Value]) -> dict[int, list[int]]:
    return {node: [int(one.matches(attributes)) for one in some] for node, some in wants.items()}


# --- 2.1 and 2.2: state and forwarding ----------------------------------------------------------------------------


@pytest.mark.parametrize("unicast", ["link-state", "distance-vector"])
def test_2_2_three_tables_whichever_unicast_protocol_fills_them(unicast: str) -> None:
    """Each router holds its own clients' predicates exactly, the encoded predicate of each other router, and the next
    hop to it. Any unicast protocol will serve: with both, every client gets exactly what matches, once."""
    graph = square_diagonal(5.0)
    edges = [(int(edge.a), int(edge.b)) for edge in graph.edges()]
    settings = {
        router: NetworkSettings(
            router,
            dials=tuple((str(b), b) for a, b in edges if a == router),
            unicast=unicast,
            link=LINK,
            costs={int(other): 5 for other in graph.neighbours(router)},
        )
        for router in nodes_of(graph)
    }
    brokers = Brokers(graph, settings, seed=1)
    for router, selector in ((1, "x > 1"), (2, "x = 1"), (3, "x = 2 OR x = 1"), (3, "x > 2"), (4, "y = 'a'")):
        assert brokers.subscribe(router, selector) is not None
    brokers.calendar.run(until=5000)
    published = [brokers.publish(router, {"x": x, "y": "a"}) for router in settings for x in range(4)]
    brokers.calendar.run(until=7000)
    brokers.check_delivered([one for one in published if one])
    brokers.check_nobody_twice()
    brokers.check_tables()  # PREDICATES and UNICAST equal a fresh computation
    for router, broker in brokers.running().items():
        assert set(broker.network.scheme.predicates) == set(settings) - {router}, "only others' are in PREDICATES"


def test_2_2_figure_1_destinations_are_partitioned_by_next_hop() -> None:
    """The entry router groups the set D by next hop and sends one pair ⟨Di, m⟩ a link. The next router delivers, takes
    itself out of the set and divides the rest in the same way."""
    graph = Graph()
    for a, b in ((1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (6, 7)):
        graph.add(a, b)
    routers = Routers(graph, {node: [x_is(1)] for node in (2, 4, 5, 7)} | {6: [x_is(2)]})
    given, crossings = routers.publish(1, {"x": 1})
    assert given == {1: [], 2: [1], 3: [], 4: [1], 5: [1], 6: [0], 7: [1]}
    assert {(one.source, one.to): one.copy.routers for one in crossings} == {
        (1, 2): (2, 4, 5),
        (1, 3): (7,),
        (2, 4): (4,),
        (2, 5): (5,),
        (3, 6): (7,),
        (6, 7): (7,),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_2_2_every_matching_client_gets_a_message_once(seed: int) -> None:
    """Receiver sets on different links are disjoint, so a network with cycles delivers no duplicate and misses none."""
    _, wants, routers, rng = random_routers(seed)
    for _ in range(20):
        attributes: dict[str, Value] = {"x": rng.randrange(5)}
        given, crossings = routers.publish(rng.choice(routers.nodes), attributes)
        assert given == expected(wants, attributes)
        for node in routers.nodes:
            sets = [set(one.copy.routers) for one in crossings if one.source == node]
            assert sum(map(len, sets)) == len(set().union(*sets)), "a destination is in one copy only"


@pytest.mark.parametrize("seed", SEEDS)
def test_2_2_a_link_carries_one_copy_along_unicast_paths(seed: int) -> None:
    """A message is replicated where unicast paths part: each link of the union of the paths to D has one copy."""
    graph, wants, routers, rng = random_routers(seed)
    for source in routers.nodes:
        x = rng.randrange(4)
        due = {node for node, some in wants.items() if node != source and any(one.matches({"x": x}) for one in some)}
        beyond: dict[tuple[int, int], set[int]] = {}  # by link: the destinations whose path crosses it
        for node in due:
            for link in pairwise(path(graph, source, node)):
                beyond.setdefault(link, set()).add(node)
        _, crossings = routers.publish(source, {"x": x})
        assert {(one.source, one.to): set(one.copy.routers) for one in crossings} == beyond
        assert len(crossings) == len(beyond)


def test_2_2_remote_interests_are_matched_at_the_entry_alone() -> None:
    """Only the router where a message enters uses PREDICATES: others forward by the set that travels with it."""
    wants = {2: [x_is(1)], 4: [x_is(1)]}
    routers = Routers(line(4), wants, informed={1})
    given, crossings = routers.publish(1, {"x": 1})
    assert given == {1: [], 2: [1], 3: [], 4: [1]}
    assert [one.copy.routers for one in crossings] == [(2, 4), (4,), (4,)]
    given, crossings = routers.publish(3, {"x": 1})  # this one knows of no interests
    assert (given[2], given[4], crossings) == ([0], [0], [])


def test_2_2_a_router_delivers_only_if_it_is_in_the_set() -> None:
    """A router on the way whose identifier is not in D passes a message on without local delivery."""
    routers = Routers(line(3), {3: [x_is(1)]})
    client = routers.attach(2, x_is(1))
    given, crossings = routers.publish(1, {"x": 1})
    assert given[3] == [1]
    assert [one.copy.routers for one in crossings] == [(3,), (3,)]
    assert routers.planes[2].take(client, 1 << 20, 0) == b""


def test_2_2_what_a_router_stores_is_one_small_row_for_each_kind_of_interest_elsewhere() -> None:
    """A router encodes the disjunction of its clients' predicates, whatever their number: equal interests of many
    clients, and those that a wider one includes, add nothing to the other routers' tables."""
    encoding = InterestEncoding()
    local = LocalInterests(encoding)
    narrow = [Predicate.of(Constraint("x", Op.EQ, value), Constraint("y", Op.GT, 1)) for value in range(10)]
    for one in narrow * 50:
        local.add(encode_predicate(one))
    assert len(local.rows()) == 10
    assert {len(row) for row in local.rows()} == {encoding.encoding.bits // 8} == {32}
    local.add(encode_predicate(Predicate.of(Constraint("y", Op.GT, 5))))
    assert len(local.rows()) == 1
    local.remove(encode_predicate(Predicate.of(Constraint("y", Op.GT, 5))))
    assert len(local.rows()) == 10
    for one in narrow * 50:
        local.remove(encode_predicate(one))
    assert local.rows() == set()


# --- 2.3: large sets of destinations ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_2_3_above_the_threshold_a_message_is_broadcast_by_reverse_paths(seed: int) -> None:
    """If the first set has more routers than the broadcast threshold, the message travels without a set, by reverse-
    path forwarding on the unicast state; each client still gets it once. At the threshold it is still partitioned."""
    rng = Random(seed)
    graph = barabasi_albert(rng.randint(6, 16), rng)
    nodes = nodes_of(graph)
    wants = {node: [x_is(1)] if node % 2 else [x_is(2)] for node in nodes}
    for source in rng.sample(nodes, 2):
        due = sum(node % 2 for node in nodes if node != source)
        routers = Routers(graph, wants, broadcast_above=due)
        given, crossings = routers.publish(source, {"x": 1})
        assert given == expected(wants, {"x": 1})
        assert all(one.copy.origin is None for one in crossings)
        routers = Routers(graph, wants, broadcast_above=due - 1)
        given, crossings = routers.publish(source, {"x": 1})
        assert given == expected(wants, {"x": 1})
        assert {(one.copy.origin, one.copy.routers) for one in crossings} == {(source, ())}
        assert {one.to for one in crossings} >= set(nodes) - {source}, "every router has seen it"
        assert max(Counter((one.source, one.to) for one in crossings).values()) == 1


def test_2_3_a_large_set_is_a_bit_for_each_router() -> None:
    """A set large in elements need not be large in its representation: by a numbering of the routers it is a bit
    vector. A small set of distant numbers travels as a list."""
    message = encode_message(Message(Destination("t"), {"x": 1}, id=MessageId(1, 1, 5, 1)))
    dense = Forward(8, message, tuple(range(1, 1001)))
    sparse = Forward(8, message, (1, 900, 60_000))
    head = len(encode_forward(Forward(8, message)))
    assert len(encode_forward(dense)) - head <= 1000 // 8 + 4
    assert len(encode_forward(sparse)) - head <= 6
    assert [decode_forward(encode_forward(one)) for one in (dense, sparse)] == [dense, sparse]


# --- 3: encoding --------------------------------------------------------------------------------------------------


def test_3_the_example_of_the_paper() -> None:
    """[stock="XYZ", price=50, quantity=100] has six categories, [stock="XYZ" ∧ price > 20] two of them."""
    grade = PlainGrade()
    message: dict[str, Value] = {"stock": "XYZ", "price": 50, "quantity": 100}
    carried = {category for name, value in message.items() for category in grade.carried(name, value)}
    assert carried == {
        exists("stock", Kind.STRING),
        equals("stock", "XYZ"),
        exists("price", Kind.NUMBER),
        equals("price", 50),
        exists("quantity", Kind.NUMBER),
        equals("quantity", 100),
    }
    demands = grade.asked([Constraint("stock", Op.EQ, "XYZ"), Constraint("price", Op.GT, 20)])
    asked = {category for demand in demands for (alternative,) in [demand.finest] for category in alternative}
    assert asked == {equals("stock", "XYZ"), exists("price", Kind.NUMBER)}
    assert asked <= carried


@pytest.mark.parametrize("bits", [64, 256])
def test_3_vectors_keep_the_relation_between_sets(bits: int) -> None:
    """The second phase keeps inclusion: S1 ⊇ S2 ⇒ B1 ⊇ B2. The vector of the empty set is 0."""
    encoding, rng = Encoding(bits=bits), Random(bits)
    assert encoding.vector(()) == 0
    for _ in range(300):
        larger = frozenset(rng.getrandbits(64) for _ in range(rng.randint(1, 12)))
        smaller = frozenset(one for one in larger if rng.random() < 0.5)
        assert encoding.vector(smaller) & ~encoding.vector(larger) == 0
        assert encoding.vector(larger).bit_count() <= encoding.hashes * len(larger)


def false_positives(encoding: Encoding, predicates: list[Predicate], messages: list[dict[str, Value]]) -> int:
    """Counts encoded matches that are none, and requires that every match is an encoded match."""
    vectors = [encoding.predicate_vectors(one) for one in predicates]
    wrong = true = 0
    for message in messages:
        carried = encoding.message_vector(message)
        for predicate, some in zip(predicates, vectors, strict=True):
            may = any(one & ~carried == 0 for one in some)
            if predicate.matches(message):
                assert may, f"{predicate} matches {message}, and its vectors do not"
                true += 1
            else:
                wrong += may
    assert true > 20, "the workload has matches"
    return wrong


def test_3_equation_1_is_necessary_and_smaller_vectors_only_add_false_positives() -> None:
    """p(m) ⇒ ∃i: B_m ⊇ B_p^i, on the workload of section 5.1.4. The reverse does not hold: with fewer bits more
    messages seem to match, and with any number no message is missed."""
    workload = Workload(5)
    predicates = workload.predicates(0, 30)
    messages = [one.attributes() for one in workload.messages(0, 80)]
    counts = [false_positives(Encoding(bits=bits), predicates, messages) for bits in (64, 256, 1024)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 2 * counts[1], "64 bits are too few for the categories of ten attributes"
    sets = [Encoding().predicate_elements(one) for one in predicates]
    categories = sum(
        any(one <= carried for one in some) for carried in map(Encoding().message_elements, messages) for some in sets
    )
    exact = categories - sum(one.matches(message) for message in messages for one in predicates)
    assert exact <= counts[2] <= 1.1 * exact, "what is left at 1024 bits comes from the categories"


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("x", Op.GT, 20),
        Constraint("x", Op.LT, 3),
        Constraint("s", Op.PREFIX, "abc"),
        Constraint("s", Op.SUFFIX, "abc"),
        Constraint("s", Op.CONTAINS, "abc"),
    ],
)
def test_3_other_operators_than_equality_are_coarse_and_clients_never_see_it(constraint: Constraint) -> None:
    """An order, prefix, suffix or substring constraint becomes the category that the attribute exists. So a message
    that does not match reaches the router, where the exact predicate keeps it from the client."""
    wanted = Predicate.of(constraint)
    routers = Routers(line(3), {3: [wanted]})
    attributes: dict[str, Value] = {"x": 5, "s": "zzz"}
    assert not wanted.matches(attributes)
    given, crossings = routers.publish(1, attributes)
    assert len(crossings) == 2, "the false positive costs traffic on both links"
    assert given[3] == [0]
    given, crossings = routers.publish(1, {"x": "five", "s": 5})  # of other types: other categories
    assert (given[3], crossings) == ([0], [])


def test_3_equality_is_encoded_with_its_value() -> None:
    """An equality constraint becomes a category of its own, so messages with another value stay where they enter; a
    conjunction needs all of its categories, a disjunction those of one conjunction."""
    both = Predicate.of(Constraint("x", Op.EQ, 1), Constraint("s", Op.EQ, "a"))
    either = Predicate([[Constraint("x", Op.EQ, 7)], [Constraint("s", Op.EQ, "b")]])
    routers = Routers(line(3), {2: [both], 3: [either]})
    for attributes, at in (
        ({"x": 1, "s": "a"}, {2}),
        ({"x": 1, "s": "c"}, set()),
        ({"x": 1}, set()),
        ({"x": 1.0, "s": "a"}, {2}),
        ({"x": 7, "s": "a"}, {3}),
        ({"x": 1, "s": "b"}, {3}),
    ):
        given, crossings = routers.publish(1, attributes)  # type: ignore[arg-type]
        assert {node for node, counts in given.items() if sum(counts)} == at
        assert len(crossings) == max(at, default=1) - 1


# --- 5.2: results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_5_2_traffic_follows_interest_and_not_the_size_of_the_network(seed: int) -> None:
    """With few receivers a message crosses few links, where flooding a network crosses each of them."""
    rng = Random(seed)
    graph = barabasi_albert(40, rng)
    receivers = rng.sample(nodes_of(graph), 3)
    routers = Routers(graph, {node: [x_is(1)] for node in receivers})
    for source in rng.sample(routers.nodes, 5):
        given, crossings = routers.publish(source, {"x": 1})
        assert [given[node] for node in receivers] == [[1]] * 3
        assert len(crossings) <= sum(len(path(graph, source, node)) - 1 for node in receivers)
        assert 4 * len(crossings) < len(list(graph.edges()))
        assert routers.publish(source, {"x": 2})[1] == []
