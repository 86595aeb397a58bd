"""Publishers wait for subscribers and links far away, and nobody else does: brokers in virtual time."""

import pytest
from hardening.simulate.congestion import LOAD_MS, SETTLE_MS, CongestedNetwork, figures

from tidings.overlay.topology import generate as shapes


def network(*, push_back: bool = True) -> CongestedNetwork:
    """A line of four: a slow subscriber at the last, a quick one at the third; publishers for both at the first."""
    made = CongestedNetwork(1, shapes.line(4), push_back=push_back)
    made.brokers.calendar.run(until=SETTLE_MS)
    made.read(4, "slow", slow=True)
    made.read(3, "quick", slow=False)
    made.brokers.calendar.run(until=2 * SETTLE_MS)
    return made


@pytest.mark.parametrize("seed", [1, 3, 7, 13, 19])
def test_random_networks_of_full_links_and_slow_subscribers_lose_nothing_and_never_stand_still(seed: int) -> None:
    assert figures(seed)["deliveries"] > 0


def test_the_publisher_for_a_far_slow_subscriber_waits_and_others_keep_their_rate() -> None:
    alone, both = network(), network()
    for one in (alone, both):
        one.write(1, "quick")
    slow = both.write(1, "slow")
    for one in (alone, both):
        one.load(LOAD_MS)
    assert both.writers[0].sent >= 0.9 * alone.writers[0].sent
    assert slow.sent < alone.writers[0].sent / 2, "it waits"
    assert len(both.readers[1].numbers()) >= 0.9 * len(alone.readers[1].numbers())
    assert both.finish() == slow.sent + both.writers[0].sent


def test_persistent_messages_wait_too() -> None:
    made = network()
    made.write(1, "slow", persistent=True)
    made.load(LOAD_MS)
    assert made.finish() == made.writers[0].sent
    assert made.brokers.running()[1].forwarder.stats()["pushed_back"] > 0


def test_without_push_back_the_checkers_see_what_is_lost() -> None:
    made = network(push_back=False)
    made.write(1, "slow")
    made.load(LOAD_MS)
    with pytest.raises(AssertionError, match=r"nobody-waits-for-ever|nothing-lost"):
        made.finish(20_000)


def test_a_subscriber_that_takes_nothing_holds_up_nobody_for_long() -> None:
    made = network()
    made.write(1, "slow")
    made.load(LOAD_MS, slow_share=0.0)
    waited = made.writers[0].sent
    made.load(4 * LOAD_MS, slow_share=0.0)
    assert made.writers[0].sent > 2 * waited
