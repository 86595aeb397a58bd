"""The correction δ: sent when needed, once, and right although messages are on their way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import RemoteProtocolError, UsageError
from tidings.model.message_id import MessageIdSource
from tidings.tracking.recording.clock_skew import Correction, SkewWatch


@given(
    st.integers(-(10**6), 10**6),
    st.lists(st.tuples(st.integers(1, 50), st.integers(-400, 400), st.integers(0, 5)), max_size=30),
)
def test_ids_stay_within_the_tolerance_once_a_correction_is_confirmed(
    offset: int, steps: list[tuple[int, int, int]]
) -> None:
    """A client whose clock is off and jumps; corrections reach it some messages later."""
    watch, now = SkewWatch(tolerance_ms=100), 10**9
    source = MessageIdSource(7, 1, watch.connect(now + offset, now).delta_ms)
    sent: list[tuple[int, Correction]] = []  # messages until it arrives
    for passed, jump, way in steps:
        now += passed
        offset += jump
        for _ in range(8):
            now += 500  # ids grow with the clock, so a jump back does not linger
            while sent and sent[0][0] == 0:
                correction = sent.pop()[1]
                source.adjust(correction.delta_ms)
                watch.confirm(correction.number)
            sent = [(left - 1, correction) for left, correction in sent]
            message = source.next(now + offset)
            assert message is not None
            if (correction_ := watch.observe(message.ms, now)) is not None:
                sent.append((way, correction_))
        assert message is not None
        assert abs(now - message.ms) <= 100
        assert source.delta_ms == watch.delta_ms


def test_within_tolerance_nothing_is_sent() -> None:
    watch = SkewWatch(100)
    watch.connect(0, 0)
    assert watch.observe(900, 1000) is None
    assert watch.observe(1100, 1000) is None
    assert watch.observe(899, 1000) == Correction(1, 101)
    assert watch.observe(700, 1000) is None  # on its way


def test_confirmations_are_checked() -> None:
    watch = SkewWatch(100)
    watch.connect(0, 0)
    for number in (0, 1):
        with pytest.raises(RemoteProtocolError, match="E_SKEW_CONFIRM"):
            watch.confirm(number)
    watch.observe(0, 1000)
    with pytest.raises(RemoteProtocolError, match="E_SKEW_CONFIRM"):
        watch.confirm(2)
    watch.confirm(1)
    assert watch.delta_ms == 1000
    with pytest.raises(UsageError, match="E_TRACKING_TIME"):
        SkewWatch(-1)
