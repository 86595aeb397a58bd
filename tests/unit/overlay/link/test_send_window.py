import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay.link.send_window import SendQueue

steps = st.lists(st.tuples(st.sampled_from(["offer", "take", "credit"]), st.integers(0, 300)), max_size=60)


@given(steps)
def test_the_books_balance(steps: list[tuple[str, int]]) -> None:
    queue = SendQueue(window_bytes=200, high_bytes=400, low_bytes=100, bytes_max=600)
    accepted, sent, done = [], [], 0
    for what, size in steps:
        before = queue.paused
        if what == "offer":
            fits = queue.held_bytes + size <= 600
            assert queue.offer(size) == fits
            accepted += [size] if fits else []
            assert queue.paused == (before or (fits and queue.held_bytes > 400))
        elif what == "take":
            sent += queue.take()
            assert queue.in_flight_bytes <= max([200, *sent])  # the window, or a single message that is larger
        else:
            done += queue.credited(size)
            assert queue.paused == (before and queue.held_bytes > 100)
        assert accepted[: len(sent)] == sent  # in order, nothing lost
        assert queue.in_flight_bytes == sum(sent) - done
        assert queue.queued_bytes == sum(accepted) - sum(sent)
        assert queue.held_bytes <= 600


def test_a_message_larger_than_the_window_goes_alone() -> None:
    queue = SendQueue(window_bytes=10, high_bytes=100, low_bytes=0, bytes_max=100)
    assert [queue.offer(50), queue.offer(5)] == [True, True]
    assert queue.take() == [50]
    assert queue.take() == []
    queue.credited(50)
    assert queue.take() == [5]


def test_marks_in_the_wrong_order() -> None:
    with pytest.raises(UsageError, match="E_LINK_QUEUE"):
        SendQueue(high_bytes=10, low_bytes=20, bytes_max=30)
