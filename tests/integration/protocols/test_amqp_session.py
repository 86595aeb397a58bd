"""A session of AMQP without a broker: what it says to the client, and what to the broker."""

from struct import pack
from typing import Any

import pytest
from hardening.fuzz.amqp_streams import (
    ACCEPT,
    ATTACH,
    COORDINATOR,
    DECLARE,
    DETACH,
    DISCHARGE,
    DISPOSITION,
    END,
    FLOW,
    LOG_IN,
    MESSAGE,
    TARGET,
    TRANSACTIONAL,
    WHOLE,
    attach,
    flow,
    opened,
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
from tidings.protocols.amqp.source import NO_LOCAL
from tidings.protocols.amqp.wire.types import Described, symbol, uint
from tidings.protocols.native.frames import FrameSplitter, FrameType, control
from tidings.protocols.native.session import NativeSession
from tidings.protocols.session import Caller

ATTACHED = bytes((0, 0x53, ATTACH))
DISPOSED = bytes((0, 0x53, DISPOSITION))
WELCOME = control(FrameType.WELCOME, {"publisher": 1, "broker": 1, "frame_max": 1 << 20, "heartbeat_ms": 0})


def begun(*frames: bytes) -> AmqpSession:
    """A session that has heard these, and has not been asked for its answer to the last."""
    session = AmqpSession(Caller("", True, 1 << 20, lambda *_: True))
    session.receive(b"".join(LOG_IN), 0)
    session.frames(WELCOME, 0)
    for frame in (*opened()[len(LOG_IN) :], *frames):
        session.take_output()
        session.receive(frame, 0)
    return session


def waiting() -> AmqpSession:
    """A session that has asked much of a broker which does not answer."""
    browsing = ["queue://q", None, None, None, None, None, "copy"]
    return begun(
        attach("out", 0, receives=False, source=[], target=Described(TARGET, ["a"])),
        attach("in", 1, receives=True, source=["a"], target=None),
        attach("look", 2, receives=True, source=browsing, target=None),
        attach("gone", 3, receives=True, source=["b"], target=None),
        attach("who", 4, receives=True, source=[], target=None),
        attach("forget", 5, receives=True, source=[], target=None),
        flow(2, 5),
        transfer([uint(0), uint(0), b"0", uint(0), False], MESSAGE),
        amqp_frame(DETACH, [uint(3), True]),
        amqp_frame(DETACH, [uint(5), True]),
    )


def test_what_the_broker_answers_after_a_session_has_ended_reaches_nobody() -> None:
    session = waiting()
    session.take_output()
    session.receive(amqp_frame(END, []), 0)
    assert bytes((0, 0x53, END)) in session.take_output()
    for receipt in range(1, 20):
        session.frames(control(FrameType.OK, {"receipt": receipt}), 0)
        session.frames(control(FrameType.ERROR, {"receipt": receipt, "code": "E_FORBIDDEN"}), 0)
    assert session.take_output() == b""


def test_a_lost_connection_ends_all_subscriptions() -> None:
    session = waiting()
    session.take_frames()
    session.lost()
    ended = [frame.type for frame in FrameSplitter(1 << 20).feed(session.take_frames())]
    assert ended.count(FrameType.UNSUBSCRIBE) == 1


def test_a_receiver_that_settles_second_is_told_when_the_outcome_is_on_disk() -> None:
    session = begun(attach("in", 0, receives=True, source=["queue://q"], target=None), flow(0, 5))
    message = encode_message(Message(Destination("q", True)))
    deliveries = b"".join(encode_frame(FrameType.DELIVER, pack("<IIQ", 1, 1, tag) + message) for tag in (1, 2))
    session.frames(b"".join(control(FrameType.OK, {"receipt": one}) for one in (1, 2)) + deliveries, 0)
    session.take_output()
    session.take_frames()

    def asks() -> list[int]:
        return [frame.type for frame in FrameSplitter(1 << 20).feed(session.take_frames())]

    session.receive(settled(0, None, ACCEPT, done=False), 0)
    assert asks() == [FrameType.ACK, FrameType.SYNC]
    session.receive(settled(1, None, ACCEPT, done=False), 0)
    assert asks() == [FrameType.ACK]
    assert DISPOSED not in session.take_output(), "nothing is known to be on disk"
    session.frames(control(FrameType.OK, {"receipt": 3}), 0)
    assert session.take_output().count(DISPOSED) == 1
    assert asks() == [FrameType.SYNC], "for the other one"
    session.frames(control(FrameType.ERROR, {"receipt": 4, "code": "E_STORE_FULL"}), 0)
    assert DISPOSED not in session.take_output()
    session.receive(amqp_frame(END, []), 0)


def test_outcomes_that_wait_for_a_transaction_do_not_outlive_their_session() -> None:
    session = begun(
        attach("tx", 0, receives=False, source=[], target=Described(COORDINATOR, [])),
        attach("in", 1, receives=True, source=["queue://q"], target=None),
        flow(1, 5),
        transfer([uint(0), uint(0), b"0", uint(0), False], encode(MessageSection.VALUE, Described(DECLARE, []))),
    )
    message = encode_message(Message(Destination("q", True)))
    session.frames(b"".join(control(FrameType.OK, {"receipt": one}) for one in (1, 2, 3)), 0)
    session.frames(b"".join(encode_frame(FrameType.DELIVER, pack("<IIQ", 1, 1, tag) + message) for tag in (1, 2)), 0)
    session.take_output()
    session.take_frames()
    accepted = Described(TRANSACTIONAL, [b"\0\1", ACCEPT])
    discharge = encode(MessageSection.VALUE, Described(DISCHARGE, [b"\0\1", False]))
    session.receive(settled(0, None, accepted, done=False), 0)
    assert session.take_frames() == b"", "the broker need not know yet"
    session.receive(transfer([uint(0), uint(1), b"1", uint(0), False], discharge), 0)
    asked = [frame.type for frame in FrameSplitter(1 << 20).feed(session.take_frames())]
    assert asked == [FrameType.ACK, FrameType.COMMIT]
    session.receive(settled(1, None, accepted, done=False), 0)
    session.receive(amqp_frame(END, []), 0)
    session.take_output()
    session.frames(control(FrameType.OK, {"receipt": 4}), 0)
    assert session.take_output() == b""


BROKEN: dict[str, tuple[bool, list[Any], Any]] = {
    "capabilities of a source": (False, ["queue://a", *[None] * 8, b"!!"], None),
    "outcomes of a source": (False, ["queue://a", *[None] * 7, b"!!"], None),
    "a filter": (False, ["queue://a", *[None] * 6, {NO_LOCAL[0]: b"!!"}], None),
    "properties of a node": (False, [None, None, None, None, True, b"!!"], None),
    "capabilities of a target": (True, [], Described(TARGET, ["queue://a", *[None] * 5, b"!!"])),
}


@pytest.mark.parametrize("where", BROKEN)
@pytest.mark.parametrize("browses", [False, True])
def test_a_malformed_value_in_an_attach_ends_the_connection(where: str, *, browses: bool) -> None:
    """An array of a type that does not exist."""
    publishes, source, target = BROKEN[where]
    if browses and len(source) > 6:
        source = [*source[:6], symbol("copy"), *source[7:]]
    frame = attach("x", 0, receives=not publishes, source=source, target=target)
    session = begun()
    session.take_output()
    with pytest.raises(TidingsError, match="E_AMQP_DECODE"):
        session.receive(frame.replace(b"\xa0\x02!!", b"\xe0\x02\x01\x33"), 0)
    output = session.take_output()
    assert b"amqp:decode-error" in output
    assert ATTACHED not in output


@pytest.mark.parametrize("sent", [2001, 1 << 31, (1 << 32) - 2])
def test_a_publisher_that_has_sent_more_than_its_credit_or_less_than_nothing_is_refused(sent: int) -> None:
    claim = amqp_frame(FLOW, [uint(0), WHOLE, uint(0), WHOLE, uint(0), uint(sent)])
    session = begun(
        attach("out", 0, receives=False, source=[], target=Described(TARGET, ["a"])),
        claim,
    )
    assert b"amqp:link:transfer-limit-exceeded" in session.take_output()


def test_the_next_message_says_how_many_were_dropped_before_it() -> None:
    session = begun(attach("in", 0, receives=True, source=["topic://t"], target=None), flow(0, 5))
    message = encode_message(Message(Destination("t")))
    delivery = encode_frame(FrameType.DELIVER, pack("<IIQ", 1, 1, 0) + message)
    session.frames(b"".join(control(FrameType.OK, {"receipt": one}) for one in (1, 2)), 0)
    dropped = NativeSession().dropped
    notices = dropped(1, 2, "oldest") + dropped(1, 3, "stalled") + dropped(99, 5, "oldest")
    session.take_output()
    session.frames(notices + delivery, 0)
    said = {symbol("x-opt-dropped"): 5, symbol("x-opt-dropped-reason"): "stalled"}
    assert encode(MessageSection.DELIVERY_ANNOTATIONS, said) in session.take_output()
    session.frames(delivery, 0)
    assert b"x-opt-dropped" not in session.take_output(), "it is said once"
