"""SEND and MESSAGE in the kernel mean what the plain Python of hardening.support.stomp says."""

import re
from dataclasses import replace

import pytest
from hardening.support.stomp import DROPPED, MEANING, frame_of, message_of
from hardening.support.stomp_broker import Place, with_broker
from hardening.support.strategies_model import messages
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidings.client import connect
from tidings.errors import CodecError, UsageError
from tidings.kernel.codec import decode_message, encode_message
from tidings.kernel.events import FrameError, PlaneEvent, Published, Transacted
from tidings.kernel.forwarder import DirectSink, Forwarder
from tidings.model.codec import encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.model.values import Untyped
from tidings.node.clients.subscription_plan import predicate_of
from tidings.protocols.stomp.frames import StompVersion, encode, escape

NOW_MS = 1_700_000_000_000
versions = st.sampled_from(list(StompVersion))
# Without what no header can hold or a version would change.
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).map(lambda text: text.rstrip("\r"))
names = st.one_of(
    st.sampled_from(
        [*sorted(DROPPED | MEANING), "price", "attribute/type", "attribute/", "JMSType", "JMSXGroup", "@x"]
    ),
    texts.filter(bool),
).filter(lambda name: name != "content-length")
values = st.one_of(
    texts,
    st.sampled_from(
        ["0", "1", "9", "10", "true", "FALSE", "yes", "-1", "1e3", "9223372036854775807", "9223372036854775808"]
    ),
    st.sampled_from(
        ["/topic/a", "/queue/a.b", "/topic/", "/queue/a..b", "/topic/a.*", "a", "/temp-queue/x", "/topic/é"]
    ),
)
headers = st.dictionaries(names, values, max_size=6)
bodies = st.binary(max_size=20)
ALWAYS = Predicate.always()


class Plane:
    """A forwarder with one client of STOMP that is logged in, and a mailbox for everything, or only for some topic."""

    def __init__(self, version: StompVersion, mailbox: Predicate = ALWAYS) -> None:
        self.forwarder = Forwarder()
        self.client = self.forwarder.open()
        self.forwarder.speak_stomp(self.client)
        self.forwarder.stomp_version(self.client, version)
        self.forwarder.stomp_publisher(self.client, 7, 9, "tmp.9.7.")
        self.forwarder.log_in(self.client, 1 << 20, False)
        self.forwarder.mailbox(encode_predicate(mailbox))

    def events(self, data: bytes) -> list[PlaneEvent]:
        self.forwarder.feed_bytes(self.client, data, NOW_MS)
        return self.forwarder.events()

    def delivered(self, message: bytes, tag: int = 0, attempt: int = 1) -> bytes:
        self.forwarder.deliver(self.client, 3, [attempt], [tag], [message])
        return self.forwarder.take(self.client, 1 << 20, NOW_MS)


def published(event: PlaneEvent, *, later: bool = False) -> Published | Transacted:
    assert isinstance(event, Transacted if later else Published), event
    return event


def error(event: PlaneEvent) -> FrameError:
    assert isinstance(event, FrameError), event
    return event


PLANES = {version: Plane(version) for version in StompVersion}


def trimmed(text: str, version: StompVersion) -> str:
    return text.strip(" \t") if version is StompVersion.V10 else text


def permanent(text: str) -> str:
    """A temporary destination of that client as all others call it."""
    return re.sub("^/temp-(queue|topic)/", r"/\1/tmp.9.7.", text)


@given(versions, headers, bodies, st.sampled_from(["/topic/a", "/queue/ä.b", None]))
@settings(max_examples=400)
@example(StompVersion.V12, {"attribute/": "x"}, b"", "/topic/a")
@example(StompVersion.V10, {"destination": "/temp-queue/x"}, b"", None)
@example(StompVersion.V12, {"AMQ_SCHEDULED_DELAY": "5000", "expires": "1"}, b"", "/topic/a")
@example(StompVersion.V12, {"AMQ_SCHEDULED_REPEAT": "5"}, b"", "/topic/a")
@example(StompVersion.V12, {"reply-to": "/temp-queue/x"}, b"", "/topic/a")
def test_send(version: StompVersion, given: dict[str, str], body: bytes, destination: str | None) -> None:
    if destination is not None:
        given = {"destination": destination} | {name: value for name, value in given.items() if name != "destination"}
    given = {name: value for name, value in given.items() if name != "transaction" and trimmed(name, version)}
    lines = "".join(f"{escape(name, version, name=True)}:{escape(value, version)}\n" for name, value in given.items())
    data = f"SEND\n{lines}content-length:{len(body)}\n\n".encode() + body + b"\0"
    meant: dict[str, str] = {}
    for name, value in given.items():
        shown = escape(name, version, name=True) if version is StompVersion.V10 else name
        text = escape(value, version) if version is StompVersion.V10 else value
        meant.setdefault(trimmed(shown, version), trimmed(text, version))
    meant |= {name: permanent(meant[name]) for name in ("destination", "reply-to") if name in meant}
    events = Plane(version).events(data)
    try:
        expected = message_of(meant, body, MessageId(7, 9, NOW_MS, 0))
    except (CodecError, UsageError, KeyError):
        assert [type(event) for event in events] == [FrameError], (given, events)
        return
    later = expected.deliver_at_ms is not None
    if expected.expired(NOW_MS) and not later:
        assert not events
        return
    [event] = events
    assert decode_message(published(event, later=later).message) == expected, given


@given(versions, messages, st.integers(0, 3), st.integers(1, 2))
@settings(max_examples=300)
def test_message(version: StompVersion, message: Message, tag: int, attempt: int) -> None:
    check_message(version, message, tag, attempt)


def check_message(version: StompVersion, message: Message, tag: int, attempt: int) -> None:
    frame = PLANES[version].delivered(encode_message(message), tag, attempt)
    head, _, tail = frame.partition(b"\ndestination:")
    assert b"destination:" + tail == frame_of(message, version)
    lines = head.decode().splitlines()
    id = message.id.jms if version is StompVersion.V10 else message.id.jms.replace(":", "\\c")
    own = f"-3-{tag}" if tag and version is not StompVersion.V12 else ""
    wanted = ["MESSAGE"]
    wanted += ["redelivered:true"] if attempt > 1 else []
    wanted += [f"ack:3-{tag}"] if tag and version is StompVersion.V12 else []
    assert lines == [*wanted, f"message-id:{id}{own}"]


@given(
    versions,
    st.lists(messages, min_size=1, max_size=2),
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(1, 9), st.sampled_from([b"", b"a", b"b", b"cc"]), st.integers(0, 2))
    ),
)
def test_messages_that_say_the_same(
    version: StompVersion, two: list[Message], sent: list[tuple[int, int, bytes, int]]
) -> None:
    """What was made of one message serves the next, but only as far as they are the same."""
    for which, number, body, tag in sent:
        message = replace(two[which % len(two)], id=MessageId(number, 1, NOW_MS, number), body=body)
        check_message(version, message, tag, 1)
        check_message(version, replace(message, priority=number), tag, 1)


@given(versions, st.lists(st.tuples(st.sampled_from(["/topic/a", "/queue/b"]), bodies), max_size=6), st.data())
def test_frames_may_be_cut_anywhere(version: StompVersion, sent: list[tuple[str, bytes]], data: st.DataObject) -> None:
    """However the bytes come, the same messages come out; line ends between frames mean nothing."""
    stream = b"".join(
        data.draw(st.sampled_from([b"", b"\n", b"\r\n\n"]))
        + encode("SEND", {"destination": destination, "content-length": str(len(body))}, version, body)
        for destination, body in sent
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    plane, found = Plane(version), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += plane.events(stream[start:end])
    assert [decode_message(published(event).message).body for event in found] == [body for _, body in sent]
    assert plane.forwarder.held_bytes() == 0


@given(
    versions,
    st.lists(st.tuples(st.sampled_from([b"", b"a:1\n", b"a:2\n", b"receipt:r\n"]), bodies, st.booleans()), max_size=9),
)
def test_frames_that_begin_alike(version: StompVersion, sent: list[tuple[bytes, bytes, bool]]) -> None:
    """What was made of one frame serves the next, but only as far as they are the same."""
    plane, expected = Plane(version), []
    stream = b""
    for line, body, announced in sent:
        body = body if announced else body.replace(b"\0", b"")
        length = b"content-length:%d\n" % len(body) if announced else b""
        stream += b"SEND\ndestination:/topic/a\n" + line + length + b"\n" + body + b"\0"
        value = line[2:3].decode() if line[:2] == b"a:" else None
        expected.append((body, {"a": value} if value else {}, line[:1] == b"r"))
    events = [published(event) for event in plane.events(stream)]
    messages_seen = [decode_message(event.message) for event in events]
    receipts = [event.receipt for event in events]
    found = [(one.body, dict(one.properties), n > 0) for one, n in zip(messages_seen, receipts, strict=True)]
    assert found == expected
    assert len({one.id for one in messages_seen}) == len(sent)


form_names = st.sampled_from(
    ["a", "b", "attribute/a", "type", "correlation-id", "receipt", "priority", "content-length", "ack", "x\\cy"]
)
form_destinations = st.sampled_from(
    ["/topic/a"] * 3
    + ["/topic/b.c", "/queue/a", "/topic/a..b", "/topic/*", "/temp-queue/x", "a", "/topic/" + "d" * 1025]
)
form_values = st.sampled_from(
    [
        b"",
        b"0",
        b"1",
        b"true",
        b"\xc3\xa9",
        b"\xff",
        b" 1",
        b"1\t",
        b"\\n",
        b"\\",
        b"1\r",
        b"c" * 127,
        b"d" * 128,
        b"e" * 3000,
    ]
)


def plain_forms(*values: list[bytes]) -> list[tuple[list[bytes], str, str]]:
    return [(each, "", "/topic/a") for each in values]


@given(
    versions,
    st.lists(form_names, max_size=4),
    st.lists(
        st.tuples(
            st.lists(form_values, min_size=4, max_size=4), st.sampled_from(["", "\n", "\r\n"]), form_destinations
        ),
        max_size=6,
    ),
)
@settings(max_examples=300)
@example(StompVersion.V12, ["a", "receipt"], plain_forms([b"0", b"1"], [b"1", b"\\n"], [b"2", b"3"]))
@example(StompVersion.V12, ["receipt"], plain_forms([b"\\n"], [b"\\n"]))
@example(StompVersion.V12, ["receipt"], plain_forms([b"1"], [b"e" * 1025]))
@example(StompVersion.V12, ["correlation-id", "a"], plain_forms([b"0", b"1"], [b"c" * 128, b"1"], [b"", b""]))
def test_forms_that_are_filled_in(
    version: StompVersion, names: list[str], sent: list[tuple[list[bytes], str, str]]
) -> None:
    """Frames with the same headers and other values: each becomes what it would be if it were the first."""

    def seen(plane: Plane, data: bytes) -> tuple[object, ...]:
        [event] = plane.events(data)
        if isinstance(event, FrameError):
            return event.code, plane.forwarder.stomp_receipt(plane.client, event.receipt)
        event = published(event)
        assert isinstance(event, Published)
        receipt = plane.forwarder.stomp_receipt(plane.client, event.receipt)
        message = replace(decode_message(event.message), id=MessageId.NONE)
        return message, event.connection, event.perhaps_sent, receipt

    plane = Plane(version)
    for others, before, destination in sent:
        body = b"body"
        lines = b"".join(name.encode() + b":" + value + b"\n" for name, value in zip(names, others, strict=False))
        lines = lines.replace(b"content-length:0\n", b"content-length:4\n")
        frame = f"{before}SEND\ndestination:{destination}\n".encode() + lines + b"\n" + body + b"\0"
        expected = seen(Plane(version), frame)
        assert seen(plane, frame) == expected
        if isinstance(expected[0], str):
            break


@given(
    versions,
    st.lists(st.sampled_from([None, "", "1", "2", "long" * 256, "a:b", "é"]), max_size=9),
    st.lists(st.integers(0, 3000), max_size=4),
)
def test_receipts_are_answered_at_once(version: StompVersion, asked: list[str | None], cuts: list[int]) -> None:
    """In order, however the bytes come, also after one that must wait for Python."""
    plane = Plane(version, predicate_of(DestinationPattern.parse("kept"), Selector("")))
    frame = b"SEND\ndestination:/topic/kept\nreceipt:kept\n\n\0"
    expected = b""
    for name in asked:
        shown = None if name is None else escape(name, version)
        frame += b"SEND\ndestination:/topic/a\n" + (b"" if shown is None else f"receipt:{shown}\n".encode()) + b"\n\0"
        expected += b"" if shown is None else f"RECEIPT\nreceipt-id:{shown}\n\n\0".encode()
    cuts = sorted(min(cut, len(frame)) for cut in cuts)
    events = [
        event
        for start, end in zip([0, *cuts], [*cuts, len(frame)], strict=True)
        for event in plane.events(frame[start:end])
    ]
    assert plane.forwarder.take(plane.client, 1 << 20, NOW_MS) == expected
    [event] = events
    plane.forwarder.confirm(plane.client, [published(event).receipt])
    assert plane.forwarder.take(plane.client, 1 << 20, NOW_MS) == b"RECEIPT\nreceipt-id:kept\n\n\0"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"SEND\n\nbody\0", "E_STOMP_HEADER"),
        (b"SEND\ndestination:a\n\n\0", "E_STOMP_DESTINATION"),
        (b"SEND\ndestination:/topic/a\nwhat\n\n\0", "E_STOMP_FRAME"),
        (b"SEND\ndestination:/topic/a\n:what\n\n\0", "E_STOMP_FRAME"),
        (b"SEND\ndestination:/topic/a\n\0", "E_STOMP_FRAME"),
        (b"SEND\ndestination:/topic/a\ncontent-length:3\n\nabcd\0", "E_STOMP_FRAME"),
        (b"SEND\ndestination:/topic/a\ncontent-length:x\n\nabcd\0", "E_STOMP_HEADER"),
        (b"SEND\ndestination:/topic/a\ncontent-length:99999999\n\n", "E_STOMP_LIMIT"),
        (b"SEND\ndestination:/topic/a\na:\\t\n\n\0", "E_STOMP_ESCAPE"),
        (b"SEND\ndestination:/topic/a\na:\xff\n\n\0", "E_STOMP_UTF8"),
        (b"SEND\ndestination:/topic/a\npriority:10\n\n\0", "E_STOMP_HEADER"),
        (b"SEND\ndestination:/topic/a\nexpires:soon\n\n\0", "E_STOMP_HEADER"),
        (b"SEND\ndestination:/topic/a\npersistent:1\n\n\0", "E_STOMP_HEADER"),
        (b"SEND\ndestination:/topic/a\ntransaction:x\n\n\0", "E_STOMP_TRANSACTION"),
        (b"SEND\ndestination:/topic/a\n" + b"".join(b"h%d:x\n" % i for i in range(1001)) + b"\n\0", "E_STOMP_LIMIT"),
        (b"SEND\ndestination:/topic/a\nh:" + b"x" * 70_000, "E_STOMP_LIMIT"),
        (b"x" * 40, "E_STOMP_FRAME"),
        (b"\x10\0\0\0\x01\0\0\0", "E_STOMP_FRAME"),
    ],
)
def test_what_is_refused(frame: bytes, code: str) -> None:
    plane = Plane(StompVersion.V12)
    [event] = plane.events(frame)
    assert (event.connection, error(event).code) == (plane.client, code)


def test_the_receipt_of_a_refused_frame_is_known() -> None:
    plane = Plane(StompVersion.V12)
    [event] = plane.events(b"SEND\nreceipt:r\ndestination:nowhere\n\n\0")
    assert plane.forwarder.stomp_receipt(plane.client, error(event).receipt) == b"r"


def test_declared_types() -> None:
    plane = Plane(StompVersion.V12)
    plane.forwarder.stomp_types(
        [("a.>", False, "n", 2), ("a.>", False, "x", 3), ("a.*", False, "s", 1), ("a.b", False, "b", 4)]
    )
    frame = b"SEND\ndestination:%s\nn:7\nx:7\ns:7\nb:TRUE\nother:7\n\n\0"
    [event] = plane.events(frame % b"/topic/a.b")
    found = decode_message(published(event).message).properties
    assert [(value, type(value).__name__) for value in found.values()] == [
        (7, "int"),
        (7.0, "float"),
        ("7", "str"),
        (True, "bool"),
        ("7", "Untyped"),
    ]
    [event] = plane.events(frame % b"/queue/a.b")
    found = decode_message(published(event).message).properties
    assert {type(value).__name__ for value in found.values()} == {"Untyped"}
    [event] = plane.events(b"SEND\ndestination:/topic/a.b\nn:seven\n\n\0")
    assert error(event).code == "E_STOMP_TYPE"


SELECTORS = [
    "p = '0'",
    "p = 0",
    "p > -1",
    "p <= 0.5",
    "p IN ('0', 'x')",
    "p <> 1",
    "NOT p = 0",
    "p = TRUE",
    "p LIKE '0%'",
]
SELECTORS += ["p IS NOT NULL", "p + 1 = 1", "p <> '0'", "p BETWEEN 0 AND 1", "p = 0 OR p = 'x'"]


def test_selectors_see_what_texts_read_as_whoever_else_subscribes() -> None:
    """What a text reads as is found out only if somebody wants to know; nobody may notice."""
    forwarder = Forwarder()
    sender, reader = forwarder.open(), forwarder.open()
    forwarder.speak_stomp(sender)
    for one in (sender, reader):
        forwarder.log_in(one, 1 << 20, False)
    sinks: dict[str, int] = {}

    def check() -> None:
        for text in ("0", "0.0", "true", "x", "-1"):
            before = {selector: forwarder.sink_counts(sink)[0] for selector, sink in sinks.items()}
            forwarder.feed_bytes(sender, f"SEND\ndestination:/topic/a\np:{text}\n\n\0".encode(), NOW_MS)
            found = {selector for selector, sink in sinks.items() if forwarder.sink_counts(sink)[0] > before[selector]}
            assert found == {one for one in sinks if Selector(one).matches({"p": Untyped(text)})}, text

    for number, selector in enumerate(SELECTORS):
        predicate = encode_predicate(predicate_of(DestinationPattern.parse("a"), Selector(selector)))
        sinks[selector] = forwarder.subscribe(DirectSink(reader, number, predicate, backlog_bytes_max=1000))
        check()
    for selector in (*SELECTORS[1:], SELECTORS[0]):
        forwarder.unsubscribe(sinks.pop(selector))
        check()


def test_ids_are_never_the_same() -> None:
    plane = Plane(StompVersion.V12)
    frame = b"SEND\ndestination:/topic/a\n\n\0"
    events = plane.events(frame * 70_000)
    while more := plane.forwarder.events():
        events += more
    assert len({published(event).message[4:20] for event in events}) == 70_000


def test_native_and_stomp_clients_share_what_they_subscribe_to() -> None:
    async def check(here: Place) -> None:
        async with connect(here.url) as native:
            ticks = await native.subscribe("ticks.>", selector="price > 20")
            raw = await here.client()
            await raw.subscribe("/topic/ticks.>", selector="price > 20")
            await raw.send("SEND", {"destination": "/topic/ticks.a", "price": "30"}, b"one")
            await native.publish("ticks.b", {"price": 40}, body=b"two")
            assert [(await anext(ticks)).body for _ in range(2)] == [b"one", b"two"]
            got = [await raw.expect("MESSAGE") for _ in range(2)]
            assert [(frame.body, frame.headers["price"]) for frame in got] == [(b"one", "30"), (b"two", "40")]

    with_broker(check)
