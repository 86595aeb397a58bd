"""Delayed messages and message groups of a queue: native publishers and consumers, judged by their times.

Named checkers: `not-before-its-time`, `delayed-not-lost`, `group-to-one`: while a consumer that has got a message of a
group is there, no other gets one of the group.
"""

from dataclasses import dataclass

from hardening.simulate.checkers import fail
from hardening.simulate.wire_ledger import Ledger, Party
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.codec import ID
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.requests import Ack, AckMode, Subscribe
from tidings.sim.client import SimClient

DELAYS_MS = (50, 500, 2_000)
CLOCK_MS = 40  # clocks are set by a few milliseconds, and messages are looked for now and then
CREDIT = 1_000
GROUP = "JMSXGroupID"


@dataclass(frozen=True, slots=True)
class Handed:
    """A delivery by the calendar: `group` is empty without one."""

    at: float
    id: bytes
    client: SimClient
    group: str


class LaterPublisher(Party):
    def __init__(self, ledger: Ledger, router: int, queue: str) -> None:
        super().__init__(ledger, router, f"later {queue}")
        self.queue = queue
        self.due: dict[bytes, float] = {}  # by the calendar; of all that were published
        self._asked: dict[bytes, tuple[SimClient, int]] = {}

    def work(self, *, steady: bool = False) -> None:
        if steady or not self.there:
            return
        if not self.attached or (self.client is not None and self.client.ended):
            self.connect()
        client, receipt, now = self.client, next(self.ledger.numbers), self.brokers.calendar.now
        assert client is not None
        delay_ms = self.rng.choice((0, *DELAYS_MS))
        wall_ms = int(now + self.brokers.hosts[self.router].ahead_ms)
        id = MessageId(3, self.router, wall_ms, receipt % 65_536)
        properties = {GROUP: f"group {self.rng.randint(1, 3)}"} if self.rng.random() < 0.5 else {}
        message = encode_message(
            Message(
                Destination(self.queue, True),
                dict(properties),
                id=id,
                persistent=True,
                deliver_at_ms=wall_ms + delay_ms if delay_ms else None,
            )
        )
        self.due[message[ID]], self._asked[message[ID]] = now + delay_ms, (client, receipt)
        self.call(lambda machine, now: machine.publish(now, client, message, receipt))

    def accepted(self) -> list[bytes]:
        return [id for id, (client, receipt) in self._asked.items() if receipt in client.receipts]


class LaterConsumer(Party):
    """Acknowledges what it gets, sometimes late, and comes and goes."""

    def __init__(self, ledger: Ledger, router: int, queue: str, name: str) -> None:
        super().__init__(ledger, router, name)
        self.queue = queue
        self.handed: list[Handed] = []
        self.ends: dict[SimClient, float] = {}  # when clients were gone, as far as that is not for a crash
        self._taken = 0

    def work(self, *, steady: bool = False) -> None:
        if not self.there:
            return
        self.take()
        refused = self.client is not None and (self.client.ended or self.client.failures)  # by a full disk
        if refused:
            self._go()
        if not self.attached:
            self.connect()
            self._taken = 0
            self.ask(Subscribe(1, 1, f"queue:{self.queue}", ack=AckMode.CLIENT, credit=CREDIT))
        elif not steady and self.rng.random() < 0.1:
            self._go()

    def take(self) -> None:
        client = self.client
        if client is None:
            return
        new = client.deliveries[self._taken :]
        self._taken = len(client.deliveries)
        for one in new:
            group = decode_message(one.message).properties.get(GROUP, "")
            self.handed.append(Handed(one.at, one.message[ID], client, str(group)))
        if new and self.attached and self.there:
            self.ask(Ack(1, tuple(one.tag for one in new)))

    def _go(self) -> None:
        if self.client is not None and self.attached:
            client = self.client
            self.leave()
            self.ends[client] = self.brokers.calendar.now


def judge(publisher: LaterPublisher, consumers: list[LaterConsumer]) -> None:
    handed = sorted((one for consumer in consumers for one in consumer.handed), key=lambda one: one.at)
    for one in handed:
        if one.at + CLOCK_MS < publisher.due[one.id]:
            early_ms = publisher.due[one.id] - one.at
            fail("not-before-its-time", f"{one.id.hex()} of queue {publisher.queue} came {early_ms:.0f} ms too early")
    got = {one.id for one in handed}
    for id in publisher.accepted():
        if id not in got:
            fail("delayed-not-lost", f"{id.hex()} of queue {publisher.queue} has not come")
    ends = {client: at for consumer in consumers for client, at in consumer.ends.items()}
    last: dict[str, Handed] = {}
    for one in handed:
        before = last.get(one.group) if one.group else None
        if before is not None and _both(before, one) and ends.get(before.client, float("inf")) > one.at:
            fail("group-to-one", f"{one.group} of queue {publisher.queue} has two consumers at {one.at:.0f}")
        last[one.group] = one


def _both(a: Handed, b: Handed) -> bool:
    """Reports whether two clients of one life of the broker have got them."""
    return a.client is not b.client and a.client.life == b.client.life
