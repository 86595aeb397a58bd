"""Consumers of the wire workload: every verdict, credit late and in pieces, transactions, and readers that are slow."""

from dataclasses import dataclass

from hardening.simulate.checkers import fail
from hardening.simulate.wire_ledger import Box, Given, Ledger, Party, Transfer
from tidings.delivery.mailbox import SlowPolicy
from tidings.model.codec import ID
from tidings.node.clients.session import DirectSubscription, MailboxSubscription
from tidings.node.requests import Ack, AckMode, Begin, Commit, Credit, Request, Rollback, Subscribe, Sync, Verdict
from tidings.sim.client import SimClient

SESSION = 5
CREDIT_MAX = 4
VERDICTS = {Verdict.DONE: 6, Verdict.RETRY: 2, Verdict.RELEASE: 1, Verdict.DEAD: 1}


class WireConsumer(Party):
    """Takes from a box and says of it whatever can be said. `target`: a queue to which some of it goes on, in
    transactions."""

    def __init__(self, ledger: Ledger, box: Box, name: str, target: str = "") -> None:
        super().__init__(ledger, box.router, name)
        self.box, self.target = box, target
        self.held: dict[int, Given] = {}
        self.transfers: list[Transfer] = []
        self._taken = self._granted = 0
        self._unread: list[Given] = []  # verdicts that the broker may not have read yet

    def work(self, *, steady: bool = False) -> None:
        """`steady`: done with everything, and stay."""
        if not self.there:
            return
        self.take()
        if not self.attached or (self.client is not None and (self.client.ended or self.client.failures)):
            self.go()
            self._attach()
            return
        if not steady and self.rng.random() < 0.08:
            self.go()
            return
        if self.held and self.target and not steady and self.rng.random() < 0.4:
            self._transfer()
        elif self.held:
            self._judge(Verdict.DONE if steady else None)
        if self.attached and (steady or self.rng.random() < 0.6):
            self._give_credit()
        self._settle()

    def go(self) -> None:
        """Leave with what it has not said anything of."""
        self._settle()
        self.leave()
        self._unread, self.held = [], {}

    def sync(self) -> int:
        receipt = next(self.ledger.numbers)
        self.ask(Sync(receipt))
        return receipt

    def take(self) -> None:
        client = self.client
        if client is None:
            return
        for delivery in client.deliveries[self._taken :]:
            given = Given(client, delivery.tag, delivery.attempt, delivery.message[ID], at=delivery.at)
            self.box.given.append(given)
            self.held[delivery.tag] = given
        self._taken = len(client.deliveries)
        if self._taken > self._granted:
            fail("credit", f"{self.name} was given {self._taken} messages and asked for {self._granted}")

    def _attach(self) -> None:
        self.connect()
        self._taken, self.held, self._granted = 0, {}, self.rng.randint(0, CREDIT_MAX)
        self.ask(self.box.request(credit=self._granted))

    def attach_for_all(self) -> None:
        """With credit for whatever there may be."""
        self.connect()
        self._taken, self.held, self._granted = 0, {}, 1_000
        self.ask(self.box.request(credit=self._granted))

    def _give_credit(self) -> None:
        room = CREDIT_MAX - (self._granted - self._taken)
        if room > 0:
            more = self.rng.randint(1, room)
            self._granted += more
            self.ask(Credit(1, more))

    def _judge(self, verdict: Verdict | None) -> None:
        """Say one thing of some of what it has."""
        rng = self.rng
        verdict = verdict or rng.choices(list(VERDICTS), list(VERDICTS.values()))[0]
        tags = sorted(self.held)
        chosen = tags[: rng.randint(1, len(tags))]
        cumulative = rng.random() < 0.3
        if not cumulative:
            chosen = tags if verdict is Verdict.DONE and rng.random() < 0.5 else rng.sample(tags, len(chosen))
        elsewhere = verdict in (Verdict.RETRY, Verdict.RELEASE) and rng.random() < 0.3
        said = tuple(chosen[-1:] if cumulative else chosen)
        self._said(chosen, verdict, None)
        self.ask(Ack(1, said, cumulative=cumulative, verdict=verdict, elsewhere=elsewhere))
        if rng.random() < 0.5:
            receipt = self.sync()
            for given in self._unread:
                given.receipt = given.receipt or receipt

    def _said(self, tags: list[int], verdict: Verdict, transfer: Transfer | None) -> None:
        for tag in tags:
            given = self.held.pop(tag)
            given.verdict, given.transfer, given.said_at = verdict, transfer, self.brokers.calendar.now
            self._unread.append(given)

    def _settle(self) -> None:
        """Note which verdicts the broker has read."""
        if self.client is not None and self.attached and self.client.heard_out:
            for given in self._unread:
                given.sure = True
            self._unread = []

    def _transfer(self) -> None:
        """Take and send on, in one transaction; or not, after all."""
        rng, client, ledger = self.rng, self.client, self.ledger
        assert client is not None
        tags = rng.sample(sorted(self.held), rng.randint(1, len(self.held)))
        end = rng.choice(("commit", "commit", "rollback", "leave"))
        receipt = next(ledger.numbers) if end == "commit" else 0
        transfer = Transfer(client, receipt, [(tag, self.held[tag].id) for tag in tags])
        self.transfers.append(transfer)
        self.ask(Begin(next(ledger.numbers), SESSION))
        for _ in tags:
            self._send_on(client, transfer)
        self._said(tags, Verdict.DONE, transfer)
        self.ask(Ack(1, tuple(tags), session=SESSION))
        if end == "leave":
            self.go()
            return
        last: Request = Commit(receipt, SESSION) if receipt else Rollback(next(ledger.numbers), SESSION)
        self.ask(last)

    def _send_on(self, client: SimClient, transfer: Transfer) -> None:
        destination, now = f"queue:{self.target}", self.brokers.calendar.now
        message = self.ledger.message(self.router, destination, persistent=True, time_ms=now)
        sent = self.ledger.note(message, destination, self.router, client, next(self.ledger.numbers), transfer)
        transfer.sent.append(sent.id)
        self.call(lambda machine, now: machine.publish(now, client, message, sent.receipt, session=SESSION))


@dataclass(eq=False)
class Reading:
    """One connection of a slow reader."""

    client: SimClient
    old: frozenset[bytes]  # what had been accepted before it subscribed
    began_at: int | None = None  # how much had been sent when that was confirmed


class SlowReader(Party):
    """Takes nothing for a while, then everything. `private`: by a mailbox that lives as long as its connection."""

    def __init__(self, ledger: Ledger, router: int, number: int, policy: SlowPolicy, *, private: bool) -> None:
        super().__init__(ledger, router, f"slow {number}")
        self.topic, self.policy, self.private = f"slow.{number}", policy, private
        self.reading: Reading | None = None
        self.slept_ms = 0.0  # the longest time in which this connection took nothing
        self._awake_at = 0.0
        self._taken = 0

    @property
    def title(self) -> str:
        kind = "private mailbox" if self.private else "subscription"
        return f"{kind} to {self.topic} at router {self.router} ({self.policy.value})"

    def work(self, *, steady: bool = False, asleep: bool = False) -> None:
        if not self.there:
            return
        self._ended()
        if not self.attached:
            self._attach()
            return
        client, reading = self.client, self.reading
        assert client is not None
        assert reading is not None
        if reading.began_at is None and 1 in client.done:
            reading.began_at = len(self.ledger.sent)
        if client.reads and not self.private:
            self._awake_at = self.brokers.calendar.now
        self.slept_ms = max(self.slept_ms, self.brokers.calendar.now - self._awake_at)
        reads = steady or (not asleep and self.rng.random() < 0.5)
        if reads != client.reads:
            self.call(lambda machine, now: machine.read(now, client, reads=reads))
        new, self._taken = client.deliveries[self._taken :], len(client.deliveries)
        if reads:
            self._awake_at = self.brokers.calendar.now
        if self.private and new and self.attached:
            self.ask(Ack(1, tuple(one.tag for one in new)), Credit(1, len(new)))

    def _ended(self) -> None:
        client = self.client
        if client is not None and client.ended:
            if client.ended != "E_SLOW_CONSUMER":
                fail("slow-consumer", f"{self.title} ended with {client.ended}")
            self.leave()

    def _attach(self) -> None:
        self.connect()
        assert self.client is not None
        old = frozenset(one.id for one in self.ledger.sent.values() if one.destination == self.topic and one.accepted)
        self._taken, self.reading = 0, Reading(self.client, old)
        self.slept_ms, self._awake_at = 0.0, self.brokers.calendar.now
        ack = AckMode.CLIENT if self.private else AckMode.AUTO
        self.ask(Subscribe(1, 1, self.topic, ack=ack, credit=50 if self.private else 0, policy=self.policy))

    def longest_ms(self) -> float:
        """In which this connection took nothing, up to now."""
        return max(self.slept_ms, self.brokers.calendar.now - self._awake_at)

    def dropped(self) -> int:
        """The number of messages that its broker says it has dropped."""
        broker, client = self.brokers.broker(self.router), self.client
        assert broker is not None
        assert client is not None
        found = broker.engine.node.connections[client.number].subscriptions.get(1)
        if isinstance(found, DirectSubscription):
            return broker.forwarder.sink_counts(found.sink)[1]
        if isinstance(found, MailboxSubscription):
            return found.mailbox.dropped
        return 0  # it has been asked for, and not made yet
