"""What the forwarder records is what it has delivered, whoever comes, goes, waits or is passed over."""

import random

from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import PERHAPS_SENT, DirectSink, Forwarder
from tidings.kernel.tracker import KINDS, Tracker
from tidings.model.codec import encode_frame, encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.protocols.native.frames import FrameSplitter, FrameType
from tidings.tracking.recording.recorder_backend import LOSS_BIT

START_MS = 1_762_000_000_000
TOPICS = ("a", "b", "c")
PATTERNS = {
    text: encode_predicate(predicate_of(DestinationPattern.parse(text), Selector(""))) for text in (*TOPICS, ">")
}


class World:
    """A forwarder with an exact tracker, and what its readers have been given."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.tracker = Tracker(
            broker=1,
            exact=True,
            runs=False,
            bits=64,
            hashes=1,
            capacity=10**6,
            doublings=0,
            skew_ms=10**6,
            jitter_ms=0,
            persist_ms=1000,
            retain=False,
            forwards=False,
        )
        self.forwarder = Forwarder(output_bytes_max=100_000)
        self.forwarder.use_tracker(self.tracker)
        self.writers = [self._connect() for _ in range(2)]
        self.mailbox = self.forwarder.mailbox(PATTERNS["b"])
        self.readers: dict[int, dict[int, int]] = {}  # connection: subscription: sink
        self.names: dict[int, int] = {}  # connection: what the tracker calls it
        self.count = 0
        self.got: dict[int, set[bytes]] = {}
        self.sent: set[bytes] = set()

    def _connect(self) -> int:
        connection = self.forwarder.open()
        self.forwarder.log_in(connection, 1 << 20, False)
        return connection

    def come(self) -> None:
        connection = self._connect() if self.rng.random() < 0.8 else self.rng.choice(self.writers)
        if connection in self.readers:
            return
        self.readers[connection] = {}
        if self.rng.random() < 0.9:
            self.name(connection)
        self.subscribe(connection)

    def name(self, connection: int) -> None:
        self.names[connection] = len(self.got) + 1
        self.got[self.names[connection]] = set()
        self.forwarder.set_subscriber(connection, self.names[connection])

    def subscribe(self, connection: int) -> None:
        subscription = max(self.readers[connection], default=0) + 1
        sink = DirectSink(
            connection,
            subscription,
            PATTERNS[self.rng.choice((*TOPICS, ">"))],
            credit=self.rng.choice((0, 0, 5)),
            policy=self.rng.choice(("drop-oldest", "drop-newest")),
            backlog_bytes_max=self.rng.choice((0, 500, 10_000)),
            no_local=self.rng.random() < 0.3,
        )
        self.readers[connection][subscription] = self.forwarder.subscribe(sink)

    def go(self, connection: int) -> None:
        self.read(connection)
        for sink in self.readers.pop(connection).values():
            self.forwarder.unsubscribe(sink)
        self.forwarder.set_subscriber(connection, 0)
        self.names.pop(connection, None)
        if connection not in self.writers:
            self.forwarder.close(connection)

    def publish(self) -> None:
        frames = []
        for _ in range(self.rng.choice((1, 10, 600))):
            self.count += 1
            broker = 1 if self.rng.random() < 0.95 else 2
            one = MessageId(self.count, broker, START_MS + self.count // 100, self.count % 65536)
            topic = self.rng.choice(TOPICS) if self.rng.random() < 0.1 else TOPICS[self.count // 50 % 3]
            self.sent.add(bytes(one))
            frames.append(
                encode_frame(
                    FrameType.PUBLISH,
                    bytes(4) + encode_message(Message(Destination(topic), {}, id=one)),
                    flags=PERHAPS_SENT if broker == 2 else 0,  # it was sent there first
                )
            )
        self.forwarder.feed_bytes(self.rng.choice(self.writers), b"".join(frames), START_MS)
        self.forwarder.events()

    def read(self, connection: int) -> None:
        splitter = FrameSplitter(1 << 20)
        while data := self.forwarder.take(connection, 1 << 20, START_MS):
            for frame in splitter.feed(data):
                if connection in self.names:
                    self.got[self.names[connection]].add(bytes(frame.payload[20:36]))

    def step(self) -> None:
        match self.rng.randrange(8):
            case 0 if len(self.readers) < 6:
                self.come()
            case 1 if self.readers and self.rng.random() < 0.4:
                self.go(self.rng.choice(list(self.readers)))
            case 2 if self.readers:
                self.subscribe(self.rng.choice(list(self.readers)))
            case 3 if self.readers:
                connection = self.rng.choice(list(self.readers))
                self.read(connection)
                self.name(connection)
            case 4 if self.readers:
                sinks = self.readers[self.rng.choice(list(self.readers))]
                self.forwarder.credit(self.rng.choice(list(sinks.values())), self.rng.choice((1, 30)), START_MS)
            case _:
                self.publish()


def test_what_was_delivered_is_recorded_and_nothing_else() -> None:
    recorded_in_all = lost_in_all = 0
    for seed in range(8):
        world = World(seed)
        for _ in range(60):
            world.step()
        for connection in list(world.readers):
            world.read(connection)
        published: set[bytes] = set()
        recorded: dict[int, set[bytes]] = {}
        for one in world.tracker.end_all(START_MS):
            ids = {one.data[at : at + 16] for at in range(0, len(one.data), 16)}
            assert len(ids) <= one.ids  # what waited for one of two subscriptions is recorded again
            if one.kind == KINDS[3]:
                assert {MessageId.from_bytes(id).broker for id in ids} == {one.origin}
                recorded.setdefault(one.peer, set()).update(ids)
            elif one.kind == KINDS[0]:
                published |= ids
        assert published == world.sent
        lost = {peer: recorded.pop(peer) for peer in list(recorded) if peer & LOSS_BIT}
        assert recorded == {name: ids for name, ids in world.got.items() if ids}
        assert all(ids <= world.sent for ids in lost.values())
        lost_in_all += sum(map(len, lost.values()))
        recorded_in_all += sum(map(len, recorded.values()))
    assert recorded_in_all > 10_000
    assert lost_in_all > 1000
