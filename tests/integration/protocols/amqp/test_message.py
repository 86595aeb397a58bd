"""The mapping of AMQP's messages: nothing is lost between two who speak AMQP, and others see the same."""

import struct
from dataclasses import replace
from typing import Any
from uuid import UUID

import proton
import pytest
from hardening.support.strategies_model import messages, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import CodecError, UsageError
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.destination import Destination
from tidings.model.message import PROPERTIES_MAX, Message
from tidings.model.message_id import MessageId
from tidings.model.values import Untyped
from tidings.protocols.amqp.decimals import decimal_text
from tidings.protocols.amqp.message import KEPT, Incoming, read_message, write_message
from tidings.protocols.amqp.sections import MessageSection, decode_sections, encode
from tidings.protocols.amqp.wire.types import (
    Described,
    TypeCode,
    array,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
)

NOW_MS = 1_700_000_000_000
QUEUE = Destination("orders", True)
LINK = Incoming(QUEUE, lambda: MessageId(7, 1, NOW_MS, 3), NOW_MS, True)

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(ulong),
    st.integers(0, 2**32 - 1).map(uint),
    st.integers(0, 255).map(ubyte),
    st.integers(-(2**31), 2**31 - 1).map(int32),
    st.integers(-128, 127).map(byte),
    st.integers(0, 2**40).map(timestamp),
    st.floats(allow_nan=False),
    st.floats(width=32, allow_nan=False).map(float32),
)
scalars = st.one_of(
    numbers,
    texts,
    st.binary(max_size=8),
    st.booleans(),
    st.none(),
    st.uuids(),
    st.text(alphabet="ab-", min_size=1, max_size=5).map(symbol),
    st.sampled_from("aé\U0001f600").map(char),
    st.integers(0, 2**32 - 1).map(decimal32),
)
composites = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
ids = st.none() | texts | st.uuids() | st.integers(0, 2**64 - 1).map(ulong) | st.binary(max_size=6)
addresses = st.none() | st.sampled_from(["queue://r", "topic://a.b", "r", "/queue/r", "amqp://elsewhere/x", "a..b", ""])
optional_texts = st.none() | texts
optional_times = st.none() | st.integers(0, 2**50).map(timestamp)
properties = st.tuples(
    ids,
    st.none() | st.binary(max_size=4),
    addresses,
    optional_texts,
    addresses,
    ids,
    st.none() | st.sampled_from(["text/plain", "x"]).map(symbol),
    st.none() | st.just(symbol("gzip")),
    st.none() | st.integers(NOW_MS * 2, NOW_MS * 3).map(timestamp),
    optional_times,
    optional_texts,
    st.none() | st.integers(0, 2**32 - 1).map(uint),
    optional_texts,
).map(list)
headers = st.tuples(
    st.none() | st.booleans(),
    st.none() | st.integers(0, 255).map(ubyte),
    st.none() | st.integers(1, 2**32 - 1).map(uint),
).map(list)
names = texts | st.sampled_from(["price", "JMSXGroupID", "JMSFoo", "@topic", KEPT, "x" * 300])
application = st.dictionaries(names, scalars, max_size=5)
bodies = st.one_of(
    st.binary(max_size=20).map(lambda one: [(MessageSection.DATA, one)]),
    composites.map(lambda one: [(MessageSection.VALUE, one)]),
    st.lists(st.binary(max_size=5), max_size=3).map(lambda many: [(MessageSection.DATA, one) for one in many]),
    st.lists(st.lists(composites, max_size=3), min_size=1, max_size=2).map(
        lambda many: [(MessageSection.SEQUENCE, one) for one in many]
    ),
)


def trimmed(values: list[Any]) -> list[Any]:
    while values and values[-1] is None:
        values = values[:-1]
    return values


def typed(value: Any) -> Any:
    """With the types, which `==` does not look at."""
    match value:
        case list():
            return [typed(one) for one in value]
        case dict():
            return {typed(name): typed(one) for name, one in value.items()}
        case float():
            return type(value), str(float(value))
        case _:
            return type(value), value


def sections(content: bytes) -> dict[MessageSection, Any]:
    found: dict[MessageSection, Any] = {}
    for section, value, _ in decode_sections(content):
        found.setdefault(section, []).append(typed(value))
    return found


@settings(max_examples=60)
@given(
    header=headers,
    annotations=st.dictionaries(st.text("ab", min_size=1, max_size=3).map(symbol), composites, max_size=2),
    fields=properties,
    application=application,
    body=bodies,
    footer=st.dictionaries(st.text("ab", min_size=1, max_size=3).map(symbol), scalars, max_size=2),
)
def test_an_amqp_receiver_gets_what_an_amqp_sender_sent(
    header: list[Any], annotations: Any, fields: list[Any], application: Any, body: Any, footer: Any
) -> None:
    given = [
        (MessageSection.HEADER, trimmed(header)),
        (MessageSection.MESSAGE_ANNOTATIONS, annotations),
        (MessageSection.PROPERTIES, trimmed(fields)),
        (MessageSection.APPLICATION_PROPERTIES, application),
        *body,
        (MessageSection.FOOTER, footer),
    ]
    content = b"".join(encode(section, value) for section, value in given if value or section in dict(body))
    message = read_message(content, LINK)
    message = decode_message(encode_message(message))  # as it travels
    sent, got = sections(content), sections(write_message(message, 1, NOW_MS))
    durable, priority, ttl, first, count = got.pop(MessageSection.HEADER)[0]
    sent.pop(MessageSection.HEADER, None)
    if not any(value for section, value in given if section is MessageSection.PROPERTIES):
        sent.pop(MessageSection.PROPERTIES, None)
    assert got == sent
    assert durable[1] == (header[0] is True)
    assert priority[1] == (4 if header[1] is None else header[1])
    assert (first[1], count[1]) == (True, 0)
    times = [NOW_MS + header[2]] if header[2] is not None else []
    times += [fields[8]] if fields[8] is not None else []
    assert ttl[1] == (min(min(times) - NOW_MS, 2**32 - 1) if times else None)


@settings(max_examples=60)
@given(message=messages)
def test_a_native_message_loses_nothing_on_its_way_through_amqp(message: Message) -> None:
    """Written as AMQP, and published again by AMQP as it was received."""
    message = replace(message, id=MessageId(7, 1, NOW_MS, 3))  # the broker's own numbers are below 2^29
    content = write_message(message, 1, NOW_MS)
    link = Incoming(message.destination, lambda: message.id, NOW_MS, True)
    fields: list[Any] = next(
        (value for section, value, _ in decode_sections(content) if section is MessageSection.PROPERTIES), []
    )
    assert fields[0] == message.id.jms
    again = read_message(content, link)
    assert again.destination == message.destination
    assert again.body == message.body
    assert (again.persistent, again.priority) == (message.persistent, message.priority)
    assert (again.correlation_id, again.type, again.reply_to) == (
        message.correlation_id,
        message.type,
        message.reply_to,
    )
    own = ("JMSXMessageID", "JMSXAmqp")  # what AMQP has said more than the publisher
    assert {name: one for name, one in again.properties.items() if name not in own} == message.properties


forged = st.one_of(
    st.binary(max_size=20),
    st.tuples(properties | st.just([]), application, bodies, st.integers(0, 2), headers).map(
        lambda parts: b"".join(
            (
                encode(MessageSection.HEADER, trimmed(parts[4])),
                encode(MessageSection.PROPERTIES, trimmed(parts[0])) * parts[3],
                encode(MessageSection.APPLICATION_PROPERTIES, parts[1]),
                *(encode(section, value) for section, value in parts[2]),
            )
        )
    ),
)


@settings(max_examples=100)
@given(message=messages, form=st.integers(0, 7), kept=forged)
def test_nobody_else_can_make_amqps_receivers_see_another_message(message: Message, form: int, kept: bytes) -> None:
    """A client of another protocol may give its messages any id, and any bytes in the property for what is kept."""
    given = {**message.properties, KEPT: kept}
    message = replace(message, properties=given, id=MessageId(7 | form << 29, 1, NOW_MS, 3))
    content = write_message(message, 1, NOW_MS)
    again = read_message(content, Incoming(message.destination, lambda: message.id, NOW_MS, True))
    assert (again.body, again.persistent, again.priority) == (message.body, message.persistent, message.priority)
    assert (again.correlation_id, again.type, again.reply_to) == (
        message.correlation_id,
        message.type,
        message.reply_to,
    )
    own = (KEPT, "JMSXMessageID")  # an id there is in any case
    seen = [{name: one for name, one in which.properties.items() if name not in own} for which in (again, message)]
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "kept",
    [
        encode(MessageSection.APPLICATION_PROPERTIES, {"region": "US"}) + encode(MessageSection.DATA, b"B"),
        encode(MessageSection.APPLICATION_PROPERTIES, {"region": "EU", "more": 1}) + encode(MessageSection.DATA, b"B"),
        encode(MessageSection.APPLICATION_PROPERTIES, {"region": decimal32(7)}) + encode(MessageSection.DATA, b"B"),
        encode(MessageSection.PROPERTIES, [None, b"root", "queue://evil", "subject"])
        + encode(MessageSection.DATA, b"B"),
        encode(MessageSection.PROPERTIES, [None, b"root"])
        + encode(MessageSection.PROPERTIES, [])
        + encode(MessageSection.DATA, b"B"),
        encode(MessageSection.VALUE, [1, 2]),
        b"",
        b"garbage\xff",
        "text",
    ],
)
def test_what_is_kept_counts_only_if_it_says_what_the_message_says(kept: Any) -> None:
    message = Message(QUEUE, {"region": "EU", KEPT: kept}, b"B", MessageId(7 | 4 << 29, 1, NOW_MS, 3))
    got = {section: value for section, value, _ in decode_sections(write_message(message, 1, NOW_MS))}
    assert (got[MessageSection.DATA], got[MessageSection.APPLICATION_PROPERTIES]["region"]) == (b"B", "EU")
    assert got[MessageSection.PROPERTIES][:4] == [message.id.jms, None, "queue://orders", None]


@pytest.mark.parametrize("plain_is_queue", [True, False])
def test_a_dead_letter_from_a_broker_with_other_settings_is_kept_as_it_came(plain_is_queue: bool) -> None:
    content = encode(MessageSection.PROPERTIES, [None, None, None, None, "reply", None, None, None, timestamp(NOW_MS)])
    content += encode(MessageSection.APPLICATION_PROPERTIES, {"u": uint(7)}) + encode(MessageSection.VALUE, [uint(1)])
    message = read_message(content, replace(LINK, plain_is_queue=plain_is_queue))
    marked = replace(
        message,
        properties={**message.properties, "JMSXDeathCause": "expired"},
        destination=Destination("dead-letters", True),
        expiration_ms=None,
    )
    got = sections(write_message(marked, 1, NOW_MS + 1000))
    sent = sections(content)
    assert (got[MessageSection.PROPERTIES], got[MessageSection.VALUE]) == (
        sent[MessageSection.PROPERTIES],
        sent[MessageSection.VALUE],
    )
    assert got[MessageSection.APPLICATION_PROPERTIES] == [typed({"u": uint(7), "JMSXDeathCause": "expired"})]


def test_receivers_get_as_many_properties_as_a_message_can_have() -> None:
    """More than Proton can write, or read: so this one looks at the bytes."""
    properties = {f"p{i}": i for i in range(PROPERTIES_MAX)}
    content = write_message(Message(QUEUE, properties, b"full"), 1, NOW_MS)
    map_start = content.index(b"\x00\x53\x74\xd1") + 4
    size, count = struct.unpack_from(">II", content, map_start)
    assert count == 2 * PROPERTIES_MAX
    last = f"p{PROPERTIES_MAX - 1}".encode()
    end = map_start + 4 + size
    assert content[:end].endswith(b"\xa1" + bytes((len(last),)) + last + struct.pack(">Bq", 0x81, PROPERTIES_MAX - 1))
    assert content[end:] == encode(MessageSection.DATA, b"full")


def test_what_others_see_of_a_plain_message_is_what_was_sent() -> None:
    sent = proton.Message(
        body="héllo", properties={"price": 50, "stock": "XYZ", "open": True, "x": 1.5, "raw": b"\x00"}
    )
    message = read_message(bytes(sent.encode()), LINK)
    assert message.properties == {"price": 50, "stock": "XYZ", "open": True, "x": 1.5, "raw": b"\x00"}
    assert message.body == "héllo".encode()
    assert (message.timestamp_ms, message.expiration_ms, message.correlation_id) == (None, None, None)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        (None, b""),
        ({"a": [1, "b", None, True]}, b'{"a": [1, "b", null, true]}'),
        ([1, 2.5], b"[1, 2.5]"),
        (12, b"12"),
        (UUID(int=7), b'"00000000-0000-0000-0000-000000000007"'),
        ([float("inf"), float("-inf")], b'["Infinity", "-Infinity"]'),
        (Described(symbol("t"), [1]), b"[1]"),
        (decimal64(0x31A0_0000_0000_000F), b'"1.5"'),
        ({True: 1, None: 2, 3: 4}, b'{"true": 1, "null": 2, "3": 4}'),
    ],
)
def test_others_can_read_bodies_of_amqps_own_types(body: Any, seen: bytes) -> None:
    message = read_message(encode(MessageSection.VALUE, body), LINK)
    assert message.body == seen
    back = decode_sections(write_message(message, 1, NOW_MS))[-1]
    assert (back.section, back.value) == (MessageSection.VALUE, body)


MAPS = {  # one -> 1, as bytes
    "binary": (b"\xc1\x06\x02\xa0\x01x\x54\x01", b'{"x": 1}'),
    "list": (b"\xc1\x06\x02\xc0\x01\x00\x54\x01", b'{"[]": 1}'),
    "map": (b"\xc1\x06\x02\xc1\x01\x00\x54\x01", b'{"{}": 1}'),
    "array": (b"\xc1\x07\x02\xe0\x02\x00\x71\x54\x01", b'{"[]": 1}'),
    "described": (b"\xc1\x09\x02\x00\x53\x99\xa1\x01k\x54\x01", b'{"k": 1}'),
}


@pytest.mark.parametrize("name", MAPS)
def test_the_names_in_a_map_may_be_of_any_type(name: str) -> None:
    raw, seen = MAPS[name]
    within = b"\x00\x53\x77\xc0" + bytes((len(raw) + 1, 1)) + raw
    for content, body in ((b"\x00\x53\x77" + raw, seen), (within, b"[" + seen + b"]")):
        message = read_message(content, LINK)
        assert message.body == body
        assert write_message(decode_message(encode_message(message)), 1, NOW_MS).endswith(content)


def test_a_body_that_is_no_number_is_json_all_the_same() -> None:
    assert read_message(encode(MessageSection.VALUE, float("nan")), LINK).body == b'"NaN"'


@pytest.mark.parametrize(
    ("bits", "number"),
    [
        (decimal32(0x3200_0001), "0.1"),
        (decimal32(0xB280_000F), "-15"),
        (decimal32(0x6CB8_967F), "9999999"),  # a large coefficient
        (decimal32(0x6CBF_FFFF), "0"),  # too large a one
        (decimal32(0x7C00_0000), "NaN"),
        (decimal64(0xF800_0000_0000_0000), "-Infinity"),
        (decimal64(0x31C0_0000_0000_0007), "7"),
        (decimal128(bytes.fromhex("30400000000000000000000000000007")), "7"),
    ],
)
def test_decimals_are_read(bits: Any, number: str) -> None:
    assert decimal_text(bits) == number


@pytest.mark.parametrize("name", ["content-type", "JMSXMessageID", "JMSXUserID", "JMSXGroupID", "JMSXGroupSeq"])
@pytest.mark.parametrize("fields", [[], ["an id"]])
def test_an_application_property_does_not_become_a_field(name: str, fields: list[Any]) -> None:
    given = {name: 7 if name == "JMSXGroupSeq" else "mine"}
    content = encode(MessageSection.PROPERTIES, fields) if fields else b""
    content += encode(MessageSection.APPLICATION_PROPERTIES, given) + encode(MessageSection.VALUE, "x")
    got = sections(write_message(read_message(content, LINK), 1, NOW_MS))
    del got[MessageSection.HEADER]
    assert got == sections(content)


def test_types_that_selectors_do_not_know_are_seen_as_what_they_are_like() -> None:
    given = {"u": uint(7), "s": symbol("sym"), "t": timestamp(5), "big": ulong(2**63), "none": None, "id": UUID(int=1)}
    message = read_message(encode(MessageSection.APPLICATION_PROPERTIES, given), LINK)
    seen = {name: one for name, one in message.properties.items() if name != KEPT}
    assert seen == {"u": 7, "s": "sym", "t": 5, "id": "00000000-0000-0000-0000-000000000001"}
    assert all(type(one) in (int, str) for one in seen.values())


def test_marks_added_on_the_way_are_shown_with_what_was_sent() -> None:
    message = read_message(encode(MessageSection.APPLICATION_PROPERTIES, {"u": uint(7)}), LINK)
    marked = Message(message.destination, {**message.properties, "JMSXDeathCause": "why"}, id=message.id)
    shown = sections(write_message(marked, 1, NOW_MS))[MessageSection.APPLICATION_PROPERTIES]
    assert shown == [typed({"u": uint(7), "JMSXDeathCause": "why"})]


@pytest.mark.parametrize(
    "content",
    [
        b"\x00",
        b"\x00\x53",
        b"\x00\x53\x99\x40",
        b"\x40",
        b"\x00\x53\x73\xa1\x01a",
        b"\x00\x53\x75\xa0\xff",
        b"\xff" * 9,
    ],
)
def test_what_is_not_a_message_is_refused(content: bytes) -> None:
    with pytest.raises(CodecError, match="E_AMQP_"):
        read_message(content, LINK)


def test_what_is_nested_too_deeply_is_refused() -> None:
    inner = b"\x45"
    for _ in range(20_000):
        inner = b"\xd0" + (len(inner) + 4).to_bytes(4, "big") + (1).to_bytes(4, "big") + inner
        if len(inner) > 200_000:
            break
    with pytest.raises(CodecError, match="E_AMQP_DECODE"):
        read_message(b"\x00\x53\x77" + inner, LINK)


def test_a_message_without_a_target_must_say_where_it_goes() -> None:
    link = Incoming(None, LINK.next_id, NOW_MS, True)
    to = encode(MessageSection.PROPERTIES, [None, None, "topic://news"])
    assert read_message(to, link).destination == Destination("news")
    with pytest.raises(CodecError, match="E_AMQP_TO"):
        read_message(encode(MessageSection.VALUE, "x"), link)
    with pytest.raises(UsageError, match="E_DESTINATION"):
        read_message(encode(MessageSection.PROPERTIES, [None, None, "a..b"]), link)


@pytest.mark.parametrize(
    ("address", "kind", "found"),
    [
        ("news", 1, "topic:news"),
        ("news", 0, "queue:news"),
        ("news", 2, "queue:news"),
        ("news", 3, "topic:news"),
        ("news", 4, "queue:news"),
        ("news", -1, "queue:news"),
        ("queue://news", 1, "queue:news"),
        ("topic://news", 0, "topic:news"),
    ],
)
def test_a_jms_client_says_beside_an_address_what_it_is(address: str, kind: int, found: str) -> None:
    names = {symbol("x-opt-jms-dest"): byte(kind), symbol("x-opt-jms-reply-to"): byte(kind)}
    content = encode(MessageSection.MESSAGE_ANNOTATIONS, names)
    content += encode(MessageSection.PROPERTIES, [None, None, address, None, address]) + encode(
        MessageSection.DATA, b"x"
    )
    message = read_message(content, Incoming(None, LINK.next_id, NOW_MS, True))
    assert (str(message.destination), str(message.reply_to)) == (found, found)
    got = sections(write_message(message, 1, NOW_MS))
    del got[MessageSection.HEADER]
    assert got == sections(content)


@pytest.mark.parametrize(
    ("given", "sequence"),
    [
        (Untyped("7"), 7),
        (Untyped("4294967295"), 2**32 - 1),
        (7, 7),
        (Untyped("4294967296"), None),
        (Untyped("007"), None),
        (Untyped("-1"), None),
        (Untyped("٧"), None),
        ("7", None),
    ],
)
def test_a_place_in_a_group_may_be_a_text_of_stomp(given: Any, sequence: int | None) -> None:
    message = Message(QUEUE, {"JMSXGroupID": "g", "JMSXGroupSeq": given}, id=MessageId(7, 1, NOW_MS, 3))
    content = write_message(decode_message(encode_message(message)), 1, NOW_MS)
    got = {section: value for section, value, _ in decode_sections(content)}
    assert [*got[MessageSection.PROPERTIES], None][10:12] == ["g", sequence]
    assert got.get(MessageSection.APPLICATION_PROPERTIES, {}) == (
        {} if sequence is not None else {"JMSXGroupSeq": given}
    )


def test_arrays_and_described_values_are_kept() -> None:
    body = {"array": array(TypeCode.INT, int32(1), int32(2)), "thing": Described(symbol("t"), [1])}
    message = read_message(encode(MessageSection.VALUE, body), LINK)
    back = decode_sections(write_message(message, 1, NOW_MS))[-1].value
    assert list(back["array"].elements) == [1, 2]
    assert back["thing"] == Described(symbol("t"), [1])


@pytest.mark.parametrize(("said", "shown"), [(None, True), (True, True), (False, False)])
def test_first_acquirer_false_stays_false(said: bool | None, shown: bool) -> None:
    content = encode(MessageSection.HEADER, [True, None, None, said]) + encode(MessageSection.DATA, b"x")
    message = read_message(content, LINK)
    for attempt in (1, 2):
        header = next(one.value for one in decode_sections(write_message(message, attempt, NOW_MS)))
        assert header[3] is (shown and attempt == 1)
