"""The load generator of calibrations: everything that is sent is counted, however the bytes come back."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidings.errors import UsageError
from tidings.kernel.load_pump import LoadPump


class Echo:
    """A broker in place of one: what publishers send comes to the probe, in pieces of this size."""

    def __init__(self, publishers: int, piece: int) -> None:
        self.pairs = [socket.socketpair() for _ in range(publishers + 1)]
        self.piece = piece
        self.received = [b""] * publishers
        self.threads = [threading.Thread(target=self._forward, args=(number,)) for number in range(publishers)]
        self._lock = threading.Lock()

    @property
    def files(self) -> list[int]:
        return [ours.fileno() for ours, _ in self.pairs]

    def _forward(self, number: int) -> None:
        probe = self.pairs[-1][1]
        while data := self.pairs[number][1].recv(self.piece):
            with self._lock:
                self.received[number] += data
                probe.sendall(data)


@contextmanager
def echo(publishers: int, piece: int) -> Iterator[Echo]:
    found = Echo(publishers, piece)
    for one in found.threads:
        one.start()
    yield found
    for ours, _ in found.pairs[:-1]:
        ours.shutdown(socket.SHUT_WR)
    for one in found.threads:
        one.join()
    for pair in found.pairs:
        for end in pair:
            end.close()


@pytest.mark.parametrize("piece", [1, 3, 4, 1000])
def test_all_marks_are_counted_wherever_a_read_ends(piece: int) -> None:
    with echo(1, piece) as broker:
        pump = LoadPump(broker.files[:1], broker.files[1], [], [b"kind,", b"kikind;ki,"], b"kind")
        pump.run(0.0, 7, 0.0, 100)
        assert pump.drain(20.0)
        assert pump.sent == pump.arrived >= 100


def test_publishers_take_turns_and_each_numbers_its_messages() -> None:
    with echo(3, 1000) as broker:
        pump = LoadPump(broker.files[:3], broker.files[3], [], [b"kind\xff\xff\xff\xff"], b"kind", number_at=4)
        pump.run(0.0, 5, 0.0, 30)
        assert pump.drain(20.0)
        for received in broker.received:
            frames = [received[start : start + 8] for start in range(0, len(received), 8)]
            assert frames == [b"kind" + number.to_bytes(4, "big") for number in range(len(frames))]
        assert max(map(len, broker.received)) - min(map(len, broker.received)) <= 8


def test_no_more_are_in_flight_than_wanted() -> None:
    ours, theirs = socket.socketpair()
    probe, far = socket.socketpair()
    with ours, theirs, probe, far:
        pump = LoadPump([ours.fileno()], probe.fileno(), [], [b"kind"], b"kind")
        pump.run(0.05, 6, 0.0)
        assert theirs.recv(1000) == b"kind" * 6
        assert not pump.drain(0.05)
        far.sendall(b"kind" * 6)
        assert pump.drain(20.0)


def test_stamped_messages_tell_how_long_they_took() -> None:
    with echo(2, 1000) as broker:
        pump = LoadPump(broker.files[:2], broker.files[2], [], [b"at=" + b"0" * 16 + b"x"], b"at=", stamp_at=3)
        pump.run(0.05, 1, 2000.0, 20)
        assert pump.drain(20.0)
        found = pump.take_latencies()
        assert len(found) == pump.sent
        assert min(found) > 0
        assert pump.take_latencies() == []


def test_a_publisher_whose_socket_is_full_waits_and_loses_nothing() -> None:
    with echo(1, 70_000) as broker:
        pump = LoadPump(broker.files[:1], broker.files[1], [], [b"kind" + b"x" * 100_000], b"kind")
        pump.run(0.0, 50, 0.0, 100)
        assert pump.drain(20.0)
    assert pump.arrived == pump.sent
    assert len(broker.received[0]) == pump.sent * 100_004


def test_what_cannot_be_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for wrong in (([], [b"kind"], b"kind"), ([ours.fileno()], [], b"kind"), ([ours.fileno()], [b"kind"], b"")):
            publishers, frames, mark = wrong
            with pytest.raises(UsageError, match="E_LAB_LOAD"):
                LoadPump(publishers, ours.fileno(), [], frames, mark)
        with pytest.raises(UsageError, match="shorter"):
            LoadPump([ours.fileno()], ours.fileno(), [], [b"kind"], b"kind", number_at=2)
    with pytest.raises(UsageError, match="E_LAB_SOCKETS"):
        LoadPump([ours.fileno()], theirs.fileno(), [], [b"kind"], b"kind")


def test_a_broker_that_is_gone_is_an_error() -> None:
    ours, theirs = socket.socketpair()
    probe, far = socket.socketpair()
    with ours, probe:
        pump = LoadPump([ours.fileno()], probe.fileno(), [], [b"kind"], b"kind")
        theirs.close()
        far.close()
        with pytest.raises(UsageError, match="closed a connection"):
            pump.run(1.0, 5, 0.0, 10)
