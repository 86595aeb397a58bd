"""The kernel's path for plain messages against the reference in Python: the same, or nothing."""

from dataclasses import replace
from typing import Any

import pytest
from hardening.support.strategies_model import messages, texts
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.kernel.amqp import amqp_read_plain, amqp_write_plain
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.protocols.amqp.message import FORM_SHIFT, KEPT, Incoming, read_message, write_message
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.wire.types import byte, int32, symbol, timestamp, ubyte, uint, ulong

NOW_MS = 1_700_000_000_000
QUEUE = Destination("orders", True)
ID = MessageId(7, 1, NOW_MS, 3)
LINK = Incoming(QUEUE, lambda: ID, NOW_MS, True)

ids = st.none() | texts | st.integers(0, 2**64 - 1).map(ulong) | st.just("ID:AMQP_ULONG:7") | st.binary(max_size=2)
plain_values = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts, st.binary(max_size=300)
)
values = plain_values | st.sampled_from(
    [None, int32(-3), uint(2**31), ubyte(200), float("nan"), -0.0, symbol("s"), ulong(2**63)]
)
addresses = st.none() | st.sampled_from(["queue://r", "topic://a.b", "r", "queue://a..b", "topic://a.>"])
fields = st.tuples(
    ids,
    st.none() | st.binary(max_size=4),
    st.none() | st.just("queue://orders"),
    st.none() | texts,
    addresses,
    ids,
    st.none() | st.sampled_from(["text/plain", "x"]).map(symbol),
    st.none() | st.just(symbol("gzip")),
    st.none() | st.just(timestamp(NOW_MS * 2)),
    st.none() | st.integers(-5, 2**50).map(timestamp),
    st.none() | texts,
    st.none() | st.integers(0, 2**32 - 1).map(uint),
    st.none() | texts,
)
DELAYS = ("x-opt-delivery-delay", "x-opt-delivery-time")
annotations = st.dictionaries(
    st.sampled_from(["x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-jms-msg-type", "a", *DELAYS]).map(symbol),
    st.sampled_from([byte(0), byte(1), 5, "x", symbol("y"), True, None, [1], uint(9), ulong(2**40), b"b"])
    | st.sampled_from([-1, 2**60, timestamp(NOW_MS + 1), timestamp(NOW_MS)]),
    max_size=2,
)
headers = st.tuples(
    st.none() | st.booleans(),
    st.none() | st.integers(0, 11).map(ubyte),
    st.none() | st.integers(0, 2**32 - 1).map(uint),
    st.none() | st.booleans(),
    st.none() | st.integers(0, 9).map(uint),
)
names = texts | st.sampled_from(["price", "Job", "JMSXGroupID", "JMSFoo", "@topic", KEPT, "x" * 256])
bodies = st.one_of(
    st.binary(max_size=300).map(lambda one: (MessageSection.DATA, one)),
    texts.map(lambda one: (MessageSection.VALUE, one)),
    st.binary(max_size=20).map(lambda one: (MessageSection.VALUE, one)),
    st.just((MessageSection.VALUE, [1])),
)


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Messages of which most are plain, with and without what must be kept as it came."""
    rare = draw(st.sets(st.sampled_from([2, 7, 8, 12])))
    some = [None if place in (2, 7, 8, 12) and place not in rare else one for place, one in enumerate(draw(fields))]
    content = encode(MessageSection.HEADER, list(draw(headers))) if draw(st.booleans()) else b""
    if draw(st.booleans()):
        content += encode(MessageSection.MESSAGE_ANNOTATIONS, draw(annotations))
    if draw(st.booleans()):
        content += encode(MessageSection.PROPERTIES, some)
    if draw(st.booleans()):
        content += encode(MessageSection.APPLICATION_PROPERTIES, draw(st.dictionaries(names, values, max_size=4)))
    return content + encode(*draw(bodies))


@settings(max_examples=500)
@given(contents())
def test_a_message_is_read_as_by_the_reference(content: bytes) -> None:
    read = amqp_read_plain(content, QUEUE.name, True, NOW_MS)
    if read is None:
        return
    reference = read_message(content, LINK)  # which refuses nothing that the kernel reads
    form, message = read
    raw = bytes(replace(ID, publisher=ID.publisher | form << FORM_SHIFT))
    assert message[:4] + raw + message[20:] == encode_message(reference)


@settings(max_examples=500)
@given(contents(), st.sampled_from(["", "more", "less", "body", "kept"]))
def test_what_was_kept_is_written_as_by_the_reference(content: bytes, change: str) -> None:
    try:
        message = read_message(content, LINK)
    except CodecError:
        reject()  # a delay that is none
    properties = dict(message.properties)
    if change == "more":
        properties["added"] = 1
    if change == "less" and properties:
        del properties[next(iter(properties))]
    if change == "kept" and KEPT in properties:
        properties[KEPT] = encode(MessageSection.PROPERTIES, [None, b"root", "queue://evil"])
    message = replace(message, properties=properties, body=b"other" if change == "body" else message.body)
    raw = encode_message(message)
    written = amqp_write_plain(raw, 1, NOW_MS, False)
    assert written is None or written == write_message(decode_message(raw), 1, NOW_MS)


@pytest.mark.parametrize("name", DELAYS)
@given(st.integers(-5, 2**62) | st.integers(NOW_MS - 5, NOW_MS + 5).map(timestamp) | st.booleans() | texts, bodies)
def test_what_asks_for_a_later_delivery_is_left_to_the_reference(name: str, value: Any, body: Any) -> None:
    later = encode(MessageSection.MESSAGE_ANNOTATIONS, {symbol("a"): 1, symbol(name): value})
    assert amqp_read_plain(later + encode(*body), QUEUE.name, True, NOW_MS) is None


@pytest.mark.parametrize("said", [None, True, False])
def test_only_who_says_not_to_be_the_first_acquirer_is_left_to_the_reference(*, said: bool | None) -> None:
    content = encode(MessageSection.HEADER, [True, None, None, said]) + encode(MessageSection.VALUE, "text")
    assert (amqp_read_plain(content, QUEUE.name, True, NOW_MS) is None) == (said is False)


def test_a_group_is_read_and_written_by_the_kernel() -> None:
    group = [*[None] * 10, "g", uint(7)]
    content = encode(MessageSection.PROPERTIES, group) + encode(MessageSection.DATA, b"x")
    read = amqp_read_plain(content, QUEUE.name, True, NOW_MS)
    assert read is not None
    message = decode_message(read[1])
    assert message.properties == {"JMSXGroupID": "g", "JMSXGroupSeq": 7}
    named = replace(message, id=replace(ID, publisher=ID.publisher | read[0] << FORM_SHIFT))
    written = amqp_write_plain(encode_message(named), 1, NOW_MS, False)
    assert written is not None
    assert written.endswith(content)


def test_usual_messages_of_other_libraries_are_plain() -> None:
    jms = encode(MessageSection.MESSAGE_ANNOTATIONS, {symbol("x-opt-jms-msg-type"): byte(5)})
    to = encode(MessageSection.PROPERTIES, ["id", b"user", "queue://orders", "subject"])
    numbers = encode(MessageSection.APPLICATION_PROPERTIES, {"n": int32(7), "u": uint(7), "s": "x"})
    content = jms + to + numbers + encode(MessageSection.VALUE, "text")
    read = amqp_read_plain(content, QUEUE.name, True, NOW_MS)
    assert read is not None
    message = encode_message(read_message(content, LINK))
    written = amqp_write_plain(message, 1, NOW_MS, False)
    assert written is not None
    assert written.endswith(content)


@settings(max_examples=300)
@given(st.dictionaries(texts.filter(lambda one: one[:1] not in ("", "@", "J", "c")), plain_values, max_size=4), bodies)
def test_a_plain_message_is_read_by_the_kernel(application: Any, body: Any) -> None:
    exact = {name: one + 0.0 if isinstance(one, float) else one for name, one in application.items()}
    exact = {name: 0.0 if isinstance(one, float) and one == 0 else one for name, one in exact.items()}
    content = encode(MessageSection.APPLICATION_PROPERTIES, exact) + encode(*body)
    assert (amqp_read_plain(content, QUEUE.name, True, NOW_MS) is None) == isinstance(body[1], list)


own = st.fixed_dictionaries(
    {},
    optional={
        "JMSXMessageID": texts | st.just("ID:AMQP_ULONG:9") | st.integers(0, 9),
        "JMSXUserID": texts | st.binary(max_size=3) | st.integers(0, 9),
        "content-type": texts | st.just("text/plain"),
        "JMSXGroupID": texts | st.booleans(),
        "JMSXGroupSeq": st.integers(-2, 2**33),
    },
)


@settings(max_examples=300)
@given(messages, own, st.none() | st.integers(1, 2**50), st.integers(0, 4), st.integers(1, 3), st.booleans())
def test_a_message_is_written_as_by_the_reference(
    message: Message, own: Any, deliver_at_ms: int | None, form: int, attempt: int, says: bool
) -> None:
    identity = MessageId(7 | form << FORM_SHIFT, 1, NOW_MS, 3)
    message = replace(message, properties={**message.properties, **own}, id=identity, deliver_at_ms=deliver_at_ms)
    raw = encode_message(message)
    notes = {"x-opt-destination": f"{'queue' if message.destination.queue else 'topic'}://{message.destination.name}"}
    reference = write_message(decode_message(raw), attempt, NOW_MS, notes if says else None)
    written = amqp_write_plain(raw, attempt, NOW_MS, says)
    assert written is None or written == reference


@settings(max_examples=100)
@given(messages)
def test_a_message_of_another_protocol_is_written_by_the_kernel(message: Message) -> None:
    raw = encode_message(replace(message, id=ID, properties={name: 1 for name in message.properties if name != KEPT}))
    expected = not (message.correlation_id or "").startswith("ID:AMQP_")
    assert (amqp_write_plain(raw, 1, NOW_MS, False) is not None) == expected
