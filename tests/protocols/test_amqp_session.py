"""A session of AMQP without a broker: what it holds of Proton's."""

import gc

from proton import Delivery, Described, Receiver, Sender, uint

from tidings.broker.session import Caller
from tidings.protocols.amqp import AmqpSession
from tidings.protocols.amqp_sasl import amqp_frame
from tidings.protocols.frames import FrameType, control
from tidings.testing.amqp_streams import (
    DETACH,
    END,
    LOG_IN,
    MESSAGE,
    TARGET,
    attach,
    flow,
    opened,
    transfer,
)

WELCOME = control(FrameType.WELCOME, {"publisher": 1, "broker": 1, "frame_max": 1 << 20, "heartbeat_ms": 0})


def held() -> int:
    """How many objects of Proton's Python holds."""
    gc.collect()
    return sum(type(one) in (Sender, Receiver, Delivery) for one in gc.get_objects())


def waiting() -> AmqpSession:
    """A session that has asked much of a broker which does not answer."""
    session = AmqpSession(Caller("", True, 1 << 20, lambda *_: True))
    session.receive(b"".join(LOG_IN), 0)
    session.frames(WELCOME, 0)
    browsing = ["queue://q", None, None, None, None, None, "copy"]
    for frame in (
        *opened()[len(LOG_IN) :],
        attach("out", 0, receives=False, source=[], target=Described(TARGET, ["a"])),
        attach("in", 1, receives=True, source=["a"], target=None),
        attach("look", 2, receives=True, source=browsing, target=None),
        attach("gone", 3, receives=True, source=["b"], target=None),
        flow(2, 5),
        transfer([uint(0), uint(0), b"0", uint(0), False], MESSAGE),
        amqp_frame(DETACH, [uint(3), True]),
    ):
        session.receive(frame, 0)
        session.take_output()
    return session


def test_what_waits_for_the_broker_holds_nothing_of_a_session_that_has_ended() -> None:
    """Proton would read what it has freed, were it let go of later: see `make fuzz`."""
    before = held()
    session = waiting()
    assert held() >= before + 5, "three links and one that ends, and a delivery"
    session.receive(amqp_frame(END, []), 0)
    assert held() == before


def test_a_lost_connection_holds_nothing() -> None:
    before = held()
    session = waiting()
    session.lost()
    assert held() == before
