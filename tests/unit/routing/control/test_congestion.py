from tidings.routing.control.congestion import EXPIRE_MS, REPEAT_MS, Congestion
from tidings.routing.control.messages import Congested


def line(router: int) -> Congestion:
    """A broker of the line 1 to 5."""
    congestion = Congestion(router)
    congestion.routed({other: router + (1 if other > router else -1) for other in range(1, 6) if other != router})
    return congestion


def test_news_of_a_full_subscriber_runs_back_along_the_path_and_no_further() -> None:
    five, four, three = line(5), line(4), line(3)
    [(to, notice)] = five.notices(0.0, [4], here=True, full=[])
    assert (to, notice) == (4, Congested((5,)))
    four.heard(0.0, 5, notice.routers)
    assert four.waiting(0.0) == [5]
    [(to, notice)] = four.notices(0.0, [3, 5], here=False, full=[])
    assert (to, notice) == (3, Congested((5,)))
    three.heard(0.0, 4, notice.routers)
    assert three.waiting(0.0) == [5]


def test_a_full_link_holds_those_whose_messages_take_it() -> None:
    three = line(3)
    assert three.notices(0.0, [2, 4], here=False, full=[4]) == [(2, Congested((4, 5)))]
    assert three.waiting(0.0) == [], "publishers here wait for the link itself"
    two = line(2)
    two.heard(0.0, 3, (4, 5))
    assert two.waiting(0.0) == [4, 5]
    two.routed({1: 1, 3: 3, 4: 1, 5: 3})
    assert two.waiting(0.0) == [5], "4 is reached by another way now"


def test_it_is_repeated_taken_back_and_forgotten() -> None:
    three = line(3)
    assert three.notices(0.0, [2], here=True, full=[]) == [(2, Congested((3,)))]
    assert three.notices(REPEAT_MS / 2, [2], here=True, full=[]) == []
    assert three.notices(REPEAT_MS, [2], here=True, full=[]) == [(2, Congested((3,)))]
    assert three.notices(REPEAT_MS + 1, [2], here=False, full=[]) == [(2, Congested(()))]
    assert three.notices(9 * REPEAT_MS, [2], here=False, full=[]) == []
    two = line(2)
    two.heard(0.0, 3, (3,))
    assert two.waiting(EXPIRE_MS - 1) == [3]
    assert two.waiting(EXPIRE_MS) == []
    two.heard(0.0, 3, (3,))
    two.link_down(3)
    assert two.waiting(0.0) == []
