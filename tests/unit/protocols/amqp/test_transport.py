"""The transport's rules (AMQP 1.0, part 2), statement by statement, against a session without a broker."""

from itertools import pairwise
from struct import pack
from typing import Any

import pytest
from hardening.fuzz.amqp_streams import (
    ACCEPT,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    LOG_IN,
    MESSAGE,
    OPEN,
    TARGET,
    TRANSFER,
    attach,
    begin,
    on,
    settled,
    transfer,
)

from tidings.errors import TidingsError
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.protocols.amqp.sasl import amqp_frame
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.frames import FrameReader
from tidings.protocols.amqp.wire.types import Described, symbol, uint, ulong, ushort
from tidings.protocols.native.frames import FrameSplitter, FrameType, control, decode_fields
from tidings.protocols.session import Caller

MANY = uint(1 << 20)
OUT = attach("out", 0, receives=False, source=[], target=Described(TARGET, ["queue://a"]))
IN = attach("in", 1, receives=True, source=["queue://a"], target=None)
TEXT = encode(MessageSection.VALUE, "text")


class Peer:
    """A client's side of a session, and the broker's."""

    def __init__(
        self, *frames: bytes, opening: list[Any] | None = None, begins: bool = True, first: bytes = b""
    ) -> None:
        self.session = AmqpSession(Caller("", True, 1 << 20, lambda *_: True))
        self.session.receive(b"".join(LOG_IN), 0)
        welcome = {"publisher": 1, "broker": 1, "frame_max": 1 << 20, "heartbeat_ms": 30_000}
        self.session.frames(control(FrameType.WELCOME, welcome), 0)
        self._output = b""
        self._reader = FrameReader(1 << 20)
        self.heard()
        if first:
            self.say(first)
        self.say(amqp_frame(OPEN, opening or ["peer", "host"]), *([begin()] if begins else []), *frames)

    def say(self, *frames: bytes) -> None:
        for frame in frames:
            self.session.receive(frame, 0)

    def fails(self, *frames: bytes) -> str:
        """The condition of the close that these frames cause."""
        with pytest.raises(TidingsError):
            self.say(*frames)
        return self.condition(CLOSE, 0)

    def condition(self, code: int, field: int) -> str:
        return str(next(fields[field].value[0] for _, kind, fields, _ in self.heard() if kind == code))

    def heard(self) -> list[tuple[int, int, list[Any], bytes]]:
        """Channel, performative, fields, payload of all frames since the last call."""
        output = self.session.take_output()
        start = output.find(b"AMQP\x00")
        if start >= 0:
            output = output[start + 8 :]
        found: list[tuple[int, int, list[Any], bytes]] = []
        for frame in self._reader.feed(output):
            if not frame.body:
                found.append((frame.channel, 0, [], b""))
                continue
            value, end = decode_first(frame.body)
            found.append((frame.channel, int(value.descriptor), [*value.value, *[None] * 14], frame.body[end:]))
        return found

    def told(self) -> list[int]:
        """The types of the frames for the broker since the last call."""
        return [frame.type for frame in FrameSplitter(1 << 20).feed(self.session.take_frames())]

    def broker(self, *frames: bytes) -> None:
        self.session.frames(b"".join(frames), 0)

    def subscribed(self) -> "Peer":
        """With the broker's consent to the link IN."""
        asked = FrameSplitter(1 << 20).feed(self.session.take_frames())
        receipts = [decode_fields(one.payload)["receipt"] for one in asked if one.type == FrameType.SUBSCRIBE]
        self.broker(*(control(FrameType.OK, {"receipt": receipt}) for receipt in receipts))
        return self


def flow(handle: int | None, credit: int | None, **other: Any) -> bytes:
    known = {"next": uint(0), "window": MANY, "count": uint(0), "drain": False, "echo": False, "properties": None}
    known |= other
    link = [None, None, None] if handle is None else [uint(handle), known["count"], uint(credit or 0)]
    fields = [known["next"], known["window"], uint(0), MANY, *link, None, known["drain"], known["echo"]]
    return amqp_frame(FLOW, [*fields, known["properties"]])


def delivered(tag: int, body: bytes = b"body") -> bytes:
    message = encode_message(Message(Destination("a", True), {}, body))
    return encode_frame(FrameType.DELIVER, pack("<IIQ", 1, 1, tag) + message)


def of(heard: list[tuple[int, int, list[Any], bytes]], code: int) -> list[list[Any]]:
    return [fields for _, kind, fields, _ in heard if kind == code]


# --- 2.3 framing, 2.4 connections -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"\x00\x00\x00\x08\x01\x00\x00\x00",
        b"\x00\x00\x00\x08\x03\x00\x00\x00",
        b"\x00\x01\x00\x01\x02\x00\x00\x00",
    ],
)
def test_2_3_1_a_malformed_or_too_long_frame_closes_the_connection(frame: bytes) -> None:
    assert Peer().fails(frame) == "amqp:connection:framing-error"


def test_2_3_1_an_extended_header_is_ignored() -> None:
    peer = Peer()
    body = amqp_frame(END, [])[8:]
    peer.say((16 + len(body)).to_bytes(4, "big") + b"\x04\x00\x00\x00" + b"\xff" * 8 + body)
    assert of(peer.heard(), END)


def test_2_4_1_the_first_frame_is_an_open() -> None:
    with pytest.raises(TidingsError, match="the first frame must be an open"):
        Peer(first=begin())


def test_2_4_1_there_is_one_open() -> None:
    assert Peer(begins=False).fails(amqp_frame(OPEN, ["again", "host"])) == "amqp:connection:framing-error"


def test_2_4_1_the_open_is_on_channel_0() -> None:
    with pytest.raises(TidingsError, match="channel 1"):
        Peer(first=on(1, amqp_frame(OPEN, ["peer", "host"])))


def test_2_4_2_a_close_is_answered_with_a_close() -> None:
    peer = Peer()
    peer.say(amqp_frame(CLOSE, []))
    assert len(of(peer.heard(), CLOSE)) == 1
    assert peer.told()[-1] == FrameType.CLOSE


def test_2_4_3_after_a_close_nothing_is_read() -> None:
    peer = Peer()
    peer.say(amqp_frame(CLOSE, []), on(1, begin()))
    assert not of([one for one in peer.heard() if one[0] == 1], BEGIN)


def test_2_4_5_the_client_hears_a_sign_of_life_in_time() -> None:
    peer = Peer(opening=["peer", "host", None, None, uint(2000)])
    peer.heard()
    times = []
    for now in range(250, 5001, 250):
        peer.session.tick(now)
        if peer.heard() == [(0, 0, [], b"")]:
            times.append(now)
    assert times[0] <= 1000
    assert max(later - earlier for earlier, later in pairwise(times)) <= 1000


def test_2_4_5_a_time_out_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(TidingsError, match="idle-time-out"):
        Peer(opening=["peer", "host", None, None, uint(100)])


def test_2_7_1_a_max_frame_size_below_512_is_refused() -> None:
    with pytest.raises(TidingsError, match="max-frame-size"):
        Peer(opening=["peer", "host", uint(511)])


def test_2_7_1_no_frame_is_longer_than_the_client_takes() -> None:
    peer = Peer(IN, flow(1, 10), opening=["peer", "host", uint(512)]).subscribed()
    peer.heard()
    peer.broker(delivered(1, b"x" * 2000))
    frames = FrameReader(512).feed(peer.session.take_output())
    parts = [frame.body for frame in frames if frame.body.startswith(b"\x00\x53\x14")]
    assert len(parts) >= 4
    assert max(8 + len(frame.body) for frame in frames) <= 512


def test_2_7_1_a_channel_above_channel_max_closes_the_connection() -> None:
    assert Peer().fails(on(256, begin())) == "amqp:connection:framing-error"


# --- 2.5 sessions -----------------------------------------------------------------------------------------------------


def test_2_5_1_a_begin_is_answered_on_the_same_channel_with_it() -> None:
    peer = Peer(on(7, begin()))
    assert [(channel, fields[0]) for channel, code, fields, _ in peer.heard() if code == BEGIN] == [
        (0, ushort(0)),
        (7, ushort(7)),
    ]


def test_2_5_1_two_sessions_on_one_channel_close_the_connection() -> None:
    assert Peer().fails(begin()) == "amqp:connection:framing-error"


def test_2_5_1_a_frame_for_no_session_closes_the_connection() -> None:
    assert Peer().fails(on(3, amqp_frame(END, []))) == "amqp:connection:framing-error"


def test_2_5_5_an_end_is_answered_and_the_channel_is_free_again() -> None:
    peer = Peer(OUT)
    peer.say(amqp_frame(END, []), begin(), OUT)
    codes = [code for _, code, _, _ in peer.heard()]
    assert codes.count(END) == 1
    assert codes.count(BEGIN) == codes.count(ATTACH) == 2


def test_2_5_5_after_a_session_has_failed_its_frames_are_discarded() -> None:
    peer = Peer(OUT, OUT)
    assert peer.condition(END, 0) == "amqp:session:handle-in-use"
    peer.say(attach("x", 5, receives=False, source=[], target=Described(TARGET, ["a"])), amqp_frame(END, []), begin())
    assert [code for _, code, _, _ in peer.heard()] == [BEGIN]


def test_2_5_6_no_more_transfers_than_the_clients_window() -> None:
    peer = Peer(IN, flow(1, 10, window=uint(2))).subscribed()
    peer.broker(*(delivered(tag) for tag in (1, 2, 3)))
    assert len(of(peer.heard(), TRANSFER)) == 2
    peer.say(flow(None, None, next=uint(2), window=uint(1)))
    assert len(of(peer.heard(), TRANSFER)) == 1


# --- 2.6 links --------------------------------------------------------------------------------------------------------


def test_2_6_1_a_frame_for_no_link_ends_the_session() -> None:
    peer = Peer()
    peer.say(flow(4, 1))
    assert peer.condition(END, 0) == "amqp:session:unattached-handle"


def test_2_6_1_a_transfer_to_a_link_that_sends_ends_the_session() -> None:
    peer = Peer(IN).subscribed()
    peer.say(transfer([uint(1), uint(0), b"0", uint(0), True], MESSAGE))
    assert peer.condition(END, 0) == "amqp:session:errant-link"


def test_2_7_2_a_handle_above_the_brokers_handle_max_closes_the_connection() -> None:
    peer = Peer()
    handle_max = int(of(peer.heard(), BEGIN)[0][4])
    frame = attach("far", handle_max + 1, receives=False, source=[], target=Described(TARGET, ["a"]))
    assert peer.fails(frame) == "amqp:connection:framing-error"


def test_2_7_2_a_client_without_a_handle_for_the_answer_loses_the_session() -> None:
    peer = Peer(begins=False)
    peer.say(amqp_frame(BEGIN, [None, uint(0), MANY, MANY, uint(0)]), OUT, IN)
    heard = peer.heard()
    assert len(of(heard, ATTACH)) == 1
    assert of(heard, END)[0][0].value[0] == "amqp:resource-limit-exceeded"


def test_2_6_4_a_link_that_is_closed_is_answered_with_closed() -> None:
    peer = Peer(OUT, amqp_frame(DETACH, [uint(0), True]))
    assert of(peer.heard(), DETACH)[0][:2] == [uint(0), True]


def test_2_6_4_a_handle_can_be_used_again() -> None:
    peer = Peer(OUT, amqp_frame(DETACH, [uint(0), True]), OUT)
    assert [fields[1] for fields in of(peer.heard(), ATTACH)] == [uint(0), uint(0)]


def test_2_6_7_no_more_messages_than_the_credit() -> None:
    peer = Peer(IN, flow(1, 2)).subscribed()
    peer.broker(*(delivered(tag) for tag in (1, 2, 3)))
    assert len(of(peer.heard(), TRANSFER)) == 2
    peer.say(flow(1, 1, count=uint(2), next=uint(2)))
    assert len(of(peer.heard(), TRANSFER)) == 1


def test_2_6_7_a_transfer_beyond_the_credit_detaches_the_link() -> None:
    peer = Peer(OUT)
    credit = int(of(peer.heard(), FLOW)[0][6])
    peer.say(*(transfer([uint(0), uint(n), b"%d" % n, uint(0), True], TEXT) for n in range(credit + 1)))
    assert peer.condition(DETACH, 2) == "amqp:link:transfer-limit-exceeded"


@pytest.mark.parametrize("handle", [None, 0, 1])
def test_2_7_4_echo_is_answered(handle: int | None) -> None:
    peer = Peer(OUT, IN).subscribed()
    peer.heard()
    peer.say(flow(handle, 0, echo=True))
    assert [fields[4] for fields in of(peer.heard(), FLOW)] == [None if handle is None else uint(handle)]


def test_2_6_12_an_unsettled_map_is_answered_with_none() -> None:
    """So the sender knows that the deliveries are not known here, and sends them again."""
    link = ["out", uint(0), False, None, None, Described(ulong(0x28), []), Described(TARGET, ["queue://a"])]
    peer = Peer(amqp_frame(ATTACH, [*link, {b"tag": None}, None, uint(0)]))
    assert of(peer.heard(), ATTACH)[0][7] is None
    again = [uint(0), uint(0), b"tag", uint(0), False, False, None, None, True]
    peer.say(transfer(again, MESSAGE))
    assert peer.told()[-1] == FrameType.PUBLISH


@pytest.mark.parametrize(
    "second",
    [
        [uint(0), uint(7), None, None, None, False],
        [uint(0), None, b"other", None, None, False],
        [uint(0), None, None, uint(1), None, False],
        [uint(0), uint(1), b"1", uint(0), None, False],
    ],
    ids=["id", "tag", "format", "another message"],
)
def test_2_7_5_a_further_transfer_says_what_the_first_said(second: list[Any]) -> None:
    peer = Peer(OUT, transfer([uint(0), uint(0), b"0", uint(0), False, True], TEXT[:2]))
    peer.heard()
    assert peer.fails(transfer(second, TEXT[2:])) == "amqp:decode-error"


def test_2_6_14_a_message_of_several_transfers_is_one() -> None:
    peer = Peer(OUT)
    parts = [MESSAGE[:5], MESSAGE[5:9], MESSAGE[9:]]
    peer.told()
    peer.say(
        transfer([uint(0), uint(0), b"0", uint(0), False, True], parts[0]),
        transfer([uint(0), None, None, None, None, True], parts[1]),
    )
    assert peer.told() == []
    peer.say(transfer([uint(0), uint(0), None, None, None, False], parts[2]))
    assert peer.told() == [FrameType.PUBLISH]


def test_2_6_14_an_aborted_message_is_none() -> None:
    peer = Peer(OUT)
    peer.told()
    peer.say(
        transfer([uint(0), uint(0), b"0", uint(0), False, True], MESSAGE[:5]),
        transfer([uint(0), uint(0), None, None, None, False, None, None, None, True], b""),
    )
    assert peer.told() == []


def test_2_7_5_incomplete_messages_are_bounded_in_memory() -> None:
    links = [attach(f"o{n}", n, receives=False, source=[], target=Described(TARGET, ["a"])) for n in range(3)]
    peer = Peer(*links)
    part = bytes(60_000)
    first = [transfer([uint(one), uint(one), b"%d" % one, uint(0), False, True], part) for one in range(3)]
    more = [transfer([uint(one), None, None, None, None, True], part) for one in range(3)]
    with pytest.raises(TidingsError, match="E_AMQP_PARTIAL"):
        peer.say(*first, *more * 20)
    assert peer.condition(CLOSE, 0) == "amqp:resource-limit-exceeded"


def test_2_7_6_outcomes_may_be_named_by_symbols() -> None:
    peer = Peer(IN, flow(1, 10)).subscribed()
    peer.broker(delivered(1), delivered(2))
    peer.told()
    peer.say(settled(0, None, Described(symbol("amqp:accepted:list"), [])))
    assert peer.told() == [FrameType.ACK]
    peer.say(settled(1, None, Described(symbol("amqp:rejected:list"), [])))
    assert peer.told() == [FrameType.ACK]


def test_2_7_6_a_range_without_end_costs_no_more_than_what_is_unsettled() -> None:
    peer = Peer(IN, flow(1, 10)).subscribed()
    peer.broker(delivered(1), delivered(2))
    peer.told()
    peer.say(settled(0, (1 << 31) - 1, ACCEPT))
    assert peer.told() == [FrameType.ACK]


def test_4_4_3_a_flow_in_a_transaction_detaches_the_link() -> None:
    peer = Peer(IN).subscribed()
    peer.say(flow(1, 10, properties={symbol("txn-id"): b"\0\1"}))
    assert peer.condition(DETACH, 2) == "amqp:not-implemented"


def test_3_4_a_settled_disposition_is_sent_once_for_a_run_of_deliveries() -> None:
    peer = Peer(OUT)
    for number in range(3):
        peer.say(transfer([uint(0), uint(number), b"%d" % number, uint(0), False], TEXT))
    frames = FrameSplitter(1 << 20).feed(peer.session.take_frames())
    asked = [int.from_bytes(one.payload[:4], "little") for one in frames if one.type == FrameType.PUBLISH]
    peer.heard()
    payload = b"".join(one.to_bytes(4, "little") for one in (len(asked), *asked))
    peer.broker((len(payload)).to_bytes(4, "little") + bytes((FrameType.RECEIPTS, 0, 0, 0)) + payload)
    (fields,) = of(peer.heard(), DISPOSITION)
    assert fields[:4] == [True, uint(0), uint(2), True]
