"""What comes from a client's socket: when Python is told of it, and when there is no need."""

import gc
import socket
import weakref
from collections.abc import Iterator

import pytest

from tidings.errors import UsageError
from tidings.kernel.client_input import ClientInput, Pace, open_client_input
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import DirectSink, Flag, Forwarder
from tidings.model.codec import encode_frame, encode_predicate
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.protocols.native.frames import FrameType, encode_publish

SMALL, HELD_UP_MS = 1000, 30
ONE = encode_publish(0, encode_message(Message(Destination("t"), {})))


class World:
    """A publisher, and a subscriber behind a real socket."""

    def __init__(self, reader: socket.socket) -> None:
        self.forwarder, self.pace = Forwarder(), Pace(SMALL, HELD_UP_MS)
        self.told: list[tuple[int, bool, int]] = []
        subscriber, self.publisher = self.forwarder.open(), self.forwarder.open()
        for number in (subscriber, self.publisher):
            self.forwarder.log_in(number, 1 << 20, False)
        self.forwarder.set_socket(subscriber, reader.fileno())
        self.forwarder.subscribe(DirectSink(subscriber, 1, encode_predicate(Predicate.always()), credit=1000))
        self.client_input = open_client_input(self.forwarder, self.pace, self.rest)
        self.client_input.number = self.publisher
        self.client_input.watched = False

    def rest(self, flags: int, small: bool, pause_ms: int) -> None:
        self.told.append((flags, small, pause_ms))

    def take(self, data: bytes) -> None:
        self.client_input.buffer(1 << 16)[: len(data)] = data
        self.client_input.take(len(data))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def world(pair: tuple[socket.socket, socket.socket]) -> World:
    return World(pair[0])


def test_plain_small_reads_are_told_of_at_the_end_of_a_count(
    world: World, pair: tuple[socket.socket, socket.socket]
) -> None:
    world.pace.connection, world.pace.left = world.publisher, 5
    for _ in range(5):
        world.take(ONE)
    assert [(flags, small) for flags, small, _ in world.told] == [(Flag.OUTPUT, True)]
    assert (world.pace.reads, world.pace.left) == (5, 1)
    assert world.forwarder.received() == 5
    assert pair[1].recv(1 << 16).count(ONE[12:]) == 5  # written without Python


def test_another_connection_is_told_of(world: World) -> None:
    world.pace.connection, world.pace.left = world.publisher + 1, 5
    world.take(ONE)
    assert len(world.told) == 1
    assert world.pace.left == 5


def test_half_a_frame_is_nothing_to_tell(world: World) -> None:
    world.take(ONE[:10])
    assert world.told == []
    world.take(ONE[10:])
    assert world.told == [(Flag.OUTPUT, True, world.told[0][2])]


def test_whoever_watches_is_told_of_every_read(world: World) -> None:
    world.pace.connection, world.pace.left = world.publisher, 5
    world.client_input.watched = True
    world.take(ONE)
    world.take(ONE[:10])
    assert [flags for flags, _, _ in world.told] == [Flag.OUTPUT, 0]
    assert world.pace.left == 5  # whoever is told counts


def test_a_long_pause_is_told_of(world: World) -> None:
    world.pace.connection, world.pace.left = world.publisher, 5
    world.client_input.heard_ms -= HELD_UP_MS
    before = world.client_input.heard_ms
    world.take(ONE)
    ((_, _, pause_ms),) = world.told
    assert pause_ms >= HELD_UP_MS
    assert world.client_input.heard_ms == before + pause_ms


def test_a_large_read_is_fed_and_told_of(world: World, pair: tuple[socket.socket, socket.socket]) -> None:
    world.pace.connection, world.pace.left = world.publisher, 5
    world.take(ONE * (SMALL // len(ONE) + 1))
    assert [(flags, small) for flags, small, _ in world.told] == [(Flag.OUTPUT, False)]
    assert world.forwarder.has_output()


def test_events_are_told_of(world: World) -> None:
    world.pace.connection, world.pace.left = world.publisher, 5
    world.take(encode_frame(FrameType.PING, b""))
    ((flags, small, _),) = world.told
    assert flags & Flag.EVENTS
    assert small


def test_every_read_can_be_noted(world: World) -> None:
    seen: list[int] = []
    world.pace.on_read = lambda: seen.append(world.forwarder.received())
    world.take(ONE)
    world.take(ONE)
    world.pace.on_read = None
    world.take(ONE)
    assert seen == [0, 1]


def test_what_python_raises_reaches_the_caller(world: World) -> None:
    def rest(flags: int, small: bool, pause_ms: int) -> None:
        raise LookupError("there")

    client_input = open_client_input(world.forwarder, world.pace, rest)
    client_input.number = world.publisher
    client_input.buffer(0)[: len(ONE)] = ONE
    with pytest.raises(LookupError, match="there"):
        client_input.take(len(ONE))


def test_it_may_be_closed_while_python_is_told(world: World) -> None:
    told: list[int] = []

    def rest(flags: int, small: bool, pause_ms: int) -> None:
        client_input.close()
        told.append(flags)

    client_input = open_client_input(world.forwarder, world.pace, rest)
    del rest  # from now on the client_input alone has it
    client_input.number = world.publisher
    client_input.buffer(0)[: len(ONE)] = ONE
    client_input.take(len(ONE))
    assert told == [Flag.OUTPUT]


def test_before_it_is_open_and_beyond_the_buffer_nothing_is_taken(world: World) -> None:
    with pytest.raises(UsageError, match="E_FEED"):
        open_client_input(world.forwarder, world.pace, world.rest).take(1)
    with pytest.raises(UsageError, match="E_FEED"):
        world.client_input.take(1 << 30)


class Connection:
    """As a client's: it has an client_input that calls it."""

    def __init__(self, forwarder: Forwarder, pace: Pace) -> None:
        self.client_input: ClientInput = open_client_input(forwarder, pace, self.rest)
        self.take = self.client_input.take

    def rest(self, flags: int, small: bool, pause_ms: int) -> None: ...


@pytest.mark.parametrize("closed", [False, True])
def test_a_connection_and_its_intake_go_together(closed: bool) -> None:
    connection = Connection(Forwarder(), Pace(SMALL, HELD_UP_MS))
    gone = weakref.ref(connection)
    gc.collect()
    gc.disable()
    try:
        if closed:
            connection.client_input.close()
            with pytest.raises(UsageError, match="E_FEED"):
                connection.take(1)
        del connection
        assert (gone() is None) == closed  # if it is not closed, it takes the garbage collector
        gc.collect()
        assert gone() is None
    finally:
        gc.enable()
