"""Makes random scripts: mostly what clients do, now and then what none should."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hardening.differential.script import Chosen, Restart, Script, Send, Step, Tick
from tidings.delivery.mailbox import SlowPolicy
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.event_type import EventType
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.requests import (
    AckMode,
    AddType,
    Advertise,
    Begin,
    Browse,
    Commit,
    Credit,
    Drain,
    Forget,
    Identify,
    MakeTemporary,
    Move,
    Purge,
    ReadRetained,
    Release,
    RemoveTemporary,
    RemoveType,
    Request,
    Retain,
    Rollback,
    ShowTypes,
    Subscribe,
    Sync,
    Trace,
    Unadvertise,
    Unsubscribe,
)
from tidings.protocols.native.frames import FrameType, control, encode_publish
from tidings.protocols.native.request_encoding import encode_request

CLIENTS_MAX = 3
NUMBERS = (1, 2, 3, 4)  # of subscriptions
STEPS = (12, 40)
BROWSER = 99  # subscription number of what is browsed
TOPICS, QUEUES = ("a", "a.b", "a.b", "x"), ("queue:q", "queue:r", "queue:dead-letters")
PATTERNS = ("a", "a.b", "a.*", "a.>", ">", ">")
TEMPORARY = ("queue:tmp.1", "queue:tmp.2")
SELECTORS = ("", "", "", "", "n > 2", "color = 'red' AND n < 5", "color LIKE 'b%' OR n + 1 = 4")
WRONG_SHARE = 0.04  # of frames that ask for what cannot be, on purpose; more do by chance
NAMES, KEYS = ("one", "two"), ("", "", "k", "l")
LARGE_BYTES = 150_000  # a few of them exceed what a connection's output may hold
LONE_MESSAGES = 24
SYNC_RECEIPT = 1 << 31  # and above: of what a client asks for after each step


@dataclass(slots=True)
class ClientModel:
    """The approximate state of a client: the broker may have refused some of it."""

    subscriptions: set[int] = field(default_factory=set)
    transactions: set[int] = field(default_factory=set)
    temporary: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Author:
    """Makes one script."""

    rng: random.Random
    receipts: int = 0
    messages: list[bytes] = field(default_factory=list)
    client: ClientModel = field(default_factory=ClientModel)  # whose frames are made

    def script(self, seed: int) -> Script:
        clients = self.rng.randint(1, CLIENTS_MAX)
        ids = tuple(self.rng.choice(("c0", "c1", f"c{number}", f"c{number}")) for number in range(clients))
        models = [ClientModel() for _ in ids]
        steps = [self.step(models) for _ in range(self.rng.randint(*STEPS))]
        if clients == 1 and self.rng.random() < 0.3:
            steps[1:1] = self.lone_publications()
        return Script(seed, ids, tuple(steps), pipelines=self.rng.random() < 0.5)

    def lone_publications(self) -> list[Step]:
        """Messages one by one: after a while the broker writes each alone, at once."""
        messages = [self.message("queue:q", persistent=True) for _ in range(LONE_MESSAGES)]
        return [Send(0, (encode_publish(self.receipt(), one),), syncs=False) for one in messages]

    def step(self, models: list[ClientModel]) -> Step:
        kind = self.rng.random()
        if kind < 0.04:
            return Tick()
        if kind < 0.06:
            models[:] = [ClientModel() for _ in models]
            return Restart()
        number = self.rng.randrange(len(models))
        self.client = models[number]
        frames: list[bytes | Chosen] = []
        if not self.client.subscriptions:
            frames = [self.subscription() for _ in range(self.rng.randint(1, 3))]
        frames += [self.frame() for _ in range(self.rng.choice((1, 1, 2, 3, 6)))]
        if self.rng.random() < 0.02:
            frames.append(self.malformed())
        leaves = self.rng.random() < 0.06
        if leaves:
            models[number] = ClientModel()
            if self.rng.random() < 0.3:
                cut = self.publication()
                frames.append(cut[: self.rng.randrange(1, len(cut))])
        return Send(number, tuple(frames), leaves, hello=self.bad_hello() if self.wrong() else b"")

    def frame(self) -> bytes | Chosen:
        makers: tuple[tuple[Callable[[], bytes | Chosen], int], ...] = (
            (self.publication, 44),
            (self.subscription, 8),
            (self.verdict, 20),
            (self.request, 16),
            (self.transaction, 8),
            (self.retained, 3),
        )
        return self.rng.choices([make for make, _ in makers], [weight for _, weight in makers])[0]()

    def receipt(self) -> int:
        self.receipts += 1
        return self.receipts

    def wrong(self) -> bool:
        return self.rng.random() < WRONG_SHARE

    def number(self, *, fresh: bool = False) -> int:
        """Of a subscription that there is, or of one that there is not yet."""
        fitting = [one for one in NUMBERS if (one in self.client.subscriptions) is not (fresh or self.wrong())]
        return self.rng.choice(fitting or NUMBERS)

    def session(self) -> int:
        if self.wrong():
            return 3
        return self.rng.choice((0, *sorted(self.client.transactions)))

    def selector(self) -> str:
        return "n >" if self.wrong() else self.rng.choice(SELECTORS)

    # --- frames -----------------------------------------------------------------------------------------------------

    def publication(self) -> bytes:
        receipt = self.receipt() if self.rng.random() < 0.7 else 0
        if self.messages and self.rng.random() < 0.1:  # sent again, as after a broken connection
            return encode_publish(receipt, self.rng.choice(self.messages), flags=self.rng.choice((0, 1, 1)))
        temporary = TEMPORARY if self.wrong() else sorted(self.client.temporary)
        destination = self.rng.choice((*TOPICS, *QUEUES[:2], *temporary))
        message = self.message(destination, persistent=self.rng.random() < 0.6)
        return encode_publish(receipt, message, self.session(), self.rng.choice((0, 0, 0, 0, 1)))

    def message(self, destination: str, *, persistent: bool) -> bytes:
        large = persistent and self.rng.random() < 0.03
        message = encode_message(
            Message(
                Destination.parse(destination),
                {"n": self.rng.randint(0, 6), "color": self.rng.choice(("red", "blue"))},
                bytes(LARGE_BYTES) if large else self.rng.randbytes(self.rng.choice((0, 5, 300))),
                id=MessageId(1, 1, 1_000_000, len(self.messages)),
                persistent=persistent,
                priority=self.rng.choice((4, 4, 4, 0, 9)),
                expiration_ms=self.rng.choice((None, None, None, None, None, None, None, 1, 1 << 45)),
            )
        )
        self.messages.append(message)
        return message

    def subscription(self) -> bytes:
        rng, number = self.rng, self.number(fresh=True)
        self.client.subscriptions.add(number)
        queue = rng.random() < 0.4
        durable = rng.choice(("", *NAMES)) if not queue or self.wrong() else ""
        shared = rng.choice(("", "", "one")) if not queue else ""
        if durable and shared and not self.wrong():
            shared = durable
        ack = rng.choice((AckMode.CLIENT, AckMode.CLIENT, AckMode.AUTO, AckMode.DUPS_OK))
        plain = not (queue or durable or shared or ack is AckMode.CLIENT)
        asked = Subscribe(
            self.receipt(),
            number,
            rng.choice(
                (*QUEUES, *(TEMPORARY if self.wrong() else sorted(self.client.temporary))) if queue else PATTERNS
            ),
            self.selector(),
            ack,
            durable,
            shared,
            rng.choice((0, 0, 0, 1, 2, 5)),
            rng.choice(list(SlowPolicy)),
            (plain and rng.random() < 0.2) or self.wrong(),
            self.session(),
            rng.random() < 0.1,
        )
        return encode_request(asked)

    def verdict(self) -> Chosen:
        """An acknowledgement: of any verdict, cumulative or not, sometimes of tags of another subscription."""
        flags = self.rng.choice((0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 8, 9, 18, 24, 32, 34, self.rng.randrange(64)))
        if self.rng.random() < 0.01:
            flags = self.rng.randrange(64, 256)
        picks = tuple(self.rng.randrange(6) for _ in range(self.rng.choice((0, 1, 1, 2, 6))))
        return Chosen(FrameType.ACK, self.number(), picks, flags, self.session())

    def request(self) -> bytes | Chosen:
        rng, receipt, queue = self.rng, self.receipt(), "a" if self.wrong() else self.rng.choice(QUEUES)
        if rng.random() < 0.15:
            picks, kind = tuple(range(rng.randint(1, 3))), rng.choice((FrameType.PURGE, FrameType.MOVE))
            return Chosen(kind, BROWSER, picks, queue=queue, target=rng.choice(QUEUES), receipt=receipt)
        common: tuple[Request, ...] = (
            Credit(self.number(), rng.choice((0, 1, 1, 3, 1 << 31))),
            Credit(self.number(), rng.randint(1, 4)),
            Drain(receipt, self.number()),
            Browse(receipt, BROWSER, queue, self.selector(), count=rng.choice((0, 1, 3))),
            Browse(receipt, BROWSER, queue),
            Move(receipt, queue, rng.choice(QUEUES)),
            Sync(receipt),
        )
        rare: tuple[Request, ...] = (
            Forget(receipt, rng.choice(NAMES), rng.random() < 0.3, rng.random() < 0.3),
            Purge(receipt, queue),
            RemoveTemporary(receipt, rng.choice(TEMPORARY)),
            Identify(receipt, rng.choice(("", "x"))),
            Advertise(receipt, self.number(), rng.choice(PATTERNS), self.selector()),
            Unadvertise(receipt, self.number()),
            Trace(receipt, MessageId(1, 1, 1_000_000, rng.randrange(9))),
            AddType(receipt, EventType(rng.choice(("Thing", "thing")))),
            RemoveType(receipt, "Thing"),
            ShowTypes(receipt),
        )
        chance = rng.random()
        if chance < 0.15:
            return self.end_subscription(receipt)
        if chance < 0.25:
            return self.temporary_queue(receipt)
        return encode_request(rng.choice(common if chance < 0.75 else rare))

    def end_subscription(self, receipt: int) -> bytes:
        number = self.number()
        self.client.subscriptions.discard(number)
        return encode_request(Unsubscribe(receipt, number, self.rng.random() < 0.3))

    def temporary_queue(self, receipt: int) -> bytes:
        queue = "queue:q" if self.wrong() else self.rng.choice(TEMPORARY)
        self.client.temporary.add(queue)
        return encode_request(MakeTemporary(receipt, queue))

    def transaction(self) -> bytes:
        rng, receipt, session, open = self.rng, self.receipt(), self.rng.choice((1, 2)), self.client.transactions
        if self.wrong():
            session = rng.choice((0, 3))
        if (session not in open) is not self.wrong():
            open.add(session)
            return encode_request(Begin(receipt, session))
        open.discard(session)
        if rng.random() < 0.3:
            return encode_request(Rollback(receipt, session))
        return encode_request(Commit(receipt, session, rng.choice(KEYS), rng.randint(0, 3)))

    def retained(self) -> bytes:
        receipt, name = self.receipt(), self.rng.choice(NAMES)
        requests: tuple[Request, ...] = (
            Retain(receipt, name, self.rng.choice(PATTERNS), self.selector()),
            ReadRetained(receipt, name, messages=self.rng.choice((0, 1, 256)), selector=self.selector()),
            Release(receipt, name, self.rng.randint(0, 9), self.rng.random() < 0.2),
        )
        return encode_request(self.rng.choice(requests))

    def bad_hello(self) -> bytes:
        return self.rng.choice(
            (
                control(FrameType.HELLO, {"version": 2}),
                control(FrameType.HELLO, {"version": 1, "client": "x" * 256}),
                encode_frame(FrameType.HELLO, self.rng.randbytes(5)),
                encode_frame(FrameType.PING, b""),
                self.transaction(),
                (1 << 20).to_bytes(4, "little") + self.transaction()[4:],  # more than is read before login
            )
        )

    def malformed(self) -> bytes:
        """A frame whose length is right and little else is, or one that is too long."""
        rng = self.rng
        good = self.publication() if rng.random() < 0.5 else self.transaction()
        damaged = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(6, len(damaged))] = rng.randrange(256)
        kinds = [one for one in range(256) if one != FrameType.INSPECT]  # whose answer tells of the machine
        return rng.choice(
            (
                bytes(damaged),
                encode_frame(rng.choice(kinds), rng.randbytes(rng.randrange(20))),
                encode_frame(FrameType.ACK, rng.randbytes(rng.choice((8, 9, 17)))),
                encode_frame(FrameType.CREDIT, rng.randbytes(rng.choice((7, 9)))),
                control(FrameType.SUBSCRIBE, {"receipt": self.receipt(), "subscription": 1, "ack": "never"}),
                control(FrameType.CLOSE, {}),
                control(FrameType.HELLO, {"version": 1}),
                (1 << 30).to_bytes(4, "little") + good[4:],
            )
        )


def write_script(seed: int) -> Script:
    return Author(random.Random(seed)).script(seed)
