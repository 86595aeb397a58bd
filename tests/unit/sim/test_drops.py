"""A simulated client that reads slowly is told exactly what was dropped, whatever it does and whenever."""

from random import Random

import pytest

from tidings.delivery.mailbox import SlowPolicy
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.node.requests import AckMode, Credit, Subscribe
from tidings.overlay import effects as fx
from tidings.sim.broker import SimBroker
from tidings.sim.client import SimClient
from tidings.sim.host import Host

BODY = bytes(300_000)  # a dozen are more than may wait for a subscription
SUBSCRIPTIONS = {1: AckMode.AUTO, 2: AckMode.AUTO, 3: AckMode.CLIENT}


class SlowReader:
    """A broker, a publisher that never waits for long, and a client that reads now and then."""

    def __init__(self, seed: int) -> None:
        self.rng, self.now, self.published = Random(seed), 0.0, 0
        self.broker = SimBroker(None, Host(), 1, Random(seed))
        self.broker.start(0.0)
        self.publisher, self.reader = self.broker.connect(0.0), self.broker.connect(0.0)
        for number, ack in SUBSCRIPTIONS.items():
            policy = self.rng.choice([SlowPolicy.DROP_OLDEST, SlowPolicy.DROP_NEWEST, SlowPolicy.PUSH_BACK])
            request = Subscribe(number, number, "t", ack=ack, credit=2, policy=policy)
            self.broker.request(0.0, self.reader, request)

    def happens(self) -> None:
        match self.rng.randrange(5):
            case 0:
                self.broker.request(self.now, self.reader, Credit(self.rng.randint(1, 3), self.rng.randint(1, 4)))
            case 1:
                self.broker.read(self.now, self.reader, reads=self.rng.random() < 0.5)
            case 2:
                self.passes()
            case _:
                for _ in range(self.rng.randint(1, 12)):
                    message = encode_message(Message(Destination("t"), {"n": self.published}, BODY))
                    self.broker.publish(self.now, self.publisher, message)
                    self.published += 1

    def passes(self) -> None:
        self.now += 1_000.0
        self.broker.step(self.now, fx.Timer("tick"))

    def ends(self) -> None:
        """The reader takes all that waits, and the publisher's last messages are read."""
        self.broker.read(self.now, self.reader, reads=True)
        for _ in range(10):
            for number in SUBSCRIPTIONS:
                self.broker.request(self.now, self.reader, Credit(number, 1_000))
            self.passes()


def check_drops_are_told(reader: SimClient, published: int) -> None:
    """Received and dropped, as its client counts them, are all that was published."""
    for number in SUBSCRIPTIONS:
        got = sum(delivery.subscription == number for delivery in reader.deliveries)
        lost = sum(count for (subscription, _), count in reader.dropped.items() if subscription == number)
        assert got + lost == published, f"subscription {number}: {got} received, {lost} dropped of {published}"


@pytest.mark.parametrize("seed", range(12))
def test_a_slow_reader_is_told_exactly_what_was_dropped(seed: int) -> None:
    world = SlowReader(seed)
    for _ in range(40):
        world.happens()
    world.ends()
    assert not world.reader.ended
    assert not world.publisher.outgoing
    check_drops_are_told(world.reader, world.published)


def test_the_checker_sees_a_notice_that_is_missing() -> None:
    world = SlowReader(0)
    while not world.reader.dropped:
        world.happens()
    world.ends()
    world.reader.dropped.popitem()
    with pytest.raises(AssertionError, match="received"):
        check_drops_are_told(world.reader, world.published)
