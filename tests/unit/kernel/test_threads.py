"""The kernel from several threads at a time, wherever it lets go of the interpreter's lock; `make tsan` runs this with
ThreadSanitizer. A forwarder, a tracker and a filter that is being filled belong to one thread; all else is shared."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np

from tidings.kernel.bloom import BloomFilter
from tidings.kernel.codec import MessageBatch, Program, encode_messages
from tidings.kernel.element_matrix import ElementMatrix, pack
from tidings.kernel.encoder import MessageEncoder
from tidings.kernel.forwarder import PERHAPS_SENT, DirectSink, Forwarder
from tidings.kernel.matrix import EncodedMatrix, as_vectors
from tidings.kernel.tracker import Tracker
from tidings.matching.indexed import IndexedMatcher
from tidings.matching.matcher import per_message
from tidings.model.codec import encode_frame, encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector

THREADS, TIMES, MESSAGES = 4, 30, 50


def together(work: Callable[[int], None]) -> None:
    """The same in all threads; what is wrong in one is raised here."""
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, number) for number in range(THREADS)]:
            done.result()


def messages(seed: int) -> list[Message]:
    rng = Random(seed)
    return [
        Message(Destination("t"), {"x": rng.randrange(9), "s": "abc"}, id=MessageId(1, seed, 5, number))
        for number in range(MESSAGES)
    ]


def batch(seed: int) -> MessageBatch:
    return MessageBatch.from_messages(encode_messages(messages(seed)))


def test_batches_are_decoded_and_programs_evaluated_side_by_side() -> None:
    program = Program(Selector("x > 3 AND s LIKE 'a%'").program)
    encoder = MessageEncoder()

    def work(number: int) -> None:
        for turn in range(TIMES):
            one = batch(number * TIMES + turn)
            expected = [int(message.properties["x"]) > 3 for message in messages(number * TIMES + turn)]
            assert program.evaluate(one) == expected
            assert len(encoder.vectors(one)) == len(one)
            assert len(encoder.elements(one)[0]) == len(one) + 1

    together(work)


def test_a_matcher_is_changed_while_others_ask_it() -> None:
    matcher = IndexedMatcher()
    for value in range(9):
        matcher.add(value, Predicate.of(Constraint("x", Op.EQ, value)))

    def work(number: int) -> None:
        own = 1000 * (number + 1)
        for turn in range(TIMES):
            matcher.add(own + turn, Predicate.of(Constraint("x", Op.GE, turn % 9)))
            found = per_message(matcher.match(batch(turn)))
            for message, ids in zip(messages(turn), found, strict=True):
                x = int(message.properties["x"])
                assert [id for id in ids if id < 1000] == [x]
                assert (own + turn in ids) == (x >= turn % 9)
            matcher.remove(own + turn)

    together(work)
    assert len(matcher) == 9


def test_matrices_are_changed_while_others_ask_them() -> None:
    encoded, elements = EncodedMatrix(64), ElementMatrix()
    encoded.add(1, as_vectors([0b11], 64))
    elements.add(1, [{3, 5}])

    def work(number: int) -> None:
        own = number + 10
        for turn in range(TIMES):
            encoded.add(own, as_vectors([1 << (turn % 60)], 64))
            elements.add(own, [{turn, turn + 100}])
            assert 1 in encoded.match(as_vectors([0b111, 0], 64))[0]
            assert own in encoded.match(as_vectors([1 << (turn % 60)], 64))[0]
            assert set(elements.match(pack([{3, 5, 7}, {turn, turn + 100}]))[1]) >= {own}
            encoded.drop(own)
            elements.drop(own)

    together(work)
    assert encoded.router_count == elements.router_count == 1


def test_a_filter_that_is_full_is_read_by_all() -> None:
    ids = np.frombuffer(Random(1).randbytes(16 * 1000), np.uint8).reshape(-1, 16)
    shared = BloomFilter(1 << 14, 5)
    shared.add(ids)

    def work(number: int) -> None:
        for _ in range(TIMES):
            assert shared.contains(ids).all()
            own = BloomFilter.from_bytes(shared.to_bytes())
            own.unite(shared)
            assert own.fill() == shared.fill()

    together(work)


def test_each_thread_has_a_forwarder_that_records() -> None:
    everything = encode_predicate(Predicate.always())

    def work(number: int) -> None:
        tracker = Tracker(
            number + 1,
            exact=False,
            runs=False,
            bits=4096,
            hashes=5,
            capacity=100,
            doublings=2,
            skew_ms=50,
            jitter_ms=400,
            persist_ms=1000,
            retain=True,
            forwards=False,
        )
        forwarder = Forwarder()
        forwarder.use_tracker(tracker)
        connection = forwarder.open()
        forwarder.log_in(connection, 1 << 20, False)
        forwarder.subscribe(DirectSink(connection, 1, everything))
        for turn in range(TIMES):
            data = b"".join(
                encode_frame(0x10, bytes(4) + encode_messages([one])[4:], flags=PERHAPS_SENT)  # ids of any broker
                for one in messages(number * TIMES + turn)
            )
            forwarder.feed_bytes(connection, data, turn)
            assert len(forwarder.take(connection, 1 << 20, turn)) > len(data)
            tracker.take(turn)
        assert tracker.memory_bytes > 0

    together(work)
