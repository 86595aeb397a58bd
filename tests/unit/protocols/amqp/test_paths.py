"""The kernel's path and Python's: whichever of them handles a frame, client and broker hear the same."""

from struct import pack
from typing import Any, NamedTuple
from unittest.mock import patch

from hardening.fuzz.amqp_streams import (
    ACCEPT,
    DISPOSITION,
    FLOW,
    LOG_IN,
    MESSAGE,
    OPEN,
    REJECTED,
    TARGET,
    TRANSFER,
    attach,
    begin,
    settled,
    transfer,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.kernel.amqp import AmqpTransfers
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.protocols.amqp import session as sessions
from tidings.protocols.amqp.sasl import amqp_frame
from tidings.protocols.amqp.sections import MessageSection, encode
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.frames import FrameReader
from tidings.protocols.amqp.wire.types import Described, ubyte, uint
from tidings.protocols.native.frames import FrameSplitter, FrameType, control, decode_ack, decode_fields
from tidings.protocols.native.peer import Fields
from tidings.protocols.session import Caller

NOW_MS = 1_700_000_000_000
MANY = uint(1 << 20)
PLAIN = encode(MessageSection.APPLICATION_PROPERTIES, {"n": 3, "s": "é"}) + encode(MessageSection.VALUE, "text")


class ColdTransfers(AmqpTransfers):
    """Leaves every frame to Python."""

    def take(self, data: bytes, at: int, now_ms: int) -> int:
        return 0

    def give(self, data: bytes, at: int, now_ms: int) -> int:
        return 0


class Send(NamedTuple):
    content: bytes
    presettled: bool
    parts: int


class Deliver(NamedTuple):
    body: bytes
    presettled: bool  # of a topic's: without a tag


class Settle(NamedTuple):
    first: int
    number: int
    state: Any
    done: bool


class Grant(NamedTuple):
    credit: int
    window: int


class Answer(NamedTuple):
    """The broker's receipts, the oldest first; refused: the next one."""

    number: int
    refused: bool


steps = st.one_of(
    st.builds(Send, st.sampled_from([PLAIN, MESSAGE, b"\x00"]), st.booleans(), st.sampled_from([1, 1, 1, 2])),
    st.builds(Deliver, st.sampled_from([b"", b"body", b"x" * 700]), st.booleans()),
    st.builds(
        Settle,
        st.integers(0, 6),
        st.integers(1, 4),
        st.sampled_from([ACCEPT, ACCEPT, Described(REJECTED, []), None]),
        st.sampled_from([True, True, False]),
    ),
    st.builds(Grant, st.integers(0, 5), st.integers(0, 5)),
    st.builds(Answer, st.integers(1, 4), st.sampled_from([False, False, True])),
)


class Walk:
    """A session with a link in each direction, and all that its two sides hear."""

    def __init__(self, make: type[AmqpTransfers]) -> None:
        with patch.object(sessions, "AmqpTransfers", make):
            self.session = AmqpSession(Caller("", True, 1 << 20, lambda *_: True))
            self.session.receive(b"".join(LOG_IN), NOW_MS)
            welcome = {"publisher": 1, "broker": 1, "frame_max": 1 << 20, "heartbeat_ms": 0}
            self.session.frames(control(FrameType.WELCOME, welcome), NOW_MS)
        self._reader, self._receipts, self._sent, self._under_way = FrameReader(1 << 20), list[int](), 0, 0
        self.published: list[bytes] = []
        self.acknowledged: set[tuple[int, int]] = set()
        self.transfers: list[tuple[list[Any], bytes]] = []
        self.settled: dict[tuple[bool, int], Any] = {}
        self.others: list[tuple[int, list[Any]]] = []
        self.session.take_output()
        self._say(
            amqp_frame(OPEN, ["peer", "host", uint(512)]),
            begin(),
            attach("out", 0, receives=False, source=[], target=Described(TARGET, ["queue://a"])),
            attach("in", 1, receives=True, source=["queue://a"], target=None, settle=ubyte(2)),
        )
        self._grant(3, 3)

    def step(self, one: Any) -> None:
        match one:
            case Send(content, presettled, parts):
                cut = len(content) // parts
                fields = [uint(0), uint(self._sent), b"%d" % self._sent, uint(0), presettled, parts > 1]
                self._say(transfer(fields, content[:cut]))
                if parts > 1:
                    self._say(transfer([uint(0), None, None, None, None, False], content[cut:]))
                self._sent += 1
            case Deliver(body, presettled):
                if self._under_way < 4:  # a broker sends as much as it has credit for
                    self._under_way += 1
                    tag = 0 if presettled else len(self.transfers) + 100 + self._under_way
                    message = encode_message(Message(Destination("a", True), {"n": 1}, body))
                    self._hear(encode_frame(FrameType.DELIVER, pack("<IIQ", 1, 1, tag) + message))
            case Settle(first, number, state, done):
                self._say(settled(first, first + number - 1, state, done=done))
            case Grant(credit, window):
                self._grant(credit, window)
            case Answer(number, refused):
                self._answer(number, refused=refused)

    def _grant(self, credit: int, window: int) -> None:
        heard = len(self.transfers)
        done = sum(1 for fields, _ in self.transfers if not fields[5])
        self._under_way = max(0, self._under_way - credit)
        seen = [uint(heard), uint(window), uint(0), MANY, uint(1), uint(done), uint(credit)]
        self._say(amqp_frame(FLOW, seen))

    def _answer(self, count: int, *, refused: bool) -> None:
        if refused and self._receipts:
            why: Fields = {"receipt": self._receipts.pop(0), "code": "E_FORBIDDEN", "reason": "no", "fatal": False}
            self._hear(control(FrameType.REFUSED, why))
        answered, self._receipts = self._receipts[:count], self._receipts[count:]
        payload = pack(f"<I{len(answered)}I", len(answered), *answered)
        self._hear(encode_frame(FrameType.RECEIPTS, payload))

    def _say(self, *frames: bytes) -> None:
        for frame in frames:
            self.session.receive(frame, NOW_MS)
        self._look()

    def _hear(self, frame: bytes) -> None:
        self.session.frames(frame, NOW_MS)
        self._look()

    def _look(self) -> None:
        for frame in FrameSplitter(1 << 20).feed(self.session.take_frames()):
            match frame.type:
                case FrameType.PUBLISH:
                    self._receipts.append(int.from_bytes(frame.payload[:4], "little"))
                    self.published.append(frame.payload[4:])
                case FrameType.ACK:
                    _, flags, tags = decode_ack(frame.payload)
                    self.acknowledged |= {(tag, flags) for tag in tags}
                case FrameType.SUBSCRIBE:
                    receipt = decode_fields(frame.payload)["receipt"]
                    self.session.frames(control(FrameType.OK, {"receipt": receipt}), NOW_MS)
        output = self.session.take_output()
        for one in self._reader.feed(output.removeprefix(b"AMQP\x00\x01\x00\x00")):
            value, end = decode_first(one.body)
            fields: list[Any] = [*value.value, *[None] * 8]
            match int(value.descriptor):
                case code if code == TRANSFER:
                    self.transfers.append((fields, one.body[end:]))
                case code if code == DISPOSITION:
                    last = fields[1] if fields[2] is None else fields[2]
                    for number in range(fields[1], last + 1):
                        self.settled[fields[0], number] = fields[4]
                case code if code != FLOW:
                    self.others.append((int(value.descriptor), fields))


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=25))
def test_the_two_paths_say_the_same(walk: list[Any]) -> None:
    hot, cold = Walk(AmqpTransfers), Walk(ColdTransfers)
    for one in walk:
        hot.step(one)
        cold.step(one)
        assert hot.published == cold.published
        assert hot.transfers == cold.transfers
        assert hot.settled == cold.settled
        assert hot.acknowledged == cold.acknowledged
        assert hot.others == cold.others


def test_plain_messages_need_no_python() -> None:
    """All of a batch is handled before Python sees a frame."""
    walk = Walk(AmqpTransfers)
    with patch.object(sessions.AmqpEngine, "deliver", side_effect=AssertionError):
        walk.step(Grant(1, 5))
        walk.step(Deliver(b"body", True))
    assert len(walk.transfers) == 1
