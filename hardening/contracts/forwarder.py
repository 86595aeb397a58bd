"""The contract of a forwarder: any traffic, cut anywhere, against the plain one."""

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from hardening.contracts.reference_forwarder import ReferenceForwarder
from tidings.kernel.events import ControlFrame, FrameError, PlaneEvent, PublishCheck, Published, SlowConsumer
from tidings.kernel.forwarder import DirectSink
from tidings.model.codec import encode_frame, encode_message, encode_predicate
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.protocols.native.frames import FrameType, encode_ack, encode_credit

OUTPUT_BYTES_MAX = 400
STALL_MS = 100
PATTERNS = ("a", "a.b", "a.*", ">", "queue:a")
SELECTORS = ("", "x > 1", "x = 1 OR y = 'b'", "x + 1 = 3", "y LIKE 'b%'")
POLICIES = ("push-back", "push-back", "drop-oldest", "drop-newest", "disconnect")

PREDICATES = st.builds(
    lambda pattern, selector: encode_predicate(predicate_of(DestinationPattern.parse(pattern), Selector(selector))),
    st.sampled_from(PATTERNS),
    st.sampled_from(SELECTORS),
)
MESSAGES = st.builds(
    lambda destination, x, y, size, persistent, expires: encode_message(
        Message(
            Destination.parse(destination),
            {"x": x, "y": y},
            bytes(size),
            persistent=persistent,
            expiration_ms=expires,
        )
    ),
    st.sampled_from(("a", "a.b", "a.c", "queue:a", "z")),
    st.integers(0, 3),
    st.sampled_from(("a", "b", "bb")),
    st.sampled_from((0, 10, 200)),
    st.booleans(),
    st.sampled_from((None, None, None, 1_000, 1_050, 1_200)),
)
PUBLISHES = st.builds(
    lambda receipt, message, flags, session: encode_frame(
        FrameType.PUBLISH, receipt.to_bytes(4, "little") + message, flags, session
    ),
    st.integers(0, 3),
    MESSAGES,
    st.sampled_from((0, 0, 1)),
    st.sampled_from((0, 0, 0, 7)),
)
OTHERS = st.one_of(
    st.builds(encode_credit, st.integers(1, 2), st.integers(0, 3)),
    st.builds(encode_ack, st.integers(1, 2), st.lists(st.integers(0, 2**64 - 1), max_size=3), st.integers(0, 7)),
    st.builds(encode_frame, st.just(FrameType.ACK), st.binary(max_size=20)),
    st.builds(encode_frame, st.sampled_from((FrameType.PING, FrameType.SUBSCRIBE, 0x77)), st.binary(max_size=5)),
)
BROKEN = st.one_of(
    st.binary(min_size=8, max_size=12),
    st.just(encode_frame(FrameType.PUBLISH, bytes(50))),
    st.just(encode_frame(FrameType.PUBLISH, b"ab")),
    st.just(encode_frame(FrameType.DELIVER, bytes(20))),
)
FRAMES = st.one_of(PUBLISHES, PUBLISHES, PUBLISHES, PUBLISHES, OTHERS, OTHERS)


class _Pair:
    """One connection, in both."""

    def __init__(self, real: int, plain: int) -> None:
        self.numbers = (real, plain)
        self.unsent = b""
        self.sink: tuple[int, int] | None = None
        self.question: ControlFrame | PublishCheck | None = None
        self.blocked = False
        self.broken = False


class _Contract(RuleBasedStateMachine):
    """Runs the same steps on a forwarder and on the reference, and compares their output."""

    make: Callable[..., Any]

    def __init__(self) -> None:
        super().__init__()
        options = {"output_bytes_max": OUTPUT_BYTES_MAX, "stall_ms": STALL_MS}
        self.both = (self.make(**options), ReferenceForwarder(**options))
        self.pairs: list[_Pair] = []
        self.mailboxes: list[tuple[int, int]] = []
        self.now_ms = 1_000
        for _ in range(2):
            self.open(checks=False)

    # --- connections

    @rule(checks=st.booleans())
    def open(self, checks: bool) -> None:
        if len(self.pairs) < 5:
            pair = _Pair(self.both[0].open(), self.both[1].open())
            self.pairs.append(pair)
            for forwarder, number in zip(self.both, pair.numbers, strict=True):
                forwarder.log_in(number, 2_000, checks)

    @precondition(lambda self: len(self.pairs) > 2)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        pair = self.pick(data)
        self.unsubscribe_from(pair)
        self.pairs.remove(pair)
        for forwarder, number in zip(self.both, pair.numbers, strict=True):
            forwarder.close(number)

    @rule(data=st.data(), on=st.booleans())
    def hold(self, data: st.DataObject, on: bool) -> None:
        pair = self.pick(data)
        for forwarder, number in zip(self.both, pair.numbers, strict=True):
            (forwarder.hold if on else forwarder.release)(number)

    @rule(data=st.data(), session=st.sampled_from((0, 7)), on=st.booleans())
    def transact(self, data: st.DataObject, session: int, on: bool) -> None:
        pair = self.pick(data)
        for forwarder, number in zip(self.both, pair.numbers, strict=True):
            forwarder.transacted(number, session, on and session != 0)

    # --- sinks

    @rule(
        data=st.data(),
        predicate=PREDICATES,
        credit=st.sampled_from((-1, 0, 0, 1, 3)),
        policy=st.sampled_from(POLICIES),
        bytes_max=st.sampled_from((0, 200, 1_000)),
        no_local=st.booleans(),
    )
    def subscribe(
        self, data: st.DataObject, predicate: bytes, credit: int, policy: str, bytes_max: int, no_local: bool
    ) -> None:
        pair = self.pick(data)
        if pair.sink is None:
            real, plain = (
                forwarder.subscribe(DirectSink(number, 1, predicate, credit, policy, bytes_max, no_local))
                for forwarder, number in zip(self.both, pair.numbers, strict=True)
            )
            pair.sink = (real, plain)

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        self.unsubscribe_from(self.pick(data))

    def unsubscribe_from(self, pair: _Pair) -> None:
        if pair.sink is not None:
            for forwarder, sink in zip(self.both, pair.sink, strict=True):
                forwarder.unsubscribe(sink)
            pair.sink = None

    @rule(predicate=PREDICATES)
    def add_mailbox(self, predicate: bytes) -> None:
        if len(self.mailboxes) < 4:
            self.mailboxes.append((self.both[0].mailbox(predicate), self.both[1].mailbox(predicate)))

    @precondition(lambda self: self.mailboxes)
    @rule()
    def remove_mailbox(self) -> None:
        for forwarder, sink in zip(self.both, self.mailboxes.pop(0), strict=True):
            forwarder.unsubscribe(sink)

    @rule(data=st.data(), more=st.integers(0, 3))
    def credit(self, data: st.DataObject, more: int) -> None:
        sink = self.pick(data).sink
        if sink is not None:
            for forwarder, number in zip(self.both, sink, strict=True):
                forwarder.credit(number, more, self.now_ms)

    @rule(data=st.data())
    def take_credit(self, data: st.DataObject) -> None:
        sink = self.pick(data).sink
        if sink is not None:
            left = [forwarder.take_credit(number) for forwarder, number in zip(self.both, sink, strict=True)]
            assert left[0] == left[1]

    # --- input

    @rule(data=st.data(), frames=st.lists(FRAMES, min_size=1, max_size=8), cut=st.integers(0, 60))
    def feed(self, data: st.DataObject, frames: list[bytes], cut: int) -> None:
        pair = self.pick(data)
        pair.unsent += b"".join(frames)
        if not pair.blocked:
            size = max(len(pair.unsent) - cut, 1)
            self.feed_some(pair, size)

    @rule(data=st.data(), garbage=BROKEN)
    def feed_garbage(self, data: st.DataObject, garbage: bytes) -> None:
        pair = self.pick(data)
        if not pair.blocked and len(self.pairs) > 2:
            pair.unsent += garbage
            self.feed_some(pair, len(pair.unsent))

    def feed_some(self, pair: _Pair, size: int) -> None:
        piece, pair.unsent = pair.unsent[:size], pair.unsent[size:]
        self.same_flags(pair, "feed_bytes", piece, self.now_ms)

    @rule(data=st.data(), yes=st.booleans())
    def answer(self, data: st.DataObject, yes: bool) -> None:
        asked = [pair for pair in self.pairs if pair.question is not None]
        if not asked:
            return
        pair = data.draw(st.sampled_from(asked))
        question, pair.question = pair.question, None
        assert question is not None
        if isinstance(question, PublishCheck):
            for forwarder, number in zip(self.both, pair.numbers, strict=True):
                if yes:
                    forwarder.allow(number, f"{'queue' if question.queue else 'topic'}:{question.destination}")
                else:
                    forwarder.skip(number)
        self.same_flags(pair, "handled", self.now_ms)

    def same_flags(self, pair: _Pair, call: str, *arguments: Any) -> None:
        real, plain = (
            getattr(forwarder, call)(number, *arguments)
            for forwarder, number in zip(self.both, pair.numbers, strict=True)
        )
        assert real == plain
        pair.blocked = bool(real & 4)

    # --- messages from above

    @rule(message=MESSAGES, data=st.data(), nobody=st.booleans())
    def publish(self, message: bytes, data: st.DataObject, nobody: bool) -> None:
        pair = self.pick(data)
        for forwarder, number in zip(self.both, pair.numbers, strict=True):
            forwarder.publish(message, self.now_ms, None if nobody else number)
        assert self.mailbox_names(0, self.both[0].match(message)) == self.mailbox_names(1, self.both[1].match(message))

    @rule(data=st.data(), message=MESSAGES)
    def deliver(self, data: st.DataObject, message: bytes) -> None:
        pair = self.pick(data)
        rooms = []
        for forwarder, number in zip(self.both, pair.numbers, strict=True):
            rooms.append(forwarder.room(number))
            forwarder.deliver(number, 9, [2], [7], [message])
            forwarder.send(number, b"answer")
        assert rooms[0] == rooms[1]

    # --- output and time

    @rule(data=st.data(), bytes_max=st.sampled_from((50, 300, 100_000)))
    def take(self, data: st.DataObject, bytes_max: int) -> None:
        pair = self.pick(data)
        real, plain = (
            forwarder.take(number, bytes_max, self.now_ms)
            for forwarder, number in zip(self.both, pair.numbers, strict=True)
        )
        assert real == plain

    @rule(data=st.data(), writable=st.booleans())
    def set_writable(self, data: st.DataObject, writable: bool) -> None:
        pair = self.pick(data)
        for forwarder, number in zip(self.both, pair.numbers, strict=True):
            forwarder.set_writable(number, writable)

    @rule(ms=st.integers(0, 120))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for forwarder in self.both:
            forwarder.check_stalls(self.now_ms)

    @rule()
    def flush(self) -> None:
        real, plain = (sorted(self.names(i, self.both[i].take_dirty())) for i in (0, 1))
        assert real == plain

    @rule()
    def resume(self) -> None:
        real, plain = (sorted(set(self.names(i, self.both[i].take_resumable()))) for i in (0, 1))
        assert real == plain
        for index in real:
            self.same_flags(self.pairs[index], "resume", self.now_ms)

    # --- sameness

    def pick(self, data: st.DataObject) -> _Pair:
        return data.draw(st.sampled_from(self.pairs))

    def names(self, which: int, numbers: list[int]) -> list[int]:
        places = {pair.numbers[which]: index for index, pair in enumerate(self.pairs)}
        return [places[number] for number in numbers]

    def mailbox_names(self, which: int, sinks: list[int]) -> list[int]:
        places = {one[which]: index for index, one in enumerate(self.mailboxes)}
        return sorted(places[sink] for sink in sinks)

    def named(self, which: int, event: PlaneEvent) -> tuple[str, PlaneEvent]:
        """The event with the pair's place for the connection; with its kind, because named tuples of two kinds may be
        equal."""
        [place] = self.names(which, [event.connection])
        if isinstance(event, Published):
            event = event._replace(sinks=self.mailbox_names(which, event.sinks))
        elif isinstance(event, FrameError):  # where the fault is counts from what was fed at a time
            event = FrameError(place, event.code, "", 0, 0)
        return type(event).__name__, event._replace(connection=place)

    @invariant()
    def same_events(self) -> None:
        lists = [[self.named(i, event) for event in self.both[i].events()] for i in (0, 1)]
        slow = [sorted(event for _, event in events if isinstance(event, SlowConsumer)) for events in lists]
        assert slow[0] == slow[1]
        real, plain = ([one for one in events if not isinstance(one[1], SlowConsumer)] for events in lists)
        assert real == plain
        for _, event in real:
            if isinstance(event, ControlFrame | PublishCheck):
                self.pairs[event.connection].question = event

    @invariant()
    def same_state(self) -> None:
        for pair in self.pairs:
            sizes = [f.output_bytes(number) for f, number in zip(self.both, pair.numbers, strict=True)]
            assert sizes[0] == sizes[1]
            if pair.sink is not None:
                counts = [f.sink_counts(sink) for f, sink in zip(self.both, pair.sink, strict=True)]
                assert counts[0] == counts[1]
        expected = self.both[1].stats()
        assert {name: self.both[0].stats()[name] for name in expected} == expected

    def teardown(self) -> None:
        for pair in list(self.pairs):
            self.unsubscribe_from(pair)
            self.both[0].events()
            self.both[0].close(pair.numbers[0])
        assert self.both[0].held_bytes() == 0, "all that was held is free again"


def check_forwarder(make: Callable[..., Any], *, examples: int = 100) -> None:
    """`make(output_bytes_max=…, stall_ms=…)` yields a forwarder; it must do what the reference does."""

    class ForwarderContract(_Contract):
        pass

    ForwarderContract.make = staticmethod(make)
    run_state_machine_as_test(
        ForwarderContract, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None)
    )
