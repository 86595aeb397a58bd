"""Who is checked next, and who is turned away when too many wait."""

from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.security.login_queue import FAIR_TAKES, REFUSED_MAX, LoginQueue

PUTS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=60)


def test_one_prefix_cannot_make_others_wait() -> None:
    queue = LoginQueue[str]()
    for number in range(50):
        assert queue.put(f"flood {number}", "10.0.0.0/24", proven=False) is None
    queue.put("somebody", "192.0.2.0/24", proven=False)
    assert "somebody" in [queue.take(), queue.take()]


def test_proven_clients_go_first_but_not_without_end() -> None:
    queue = LoginQueue[str]()
    for number in range(20):
        queue.put("stranger", f"10.0.{number}.0/24", proven=False)
    for _ in range(20):
        queue.put("proven", "192.0.2.0/24", proven=True)
    taken = [queue.take() for _ in range(4 * FAIR_TAKES)]
    assert taken.count("proven") == 3 * FAIR_TAKES
    assert taken[: FAIR_TAKES - 1] == ["proven"] * (FAIR_TAKES - 1)


def test_a_full_queue_turns_the_longest_prefix_away_and_never_a_proven_client_for_strangers() -> None:
    queue = LoginQueue[str](waiting_max=4)
    for number in range(3):
        assert queue.put(f"flood {number}", "flood", proven=False) is None
    assert queue.put("a", "a", proven=False) is None
    assert queue.put("known", "flood", proven=True) is None
    assert queue.put("b", "b", proven=False) == "flood 2"
    assert queue.put("c", "c", proven=False) == "flood 1"
    assert queue.put("d", "d", proven=False) == "d", "all have as many"
    assert {queue.take() for _ in range(6)} == {"known", "flood 0", "a", "b", "c", None}


@given(PUTS)
def test_nothing_is_lost_and_the_queue_is_bounded(puts: list[tuple[str, bool]]) -> None:
    queue = LoginQueue[int](waiting_max=5)
    shed = {queue.put(number, prefix, proven=proven) for number, (prefix, proven) in enumerate(puts)} - {None}
    assert len(queue) <= 10
    taken = [queue.take() for _ in range(len(queue))]
    assert queue.take() is None
    assert {*taken, *shed} == set(range(len(puts)))
    assert len(taken) + len(shed) == len(puts)


def test_prefixes_with_a_wrong_password_wait_behind_others_and_are_not_forgotten() -> None:
    queue = LoginQueue[str]()
    for stranger in range(60):
        queue.judged(f"s{stranger}", right=False)
        queue.put(f"wrong {stranger}", f"s{stranger}", proven=False)
    queue.put("new", "n", proven=False)
    taken = [queue.take() for _ in range(61)]
    assert taken[0] == "new"
    assert len(set(taken)) == 61, "all come"
    for number in range(40):
        queue.put("new", f"n{number}", proven=False)
    queue.put("wrong", "s1", proven=False)
    assert "wrong" in [queue.take() for _ in range(FAIR_TAKES**2)], "they wait, but not forever"
    while queue.take() is not None:
        pass
    queue.judged("s1", right=True)
    queue.put("wrong again", "s2", proven=False)
    queue.put("right again", "s1", proven=False)
    assert queue.take() == "right again"


def test_what_is_remembered_of_prefixes_is_bounded() -> None:
    queue = LoginQueue[str]()
    for number in range(REFUSED_MAX + 1):
        queue.judged(str(number), right=False)
    queue.put("remembered", "1", proven=False)
    queue.put("forgotten", "0", proven=False)
    assert queue.take() == "forgotten"
