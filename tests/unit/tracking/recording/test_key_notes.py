"""Notes of keys: the kernel hashes what is published as Python hashes what is looked for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import CodecError, UsageError
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import Forwarder
from tidings.kernel.tracker import Tracker
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Untyped, Value
from tidings.protocols.native.frames import encode_publish
from tidings.tracking.recording.key_notes import (
    KeyBatch,
    answered,
    check_names,
    encode_keys,
    find_key,
    fpp,
    key_hash,
    query_hashes,
)
from tidings.tracking.trace_answer import KeyQuery

START_MS = 1_762_000_000_000
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
texts = st.text(st.characters(codec="utf-8"), max_size=40)
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False))
number_texts = st.one_of(numbers.map(str), st.sampled_from(("true", "FALSE", "1.0", "-0", "007", "1e3", "")))
values = st.one_of(
    st.booleans(), numbers, texts, st.binary(max_size=20), texts.map(Untyped), number_texts.map(Untyped), number_texts
)


class Publisher:
    """Publishes through a forwarder whose tracker notes keys."""

    def __init__(self, *names: str) -> None:
        shape = {"bits": 64, "hashes": 1, "capacity": 1000, "doublings": 0, "skew_ms": 250, "jitter_ms": 0}
        self.tracker = Tracker(1, exact=False, runs=True, persist_ms=1000, retain=False, forwards=False, **shape)
        self.tracker.choose_keys(names)
        self._forwarder = Forwarder(output_bytes_max=100_000)
        self._forwarder.use_tracker(self.tracker)
        self._connection = self._forwarder.open()
        self._forwarder.log_in(self._connection, 1 << 20, False)
        self._count = 0

    def publish(self, properties: dict[str, Value]) -> MessageId:
        self._count += 1
        id = MessageId(7, 1, START_MS, self._count)
        message = encode_message(Message(Destination.parse("a.b"), properties, id=id))
        frame = encode_publish(self._count, message)
        self._forwarder.feed_bytes(self._connection, frame, START_MS)
        return id

    def noted(self) -> dict[str, list[tuple[int, bytes]]]:
        return {
            name: [
                (int.from_bytes(hashes[8 * n : 8 * n + 8], "little"), ids[16 * n : 16 * n + 16])
                for n in range(len(ids) // 16)
            ]
            for name, hashes, ids in self.tracker.take_keys()
        }


@given(st.lists(values, min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_the_kernel_and_python_hash_alike(published: list[Value]) -> None:
    publisher = Publisher("key", "traceparent")
    sent = [(value, publisher.publish({"other": value, "key": value})) for value in published]
    expected = [(key_hash("key", value), bytes(id)) for value, id in sent]
    assert publisher.noted() == {"key": expected}
    assert publisher.noted() == {}


@pytest.mark.parametrize("value", [PARENT, Untyped(PARENT), "4711", Untyped("4711"), "00-short-1-01", 5])
def test_of_a_traceparent_the_trace_id_counts(value: Value) -> None:
    publisher = Publisher("traceparent")
    id = publisher.publish({"traceparent": value})
    [(hash, noted)] = publisher.noted()["traceparent"]
    assert (hash, noted) == (key_hash("traceparent", value), bytes(id))
    if "-01" in str(value) and len(str(value)) == len(PARENT):
        assert hash in query_hashes("traceparent", PARENT.split("-")[1].upper())


PAIRS: list[tuple[Value, Value, bool]] = [
    (5, 5.0, True),
    (-0.0, 0, True),
    (Untyped("5"), 5, True),
    (Untyped("TRUE"), True, True),
    (1, True, False),
    ("5", 5, False),
    (Untyped("five"), "five", True),
    (b"five", "five", False),
    (2**53 + 1, float(2**53), False),
]


@pytest.mark.parametrize(("one", "other", "same"), PAIRS)
def test_values_that_selectors_call_equal_have_one_hash(one: Value, other: Value, same: bool) -> None:
    assert (key_hash("key", one) == key_hash("key", other)) is same


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 300)), min_size=1, max_size=60))
@settings(deadline=None)
def test_notes_that_are_put_together_are_all_found(notes: list[tuple[int, int, int]]) -> None:
    batches = [
        KeyBatch(
            "key", key_hash("key", value).to_bytes(8, "little"), bytes(MessageId(publisher, 1, START_MS + ms, value))
        )
        for value, publisher, ms in notes
    ]
    encoded = encode_keys([encode_keys(batches[: len(batches) // 2 + 1]), *batches])
    for wanted in range(7):
        query = KeyQuery("key", query_hashes("key", wanted), START_MS + 50, START_MS + 250, count=10)
        truth = {
            MessageId(publisher, 1, START_MS + ms, value)
            for value, publisher, ms in notes
            if value == wanted and 50 <= ms <= 250
        }
        found = answered(1, query, find_key([encoded], query))
        assert set(found.messages) <= truth
        assert len(found.messages) == min(10, len(truth))
        assert found.more is (len(truth) > 10)
        if truth:
            assert min(one.ms for one in found.messages) >= sorted(one.ms for one in truth)[-10:][0]


def test_damaged_notes_are_refused() -> None:
    data = encode_keys([KeyBatch("key", bytes(8), bytes(MessageId(7, 1, START_MS)))])
    for broken in (b"", data[:-1], data + b"\0", b"\xff" + data[1:]):
        with pytest.raises(CodecError, match="E_KEYS"):
            find_key([broken], KeyQuery("key", (0,)))


def test_keys_are_names_of_attributes() -> None:
    assert check_names(["a", "b", "a"]) == ("a", "b")
    for wrong in ([""], [str(number) for number in range(65)]):
        with pytest.raises(UsageError, match="E_TRACKING_KEYS"):
            check_names(wrong)
    assert fpp(2**20) == 2**-28
