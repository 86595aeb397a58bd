"""Publishers of the wire workload: many at once, one that waits for each receipt, one whose clock drifts, and STOMP."""

from collections.abc import Sequence
from typing import Any

from hardening.simulate.checkers import fail
from hardening.simulate.wire_ledger import Box, Ledger, Party, Sent, check_receipt
from tidings.model.codec import encode_frame
from tidings.protocols.native.frames import FrameType, control
from tidings.sim.broker import SimBroker
from tidings.sim.client import SimClient
from tidings.sim.stomp_client import StompClient, stomp_frame

SOLO_MESSAGES = 24
BURST = 12
SOLO_LOOK_MS = 1.0
ANSWER_MS = 100.0  # for the refusal of what breaks the protocol


class Publisher(Party):
    """Publishes to any of some destinations. `clock_ms`: how far its clock is off, if it wants to be corrected."""

    def __init__(
        self, ledger: Ledger, router: int, name: str, destinations: Sequence[str], boxes: Sequence[Box], clock_ms: int
    ) -> None:
        super().__init__(ledger, router, name)
        self.destinations, self.boxes, self.clock_ms = destinations, boxes, clock_ms
        self.slow: Sequence[str] = ()  # topics of slow readers

    @property
    def time_ms(self) -> float:
        client = self.client
        return self.brokers.calendar.now + self.clock_ms + (0 if client is None else client.delta_ms)

    def work(self, messages: int = 0, *, persistent: bool | None = None) -> list[Sent]:
        """A burst; then it may be held by its broker for a while."""
        if not self.there:
            return []
        if not self.attached or (self.client is not None and self.client.ended):
            self.connect(int(self.brokers.calendar.now + self.clock_ms) if self.clock_ms else 0)
        self.confirm_clock()
        rng, sent = self.rng, []
        for _ in range(messages or rng.randint(1, 5)):
            if self.attached:
                lasting = rng.random() < 0.6 if persistent is None else persistent
                sent.append(self.publish(rng.choice(self.destinations), persistent=lasting))
        return sent

    def burst(self, topic: str) -> None:
        """More than a reader that is asleep can be kept, of what no disk keeps."""
        self.work(1)
        for _ in range(BURST):
            if self.there and self.attached:
                self.publish(topic, persistent=False, size=1_500)

    def publish(self, destination: str, *, persistent: bool, size: int | None = None) -> Sent:
        client, receipt = self.client, next(self.ledger.numbers)
        assert client is not None
        size, time_ms = self.rng.choice((0, 50, 400, 1500)) if size is None else size, self.time_ms
        message = self.ledger.message(self.router, destination, persistent=persistent, time_ms=time_ms, size=size)
        sent = self.ledger.note(message, destination, self.router, client, receipt, None)
        before = client.heard

        def heard(number: int) -> None:
            if number == receipt:
                client.heard = before
                check_receipt(self.ledger, self.boxes, sent)
            else:
                before(number)

        client.heard = heard
        self.call(lambda machine, now: machine.publish(now, client, message, receipt))
        return sent

    def confirm_clock(self) -> None:
        """From here on it uses what its broker has told it."""
        client = self.client
        if client is not None and client.corrections and self.attached:
            number, client.delta_ms = client.corrections.pop()
            client.corrections.clear()
            self.call(lambda machine, now: machine.send(now, client, control(FrameType.CLOCK, {"number": number})))


class SoloPublisher(Publisher):
    """Waits for each receipt before it sends the next message, as fast as that goes."""

    def run(self, left: int = SOLO_MESSAGES, last: Sent | None = None) -> None:
        while left and self.there:
            if last is not None and last.client is self.client and self.attached and not last.accepted:
                if any(one.receipt == last.receipt for one in last.client.failures):
                    return  # refused: its disk is full
                self.brokers.calendar.after(SOLO_LOOK_MS, self.run, left, last)
                return
            sent = self.work(1, persistent=True)
            if not sent:
                return
            left, last = left - 1, sent[0]


class Offender(Party):
    """Breaks the protocol, and must hear of it."""

    def work(self) -> None:
        if self.there:
            client = self.connect()
            frame = self.rng.choice((b"\xff" * 8, encode_frame(FrameType.ACK, b"short"), encode_frame(0x3F, b"")))
            self.call(lambda machine, now: machine.send(now, client, frame))
            self.brokers.calendar.after(ANSWER_MS, self._judge, client, frame)

    def _judge(self, client: SimClient, frame: bytes) -> None:
        """A busy broker may answer some turns later; one that is stopped, when it goes on."""
        if self.attached and not self.there:
            self.brokers.calendar.after(ANSWER_MS, self._judge, client, frame)
        elif self.client is client and self.attached and not client.ended:
            fail("protocol-errors", f"router {self.router} took {frame.hex()} without a word")


class StompParty(Party):
    """Sends to a queue and consumes it, both by STOMP; acknowledges some of what it gets, and all in the end."""

    def __init__(self, ledger: Ledger, router: int, queue: str) -> None:
        super().__init__(ledger, router, "")
        self.queue = queue
        self.sent: list[tuple[SimClient, int]] = []  # with the numbers of receipts
        self.got: list[tuple[int, bytes]] = []  # in which of the broker's lives, which body
        self.acknowledged: list[tuple[int, int, bytes]] = []  # how much it had got then, in which life, which body
        self._looked = 0
        self._unacknowledged: list[tuple[str, bytes]] = []

    def work(self, *, steady: bool = False) -> None:
        if not self.there:
            return
        self.look()
        if not self.attached or (self.client is not None and self.client.ended):
            self._attach()
        if not steady:
            for _ in range(self.rng.randint(0, 2)):
                self._publish()
        for ack, body in self._unacknowledged:
            if steady or self.rng.random() < 0.6:
                command = "ACK" if steady or self.rng.random() < 0.7 else "NACK"
                self._say(stomp_frame(command, {"id": ack}))
                self._unacknowledged = [one for one in self._unacknowledged if one[0] != ack]
                if command == "ACK" and self.client is not None and self.client.heard_out:
                    self.acknowledged.append((len(self.got), self.client.life, body))
        if not steady and self.rng.random() < 0.1:
            self.leave()

    def look(self) -> None:
        client = self.client
        if isinstance(client, StompClient):
            for frame in client.frames[self._looked :]:
                if frame.command == "MESSAGE":
                    self.got.append((client.life, frame.body))
                    self._unacknowledged.append((frame.headers["ack"], frame.body))
            self._looked = len(client.frames)

    def _attach(self) -> None:
        made: list[StompClient] = []

        def act(machine: SimBroker, now: float) -> list[Any]:
            made.append(machine.connect_stomp(now))
            return []

        self.call(act)
        self.client, self._looked, self._unacknowledged = made[0], 0, []
        self.ledger.clients.append(made[0])
        subscribe = {"id": "1", "destination": f"/queue/{self.queue}", "ack": "client-individual"}
        self._say(stomp_frame("SUBSCRIBE", subscribe))

    def _publish(self) -> None:
        client, receipt = self.client, next(self.ledger.numbers)
        assert client is not None
        self.sent.append((client, receipt))
        headers = {"destination": f"/queue/{self.queue}", "persistent": "true", "receipt": str(receipt)}
        self._say(stomp_frame("SEND", headers, f"stomp {receipt}".encode()))

    def _say(self, frame: bytes) -> None:
        client = self.client
        assert client is not None
        self.call(lambda machine, now: machine.send(now, client, frame))
