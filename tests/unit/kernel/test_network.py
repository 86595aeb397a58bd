"""The kernel's forwarding between brokers against the plain Python of hardening.contracts.reference_forwarding."""

from dataclasses import replace
from random import Random

import pytest
from hardening.contracts.reference_forwarding import Forward, ReferenceForwarding, decode_forward, encode_forward
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import TidingsError
from tidings.kernel.codec import encode_message
from tidings.kernel.events import FrameError, PublishedToRouters, Relayed
from tidings.kernel.forwarder import FRAME_HEADER_BYTES, DirectSink, Flag, Forwarder, NetworkShape
from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.values import Value
from tidings.routing.bdrp.interests import InterestEncoding

FORWARD, PUBLISH, DELIVER = 0x41, 0x10, 0x11
ROUTERS = st.integers(1, 40)
shapes = st.sampled_from(["vectors", "elements", "graded"])


def frame(type: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "little") + bytes((type, 0, 0, 0)) + payload


def frames(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        size = int.from_bytes(data[:4], "little")
        found.append((data[4], data[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + size]))
        data = data[FRAME_HEADER_BYTES + size :]
    return found


def message(counter: int, attributes: dict[str, int], *, persistent: bool = False) -> bytes:
    return encode_message(
        Message(Destination("t"), dict(attributes), persistent=persistent, id=MessageId(1, 1, 5, counter))
    )


def encoding_of(shape: str) -> InterestEncoding:
    encoding = Encoding(grade=GradedGrade()) if shape == "graded" else Encoding()
    return InterestEncoding(encoding, vectors=shape == "vectors")


class Plane:
    """A kernel forwarder as one router, with a connection for each neighbour and one subscriber."""

    def __init__(
        self,
        router: int,
        encoding: InterestEncoding,
        neighbours: set[int],
        *,
        broadcast_above: int = 0,
        backlog: int = 1 << 20,
    ) -> None:
        self.forwarder = Forwarder()
        graded = encoding.graded
        self.forwarder.join(
            NetworkShape(
                router,
                vectors=encoding.vectors,
                graded=graded,
                broadcast_above=broadcast_above,
                backlog_bytes_max=backlog,
            )
        )
        self.links = {neighbour: self.forwarder.open() for neighbour in sorted(neighbours)}
        for neighbour, connection in self.links.items():
            self.forwarder.link(connection, neighbour)
        self.client = self.forwarder.open()
        self.forwarder.log_in(self.client, 1 << 20, False)
        everything = encode_predicate(Predicate.of(DestinationPattern.parse("topic:>").constraint))
        self.forwarder.subscribe(DirectSink(self.client, 1, everything, no_local=True))

    def output(self) -> tuple[int, dict[int, Forward]]:
        """How often it was delivered here, and the copies by neighbour."""
        copies = {}
        for neighbour, connection in self.links.items():
            for type, payload in frames(self.forwarder.take(connection, 1 << 20, 0)):
                assert type == FORWARD
                assert neighbour not in copies
                copies[neighbour] = decode_forward(payload)
        delivered = [type for type, _ in frames(self.forwarder.take(self.client, 1 << 20, 0))]
        assert set(delivered) <= {DELIVER}
        return len(delivered), copies


@given(
    shape=shapes,
    wanted=st.dictionaries(ROUTERS.filter(lambda one: one != 1), st.integers(0, 3), max_size=12),
    hops=st.dictionaries(ROUTERS, st.integers(2, 6), max_size=40),
    neighbours=st.sets(st.integers(2, 6)),
    broadcast_above=st.integers(0, 4),
)
def test_a_message_that_enters_is_matched_once_and_divided(
    shape: str, wanted: dict[int, int], hops: dict[int, int], neighbours: set[int], broadcast_above: int
) -> None:
    encoding = encoding_of(shape)
    plane = Plane(1, encoding, neighbours, broadcast_above=broadcast_above)
    reference = ReferenceForwarding(1, broadcast_above=broadcast_above)
    reference.neighbours, reference.next_hops = neighbours, hops
    plane.forwarder.routes(hops)
    for router, value in wanted.items():
        rows = encoding.rows(encode_predicate(Predicate.of(Constraint("x", Op.EQ, value))))
        plane.forwarder.interest(router, rows, ())
    one = message(1, {"x": 2})
    plane.forwarder.feed_bytes(plane.client, frame(PUBLISH, bytes(4) + one), 0)
    expected = reference.enter(one, [router for router, value in wanted.items() if value == 2])
    assert plane.output() == (0, expected)
    assert plane.forwarder.network_stats()["no_route"] == reference.no_route


forwards = st.one_of(
    st.builds(
        Forward,
        hops=st.integers(0, 3),
        message=st.integers(0, 2).map(lambda n: message(n, {"x": n})),
        routers=st.sets(ROUTERS).map(sorted).map(tuple),
    ),
    st.builds(
        Forward,
        hops=st.integers(0, 3),
        message=st.integers(0, 2).map(lambda n: message(n, {"x": n})),
        origin=ROUTERS,
    ),
)


@given(
    hops=st.dictionaries(ROUTERS, st.integers(2, 6), max_size=40),
    neighbours=st.sets(st.integers(2, 6), min_size=1),
    copies=st.lists(st.tuples(st.integers(0, 10), forwards), max_size=8),
)
def test_what_arrives_is_delivered_and_passed_on(
    hops: dict[int, int], neighbours: set[int], copies: list[tuple[int, Forward]]
) -> None:
    plane = Plane(1, encoding_of("vectors"), neighbours)
    reference = ReferenceForwarding(1)
    reference.neighbours, reference.next_hops = neighbours, hops
    plane.forwarder.routes(hops)
    for choice, copy in copies:
        neighbour = sorted(neighbours)[choice % len(neighbours)]
        plane.forwarder.feed_bytes(plane.links[neighbour], frame(FORWARD, encode_forward(copy)), 0)
        here, expected = reference.arrive(neighbour, copy)
        assert plane.output() == (int(here), expected)
    stats = plane.forwarder.network_stats()
    counts = {name: getattr(reference, name) for name in ("no_route", "no_hops", "duplicates", "wrong_path")}
    assert {name: stats[name] for name in counts} == counts


@given(
    st.builds(
        Forward,
        hops=st.integers(0, 255),
        message=st.just(message(3, {"x": 1}, persistent=True)),
        routers=st.sets(st.integers(0, 2**32 - 1)).map(sorted).map(tuple),
        origin=st.integers(0, 2**32 - 1),
        tag=st.integers(0, 2**64 - 1),
        epoch=st.integers(0, 2**64 - 1),
        repeated=st.booleans(),
    ),
    st.randoms(use_true_random=False),
)
def test_persistent_copies_are_left_to_python(copy: Forward, rng: Random) -> None:
    copy = replace(copy, numbers=tuple(rng.getrandbits(rng.randint(1, 64)) for _ in copy.routers))
    plane = Plane(1, encoding_of("vectors"), {2, 3})
    flags = plane.forwarder.feed_bytes(plane.links[2], frame(FORWARD, encode_forward(copy)), 0)
    assert flags & Flag.EVENTS
    [event] = plane.forwarder.events()
    assert copy.tag is not None
    assert isinstance(event, Relayed)
    routers, numbers, origin = list(copy.routers), list(copy.numbers), copy.origin
    assert origin is not None
    assert event == Relayed(
        plane.links[2], copy.hops, copy.tag, routers, numbers, origin, copy.epoch, copy.repeated, 0, copy.message
    )
    stamp = (routers, numbers, origin, copy.epoch, copy.repeated)
    assert plane.forwarder.relay(3, *stamp, copy.hops, copy.tag, copy.message, 0)
    assert plane.output() == (0, {3: copy})
    assert decode_forward(encode_forward(copy)) == copy
    assert not plane.forwarder.relay(9, [9], [1], 1, 1, False, 1, 1, copy.message, 0)


def test_a_copy_needs_a_number_for_each_router() -> None:
    plane = Plane(1, encoding_of("vectors"), {2})
    with pytest.raises(TidingsError, match="E_RELAY"):
        plane.forwarder.relay(2, [2, 3], [1], 1, 1, False, 1, 1, message(1, {}), 0)


@pytest.mark.parametrize("flags", [3, 5, 7, 8, 9, 10, 17, 24])
def test_flags_that_exclude_each_other_break_the_link(flags: int) -> None:
    plane = Plane(1, encoding_of("vectors"), {2})
    payload = (12).to_bytes(4, "little") + bytes((3, flags)) + bytes(10) + message(1, {})
    plane.forwarder.feed_bytes(plane.links[2], frame(FORWARD, payload), 0)
    [event] = plane.forwarder.events()
    assert isinstance(event, FrameError)
    assert event.code == "E_FORWARD_FLAGS"


@given(st.binary(max_size=60), st.integers(0, 70))
def test_noise_in_a_header_breaks_the_link_and_nothing_else(noise: bytes, size: int) -> None:
    plane = Plane(1, encoding_of("vectors"), {2})
    payload = size.to_bytes(4, "little") + noise
    plane.forwarder.feed_bytes(plane.links[2], frame(FORWARD, payload), 0)
    assert [type(event) for event in plane.forwarder.events()] in ([], [FrameError])
    assert plane.output()[1] == {}


def test_a_client_forwards_nothing() -> None:
    plane = Plane(1, encoding_of("vectors"), {2})
    copy = Forward(3, message(1, {}), routers=(2,))
    plane.forwarder.feed_bytes(plane.client, frame(FORWARD, encode_forward(copy)), 0)
    [event] = plane.forwarder.events()
    assert isinstance(event, FrameError)
    assert (event.connection, event.code) == (plane.client, "E_FRAME_UNEXPECTED")


@pytest.mark.parametrize("shape", ["vectors", "elements", "graded"])
def test_a_message_that_carries_too_much_to_encode_goes_to_all_who_want_anything(shape: str) -> None:
    wanted = {2: 0, 3: 1, 6: 2}
    encoding = encoding_of(shape)
    plane = Plane(1, encoding, {2, 3, 4, 5, 6})
    for router, value in wanted.items():
        rows = encoding.rows(
            encode_predicate(Predicate.of(Constraint("x", Op.EQ, value), Constraint("y", Op.CONTAINS, "needle")))
        )
        plane.forwarder.interest(router, rows, ())
    text = "".join(map(str, range(20_000)))
    many: dict[str, Value] = {f"p{number}": number for number in range(40_000)}
    crowded = encode_message(Message(Destination("t"), many | {"y": text}, id=MessageId(1, 1, 5, 1)))
    assert plane.forwarder.destinations(crowded) == sorted(wanted)


def test_a_persistent_message_that_others_want_is_left_to_python() -> None:
    encoding = encoding_of("vectors")
    plane = Plane(1, encoding, {2})
    plane.forwarder.interest(2, encoding.rows(encode_predicate(Predicate.always())), ())
    one = message(1, {"x": 2}, persistent=True)
    plane.forwarder.feed_bytes(plane.client, frame(PUBLISH, (7).to_bytes(4, "little") + one), 0)
    [event] = plane.forwarder.events()
    assert isinstance(event, PublishedToRouters)
    assert event == PublishedToRouters(plane.client, 7, False, 0, one, [], [2])
    assert plane.output() == (0, {})


def test_a_full_link_holds_up_publishers_and_loses_what_passes_through() -> None:
    encoding = encoding_of("vectors")
    plane = Plane(1, encoding, {2, 3}, backlog=100_000)
    plane.forwarder.routes({2: 2})
    plane.forwarder.interest(2, encoding.rows(encode_predicate(Predicate.always())), ())
    body = encode_message(Message(Destination("t"), {}, body=bytes(50_000)))
    sent = 0
    while not plane.forwarder.feed_bytes(plane.client, frame(PUBLISH, bytes(4) + body), 0) & Flag.BLOCKED:
        sent += 1
        assert sent < 100
    assert plane.forwarder.link_waiting(2) > 300_000
    copy = frame(FORWARD, encode_forward(Forward(3, body, routers=(2,))))
    plane.forwarder.feed_bytes(plane.links[3], copy, 0)
    assert plane.forwarder.stats()["dropped_link"] == 1
    assert not plane.forwarder.relay(2, [2], [1], 1, 1, False, 1, 1, body, 0)
    plane.forwarder.check_stalls(60_000)  # it may be slow
    assert plane.forwarder.take_resumable() == []
    while plane.forwarder.link_waiting(2):
        plane.forwarder.take(plane.links[2], 1 << 20, 0)
    assert plane.forwarder.take_resumable() == [plane.client]


def test_what_is_too_much_for_a_subscriber_of_another_brokers_message_is_counted_apart() -> None:
    """Its publisher is out of reach: push-back means that it is dropped, though the subscriber is not stalled."""
    plane = Plane(1, encoding_of("vectors"), {2}, backlog=100_000)
    reader = plane.forwarder.open()
    plane.forwarder.log_in(reader, 1 << 20, False)
    predicate = encode_predicate(Predicate.of(DestinationPattern("t").constraint))
    plane.forwarder.subscribe(DirectSink(reader, 1, predicate, credit=1, backlog_bytes_max=100_000))
    body = encode_message(Message(Destination("t"), {}, body=bytes(50_000)))
    for tag in range(6):
        plane.forwarder.feed_bytes(plane.links[2], frame(FORWARD, encode_forward(Forward(3, body, routers=(1,)))), tag)
    assert (plane.forwarder.stats()["dropped_far"], plane.forwarder.stats()["dropped_stalled"]) == (3, 0)


def test_whatever_another_broker_takes_from_its_clients_passes_a_link() -> None:
    plane = Plane(1, encoding_of("vectors"), {2})
    body = encode_message(Message(Destination("t"), {}, body=bytes(40 << 20)))
    plane.forwarder.feed_bytes(plane.links[2], frame(FORWARD, encode_forward(Forward(3, body, routers=(1,)))), 0)
    assert plane.forwarder.stats()["delivered"] == 1
    assert plane.forwarder.events() == []


def test_strangers_take_no_memory_from_links() -> None:
    """Half frames of whoever has not logged in have little room together; links once shared it, and broke."""
    forwarder = Forwarder(memory_bytes_max=80_000, login_frame_bytes_max=8000)
    forwarder.join(NetworkShape(1))
    link, stranger = forwarder.open(), forwarder.open()
    half = (7000).to_bytes(4, "little") + bytes((1, 0, 0, 0)) + bytes(5000)
    forwarder.feed_bytes(link, half[:3000], 0)
    forwarder.link(link, 2)
    forwarder.feed_bytes(stranger, half, 0)
    forwarder.feed_bytes(link, half[3000:], 0)
    others = [forwarder.open() for _ in range(3)]
    for other in others:
        forwarder.feed_bytes(other, half, 0)
    broken = {event.connection for event in forwarder.events() if isinstance(event, FrameError)}
    assert broken
    assert broken <= set(others)
    forwarder.feed_bytes(link, bytes(900), 0)
    assert forwarder.events() == []
    forwarder.unlink(2)
    for connection in (link, stranger, *others):
        forwarder.close(connection)
    assert forwarder.held_bytes() == 0
