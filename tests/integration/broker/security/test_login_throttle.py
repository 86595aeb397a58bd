from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.security.login_throttle import Throttle

TRIES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.booleans(), st.floats(0, 100)), max_size=60
)


def test_the_wait_doubles_up_to_the_maximum() -> None:
    throttle = Throttle(failures_max=3, lock_seconds=1, lock_seconds_max=5)
    waits = []
    for _ in range(7):
        throttle.failed(100, "alice", "10.0.0.1")
        waits.append(throttle.wait_seconds(100, "alice", "10.0.0.1"))
    assert waits == [0, 0, 1, 2, 4, 5, 5]
    assert throttle.wait_seconds(104.5, "alice", "10.0.0.1") == 0.5
    assert throttle.wait_seconds(105, "alice", "10.0.0.1") == 0


def test_user_and_address_are_counted_apart() -> None:
    throttle = Throttle(failures_max=1)
    throttle.failed(0, "alice", "10.0.0.1")
    assert throttle.wait_seconds(0, "alice", "10.0.0.2") > 0
    assert throttle.wait_seconds(0, "bob", "10.0.0.1") > 0
    assert throttle.wait_seconds(0, "bob", "10.0.0.2") == 0


def test_logins_that_name_no_user_count_for_their_address_only() -> None:
    """As logins by token do: otherwise forged tokens from one address would lock out all who have one."""
    throttle = Throttle(failures_max=1)
    throttle.failed(0, "", "10.6.6.6")
    assert throttle.wait_seconds(0, "", "10.6.6.6") > 0
    assert throttle.wait_seconds(0, "", "10.0.0.1") == 0


def test_a_stranger_cannot_lock_out_who_was_there_before() -> None:
    throttle = Throttle(failures_max=1)
    throttle.succeeded("alice", "10.0.0.1")
    throttle.failed(0, "alice", "10.6.6.6")
    assert throttle.wait_seconds(0, "alice", "10.0.0.1") == 0
    assert throttle.wait_seconds(0, "alice", "10.0.0.2") > 0


def test_not_even_one_who_shares_the_address() -> None:
    """As all who come through one proxy or console do."""
    throttle = Throttle(failures_max=1)
    throttle.succeeded("alice", "10.0.0.1")
    throttle.failed(0, "mallory", "10.0.0.1")
    assert throttle.wait_seconds(0, "alice", "10.0.0.1") == 0
    assert throttle.wait_seconds(0, "mallory", "10.0.0.1") > 0
    assert throttle.wait_seconds(0, "bob", "10.0.0.1") > 0
    throttle.failed(0, "alice", "10.0.0.1")
    assert throttle.wait_seconds(0, "alice", "10.0.0.1") > 0


def test_an_account_of_ones_own_gives_no_guesses_at_anothers() -> None:
    """Not even at an address from which the other logs in too."""
    throttle = Throttle(failures_max=3, lock_seconds=100)
    throttle.succeeded("alice", "10.0.0.1")
    guesses = 0
    for _ in range(20):
        throttle.succeeded("mallory", "10.0.0.1")
        if throttle.wait_seconds(0, "alice", "10.0.0.1") == 0:
            throttle.failed(0, "alice", "10.0.0.1")
            guesses += 1
    assert guesses == 3
    assert throttle.wait_seconds(0, "mallory", "10.0.0.1") == 0


@given(TRIES)
def test_nobody_waits_without_failures_or_longer_than_the_maximum(tries: list[tuple[str, str, bool, float]]) -> None:
    throttle = Throttle(failures_max=2, lock_seconds_max=30)
    failed: set[str] = set()
    now = 0.0
    for user, address, right, pause in tries:
        now += pause
        wait = throttle.wait_seconds(now, user, address)
        assert 0 <= wait <= 30
        assert wait == 0 or {user, address} & failed
        if right:
            throttle.succeeded(user, address)
            assert throttle.wait_seconds(now, user, address) == 0
        else:
            throttle.failed(now, user, address)
            failed |= {user, address}


def test_memory_is_bounded() -> None:
    throttle = Throttle(entries_max=10)
    for number in range(1000):
        throttle.failed(0, f"user{number}" * 1000, f"address{number}")
        throttle.succeeded(f"friend{number}", f"home{number}")
    assert len(throttle) <= 30
