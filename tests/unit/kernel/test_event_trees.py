"""The kernel's routing of events by their types' trees against the machine's (`Hermes._ways`), and its check of events
against `TypeTree.check`."""

from collections.abc import Mapping

from hardening.contracts.reference_forwarding import EventPlace, Forward, decode_forward, encode_forward
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.test_network import DELIVER, FORWARD, PUBLISH, frame, frames

from tidings.kernel.codec import encode_message
from tidings.kernel.events import Transacted
from tidings.kernel.forwarder import DirectSink, Forwarder, NetworkShape
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type import AttributeType, EventType, TypeTree
from tidings.model.event_type_topics import topic_of
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.values import Untyped, Value
from tidings.node.clients.event_type_requests import kind_number
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.event_tables import PlaneTrees
from tidings.routing.hermes.messages import (
    HermesEffect,
    HermesPublication,
    InterestKind,
    Send,
    Tell,
    TypeRequest,
    Untell,
    Verb,
)
from tidings.routing.hermes.tables import ALWAYS

CHAIN = tuple(EventType(name, parent) for name, parent in (("A", None), ("B", "A"), ("C", "B")))
NAMES = tuple(one.name for one in CHAIN)
NEIGHBOURS = (2, 3, 4, 5)
FILTERS = [Predicate.of(Constraint("x", Op.GT, low)) for low in range(4)]
Place = tuple[int, EventPlace]

changes = st.lists(
    st.tuples(
        st.sampled_from(["tell", "tell", "tell", "untell", "down", "up", "reroute"]),
        st.sampled_from(NAMES),
        st.sampled_from(InterestKind),
        st.sampled_from(NEIGHBOURS),
        st.sampled_from(FILTERS),
    ),
    max_size=25,
)
ups = st.fixed_dictionaries({name: st.sampled_from((None, *NEIGHBOURS)) for name in NAMES})


class Both:
    """A machine, and a forwarder that has its tables."""

    def __init__(self, up: dict[str, int | None]) -> None:
        self.up = up
        self.machine = Hermes(1, lambda name: NAMES.index(name), lambda key: self.up[NAMES[key]], HermesOptions())
        self.forwarder = Forwarder()
        self.forwarder.join(NetworkShape(1))
        self.machine.trees.listener = PlaneTrees(self.forwarder)
        self.machine.start(0)
        self.links: dict[int, int] = {}
        for neighbour in NEIGHBOURS:
            self.links[neighbour] = self.forwarder.open()
            self.forwarder.link(self.links[neighbour], neighbour)
        for chain in (CHAIN[:2], CHAIN):
            self.machine.asked(0, TypeRequest(Verb.HEIR, chain[-2].name, chain))

    def change(self, what: str, name: str, kind: InterestKind, neighbour: int, filter: Predicate) -> None:
        filter = filter if kind is InterestKind.FILTER else ALWAYS
        if what == "tell":
            self.machine.hear(1, neighbour, Tell(name, kind, filter, 10_000))
        elif what == "untell":
            self.machine.hear(1, neighbour, Untell(name, kind, filter))
        elif what == "down":
            self.machine.link_down(1, neighbour)
        elif what == "up":
            self.machine.link_up(1, neighbour)
        else:
            self.up[name] = None if self.up[name] == neighbour else neighbour
            self.machine.reroute(1)

    def copies(self) -> set[Place]:
        found = set()
        for neighbour, connection in self.links.items():
            for type, payload in frames(self.forwarder.take(connection, 1 << 20, 0)):
                assert type == FORWARD
                copy = decode_forward(payload)
                assert copy.event is not None
                found.add((neighbour, copy.event))
        return found


def event(name: str, x: int, number: int = 1) -> bytes:
    topic = Destination(topic_of(NAMES[: NAMES.index(name) + 1]))
    return encode_message(Message(topic, {"x": x}, id=MessageId(1, 1, 1000, number)))


def sent(effects: list[HermesEffect]) -> set[Place]:
    found = set()
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, HermesPublication):
            copy = effect.message
            found.add((effect.neighbour, EventPlace(copy.type, copy.by_type, copy.by_filter, copy.rising)))
    return found


@given(changes=changes, up=ups, x=st.integers(0, 5), flags=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_an_event_goes_where_the_machine_says(
    changes: list[tuple[str, str, InterestKind, int, Predicate]],
    up: dict[str, int | None],
    x: int,
    flags: tuple[bool, bool, bool],
) -> None:
    both = Both(up)
    for one in changes:
        both.change(*one)
    for number, name in enumerate(NAMES):
        both.machine.trees.tree(name, 1)
        message = event(name, x, number)
        own = HermesPublication(name, True, True, False, b"", message)
        both.machine._publication(1, None, own)
        both.forwarder.enter(message, 0, None)
        assert both.copies() == sent(both.machine._done())
        message = event(name, x, 10 + number)
        copy = Forward(5, message, event=EventPlace(name, *flags))
        both.forwarder.feed_bytes(both.links[3], frame(FORWARD, encode_forward(copy)), 0)
        assert both.copies() == sent(both.machine.hear(1, 3, HermesPublication(name, *flags, b"", message)))


def test_an_event_that_comes_by_several_trees_is_delivered_once() -> None:
    both = Both({"A": 2, "B": 2, "C": 2})
    client = both.forwarder.open()
    both.forwarder.log_in(client, 1 << 20, False)
    everything = encode_predicate(Predicate.of(DestinationPattern.parse("@type.>").constraint))
    both.forwarder.subscribe(DirectSink(client, 1, everything))
    for name in ("C", "A"):
        payload = encode_forward(Forward(5, event("C", 1), event=EventPlace(name)))
        both.forwarder.feed_bytes(both.links[2], frame(FORWARD, payload), 0)
    assert [type for type, _ in frames(both.forwarder.take(client, 1 << 20, 0))] == [DELIVER]
    assert both.forwarder.network_stats()["arrived"] == 2


def test_dropped_tables_route_nothing() -> None:
    both = Both({"A": 2, "B": 3, "C": 4})
    both.machine.hear(1, 5, Tell("A", InterestKind.FILTER, FILTERS[0], 10_000))
    both.forwarder.enter(event("A", 3), 0, None)
    assert both.copies() == {(5, EventPlace("A", False, True, False))}
    for now in (1e9, 2e9):  # what one tree of this broker wants of another goes first
        both.machine.trees.expire(now)
    assert both.machine.trees.trees == {}
    both.forwarder.enter(event("A", 3, 2), 0, None)
    assert both.copies() == set()


NAMES_OF_ATTRIBUTES = ("a", "b", "price", "JMSXGroupID")
values: st.SearchStrategy[Value] = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(["", "x", "1"]),
    st.binary(max_size=2),
    st.sampled_from([Untyped("1"), Untyped("1.5"), Untyped("TRUE"), Untyped("text"), Untyped("")]),
)


@given(
    declared=st.dictionaries(st.sampled_from(("a", "b", "price")), st.sampled_from(AttributeType)),
    properties=st.dictionaries(st.sampled_from(NAMES_OF_ATTRIBUTES), values),
    jms_type=st.sampled_from([None, "T", "T", "T", "S"]),
)
def test_the_plane_lets_through_what_fits_and_shows_the_rest(
    declared: Mapping[str, AttributeType], properties: Mapping[str, Value], jms_type: str | None
) -> None:
    tree = TypeTree([EventType("T", None, declared)])
    forwarder = Forwarder()
    forwarder.join(NetworkShape(1))
    number = forwarder.open()
    forwarder.log_in(number, 1 << 20, False)
    topic = topic_of(("T",))
    form = [(name, kind_number(kind), False) for name, kind in tree.attributes("T").items()]
    forwarder.advertise_event(number, topic, "T", form)
    message = encode_message(Message(Destination(topic), dict(properties), type=jms_type))
    publish = frame(PUBLISH, bytes(4) + message)
    forwarder.feed_bytes(number, publish, 0)
    fits = jms_type == "T" and not tree.check("T", properties)
    assert [type(one) for one in forwarder.events()] == ([] if fits else [Transacted])
    forwarder.withdraw_event(number, topic)
    forwarder.feed_bytes(number, publish, 0)
    assert [type(one) for one in forwarder.events()] == [Transacted]
