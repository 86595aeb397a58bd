"""The kernel's forwarder does what the plain one does; and what only the kernel promises: bounded memory."""

import ctypes
import resource
import socket
from pathlib import Path

import pytest
from hardening.contracts.forwarder import check_forwarder

from tidings.errors import UsageError
from tidings.kernel.events import MemoryShort, Published
from tidings.kernel.forwarder import DirectSink, Flag, Forwarder
from tidings.model.codec import encode_frame, encode_message, encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.protocols.native.frames import FrameSplitter, FrameType

EVERYTHING = encode_predicate(predicate_of(DestinationPattern.parse(">"), Selector("")))


def publish(body: bytes = b"", *, receipt: int = 0, to: str = "t") -> bytes:
    message = encode_message(Message(Destination.parse(to), {}, body))
    return encode_frame(FrameType.PUBLISH, receipt.to_bytes(4, "little") + message)


def opened(forwarder: Forwarder) -> int:
    connection = forwarder.open()
    forwarder.log_in(connection, 1 << 20, False)
    return connection


def sink(forwarder: Forwarder, connection: int, *, policy: str = "push-back", bytes_max: int = 1_000) -> int:
    return forwarder.subscribe(
        DirectSink(connection, 1, EVERYTHING, credit=1, policy=policy, backlog_bytes_max=bytes_max)
    )


def test_it_keeps_the_contract() -> None:
    check_forwarder(Forwarder)


def test_a_connection_with_several_sinks_gets_each_in_order() -> None:
    forwarder = Forwarder()
    reader, writer = opened(forwarder), opened(forwarder)
    for number in range(1, 6):
        forwarder.subscribe(DirectSink(reader, number, EVERYTHING))
    forwarder.feed_bytes(writer, b"".join(publish(b"%d" % i) for i in range(50)), 0)
    frames = list(FrameSplitter(1 << 20).feed(forwarder.take(reader, 1 << 20, 0)))
    bodies: dict[int, list[bytes]] = {}
    for frame in frames:
        bodies.setdefault(frame.payload[0], []).append(frame.payload[-2:].lstrip(b"t"))
    assert bodies == {number: [b"%d" % i for i in range(50)] for number in range(1, 6)}


def test_numbers_are_not_given_to_the_next_who_comes() -> None:
    forwarder = Forwarder()
    numbers = set()
    for _ in range(100):
        number = forwarder.open()
        assert number not in numbers
        numbers.add(number)
        forwarder.close(number)
    with pytest.raises(UsageError):
        forwarder.close(number)


def test_memory_that_nobody_takes_is_taken_back() -> None:
    forwarder = Forwarder(memory_bytes_max=100_000, output_bytes_max=10_000, stall_ms=100)
    writer = opened(forwarder)
    dead = [opened(forwarder) for _ in range(20)]
    for connection in dead:
        sink(forwarder, connection, policy="drop-newest", bytes_max=8_000)
    flags, fed = Flag(0), 0
    while not flags & Flag.BLOCKED and fed < 10_000:
        flags = Flag(forwarder.feed_bytes(writer, publish(bytes(500)), 0))
        fed += 1
    assert fed < 10_000
    assert forwarder.held_bytes() < 120_000
    forwarder.check_stalls(50)
    assert forwarder.take_resumable() == []
    forwarder.check_stalls(200)
    assert forwarder.take_resumable() == [writer]
    assert forwarder.stats()["dropped_stalled"] > 0
    assert forwarder.held_bytes() < 75_000


class HeapInfo(ctypes.Structure):
    """What glibc's mallinfo2 returns: ten sizes."""

    _fields_ = [("before", ctypes.c_size_t * 4), ("mapped", ctypes.c_size_t), ("between", ctypes.c_size_t * 2),
                ("used", ctypes.c_size_t), ("after", ctypes.c_size_t * 2)]  # fmt: skip


def heap_bytes() -> int:
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = HeapInfo
    info = ask()
    return int(info.used + info.mapped)


def test_a_busy_connection_does_not_keep_what_a_burst_needed() -> None:
    forwarder = Forwarder()
    connection, before = opened(forwarder), heap_bytes()
    forwarder.send(connection, bytes(32 << 20))
    while forwarder.take(connection, 1 << 20, 0):
        pass
    assert heap_bytes() > before + (31 << 20)
    for now_ms in range(20):
        forwarder.send(connection, b"%d" % now_ms)
        forwarder.check_stalls(now_ms)
        assert forwarder.take(connection, 100, now_ms) == b"%d" % now_ms
    assert heap_bytes() < before + (1 << 20)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_what_is_free_within_the_heap_goes_back_to_the_system() -> None:
    forwarder = Forwarder()
    blocks = [b"x" * (64 << 10) for _ in range(1000)]
    del blocks[::2]  # all free places have neighbours that are not
    before = resident_bytes()
    forwarder.check_stalls(0)
    assert resident_bytes() < before - (20 << 20)
    assert len(blocks) == 500


def test_output_that_nobody_takes_costs_the_connection_when_memory_is_short() -> None:
    forwarder = Forwarder(memory_bytes_max=100_000, output_bytes_max=40_000, stall_ms=100)
    writer = opened(forwarder)
    dead = [opened(forwarder) for _ in range(3)]
    for connection in dead:
        forwarder.subscribe(DirectSink(connection, 1, EVERYTHING, policy="drop-newest", backlog_bytes_max=0))
        forwarder.set_writable(connection, False)
    while not forwarder.feed_bytes(writer, publish(bytes(500)), 0) & Flag.BLOCKED:
        pass
    forwarder.check_stalls(200)
    assert {event.connection for event in forwarder.events() if isinstance(event, MemoryShort)} == set(dead)


def test_what_is_stuck_in_a_socket_counts() -> None:
    forwarder = Forwarder()
    connection = opened(forwarder)
    forwarder.send(connection, bytes(1000))
    assert forwarder.held_bytes() == 1000
    assert len(forwarder.take(connection, 600, 0)) == 600
    assert forwarder.held_bytes() == 400
    forwarder.set_writable(connection, False)
    assert forwarder.held_bytes() == 1000
    forwarder.set_writable(connection, True)
    assert forwarder.held_bytes() == 400
    forwarder.close(connection)
    assert forwarder.held_bytes() == 0


def test_events_that_were_taken_make_room() -> None:
    forwarder = Forwarder(memory_bytes_max=4_000)
    writer = opened(forwarder)
    forwarder.mailbox(EVERYTHING)
    assert forwarder.feed_bytes(writer, publish(bytes(1_500)) * 4, 0) & Flag.BLOCKED
    assert len(forwarder.events()) == 3
    assert forwarder.take_resumable() == [writer]
    forwarder.resume(writer, 0)
    assert len(forwarder.events()) == 1


def test_a_removed_sinks_number_is_not_used_while_events_name_it() -> None:
    forwarder = Forwarder()
    writer = opened(forwarder)
    old = forwarder.mailbox(EVERYTHING)
    forwarder.feed_bytes(writer, publish(), 0)
    forwarder.unsubscribe(old)
    assert forwarder.mailbox(EVERYTHING) != old
    [event] = forwarder.events()
    assert isinstance(event, Published)
    assert event.sinks == [old]
    assert forwarder.mailbox(EVERYTHING) == old


def test_output_goes_to_the_socket_and_the_rest_to_the_driver() -> None:
    forwarder = Forwarder()
    connection, other = opened(forwarder), opened(forwarder)
    mine, peer = socket.socketpair()
    with mine, peer:
        mine.setblocking(False)
        forwarder.set_socket(connection, mine.fileno())
        forwarder.send(connection, b"hello")
        forwarder.send(other, b"asked for")
        assert forwarder.write_all(1 << 20, 7) == [(other, b"asked for", 0)]
        assert peer.recv(100) == b"hello"
        assert (forwarder.written_ms(connection), forwarder.output_bytes(connection)) == (7, 0)

        forwarder.send(connection, b"abcdef")  # one write takes four
        assert forwarder.write_all(4, 8) == [(connection, b"", 2)]
        forwarder.set_writable(connection, True)
        assert forwarder.write_all(4, 8) == []
        assert peer.recv(100) == b"abcdef"

        large = bytes(range(256)) * 8192  # more than the socket takes
        forwarder.send(connection, large)
        ((number, rest, left),) = forwarder.write_all(len(large), 9)
        assert (number, left) == (connection, 0)
        assert 0 < len(rest) < len(large)
        got = b""
        while len(got) < len(large) - len(rest):
            got += peer.recv(1 << 20)
        assert got + rest == large


def test_output_for_a_socket_that_is_gone_is_gone() -> None:
    forwarder = Forwarder()
    connection = opened(forwarder)
    mine, peer = socket.socketpair()
    with mine:
        peer.close()
        forwarder.set_socket(connection, mine.fileno())
        forwarder.send(connection, b"hello")
        assert forwarder.write_all(1 << 20, 0) == []
        assert forwarder.held_bytes() == 0


def test_destinations_are_counted_while_somebody_looks() -> None:
    forwarder = Forwarder()
    writer = opened(forwarder)
    for _ in range(2):
        sink(forwarder, opened(forwarder))
    forwarder.feed_bytes(writer, publish(to="a"), 1_000)
    assert forwarder.destination_counts(1_000) == {}, "nobody had looked"
    forwarder.feed_bytes(writer, publish(to="a") * 3 + publish(to="b") + publish(to="queue:a"), 5_000)
    assert forwarder.destination_counts(9_000) == {"topic:a": (3, 6), "topic:b": (1, 2), "queue:a": (1, 0)}
    forwarder.feed_bytes(writer, publish(to="a"), 18_999)
    forwarder.feed_bytes(writer, publish(to="a"), 19_000)
    assert forwarder.destination_counts(19_000) == {}, "ten seconds without a look end it, and it begins anew"


def test_so_many_destinations_are_counted_and_no_more() -> None:
    forwarder = Forwarder()
    writer = opened(forwarder)
    forwarder.destination_counts(1)
    for _ in range(2):
        forwarder.feed_bytes(writer, b"".join(publish(to=f"t.{number}") for number in range(1_200)), 2)
    counts = forwarder.destination_counts(3)
    assert counts.pop("") == (400, 0)
    assert counts == {f"topic:t.{number}": (2, 0) for number in range(1_000)}


def test_small_input_is_served_in_one_call() -> None:
    forwarder = Forwarder()
    reader, writer = opened(forwarder), opened(forwarder)
    forwarder.subscribe(DirectSink(reader, 1, EVERYTHING, backlog_bytes_max=1000))
    frame = publish(b"hello")
    view = forwarder.buffer
    view[: len(frame)] = frame
    assert forwarder.serve(writer, len(frame), 0) == Flag.OUTPUT | Flag.LEFT  # it has no socket
    expected = forwarder.take(reader, 1 << 20, 0)
    mine, peer = socket.socketpair()
    with mine, peer:
        forwarder.set_socket(reader, mine.fileno())
        view[: len(frame)] = frame
        assert forwarder.serve(writer, len(frame), 0) == Flag.OUTPUT
        assert peer.recv(1000) == expected
        assert not forwarder.has_output()
        asks = publish(b"hello", receipt=7)
        view[: len(asks)] = asks
        assert forwarder.serve(writer, len(asks), 0) == Flag.OUTPUT | Flag.LEFT  # the receipt is the driver's to write
        assert peer.recv(1000) == expected
        assert [number for number, _, _ in forwarder.write_all(1 << 20, 0)] == [writer]
