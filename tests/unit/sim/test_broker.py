"""The simulated broker as a driver: what takes time on a real machine takes time here too."""

from random import Random
from typing import Any

from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.requests import ReadRetained, Release, Request, Retain, Trace
from tidings.overlay import effects as fx
from tidings.protocols.native.request_encoding import encode_request
from tidings.sim.broker import SimBroker
from tidings.sim.host import Host


class Lone:
    """A broker and a client of it; the disk's timers ring when told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.broker = SimBroker(None, Host(), 1, Random(1))
        self.timers: list[fx.SetTimer] = []
        self.carry_out(self.broker.start(self.now))
        self.client = self.broker.connect(self.now)

    def carry_out(self, effects: list[Any]) -> None:
        self.timers += [one for one in effects if one.name != "tick"]

    def ask(self, *requests: Request) -> None:
        self.carry_out(self.broker.send(self.now, self.client, b"".join(map(encode_request, requests))))

    def publish(self, number: int) -> None:
        message = Message(Destination.parse("t"), {}, b"%d" % number, id=MessageId(1, 1, number), persistent=True)
        self.carry_out(self.broker.publish(self.now, self.client, encode_message(message), 100 + number))

    def ring(self) -> None:
        while self.timers:
            self.now = self.timers[0].at
            self.carry_out(self.broker.step(self.now, fx.Timer(self.timers.pop(0).name)))


def test_reading_from_the_disk_takes_a_moment() -> None:
    lone = Lone()
    lone.ask(Retain(1, "r", "t"))
    lone.ring()
    lone.publish(1)
    lone.ring()
    lone.ask(ReadRetained(2, "r"))
    assert 2 not in lone.client.done
    assert [one.name for one in lone.timers] == ["read"]
    lone.ring()
    assert 2 in lone.client.done


def test_asking_the_archive_of_histories_takes_a_moment() -> None:
    lone = Lone()
    lone.ask(Trace(2, MessageId(1, 1, 1)))
    assert 2 not in lone.client.done
    assert [one.name for one in lone.timers] == ["resolve"]
    lone.ring()
    assert 2 in lone.client.done


def test_what_is_released_while_it_is_read_is_not_there_any_more() -> None:
    """The store has forgotten it when the read comes to it: a real store says so, and the read is answered."""
    lone = Lone()
    lone.ask(Retain(1, "r", "t"))
    lone.ring()
    lone.publish(1)
    lone.ring()
    lone.ask(ReadRetained(2, "r"), Release(3, "r", forget=True))
    lone.ring()
    assert {2, 3} <= lone.client.done | {one.receipt for one in lone.client.failures}
