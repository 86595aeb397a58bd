"""Links of two brokers against each other, over a wire that keeps order but takes any time it likes."""

from collections import deque
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay import effects as fx
from tidings.overlay.greeting import Greeting, Refuse, Welcome
from tidings.overlay.link import LinkOptions
from tidings.overlay.links import ACCEPTED_MAX, Links


class Pair:
    """Brokers 1 and 2; every connection is two queues, and `choose` decides which of all queues moves next."""

    def __init__(self, *parameters: tuple[tuple[str, str], ...]) -> None:
        given = parameters or ((), ())
        self.links = {
            str(n): Links(Greeting("net", n, incarnation=1, parameters=given[n - 1]), LinkOptions(), Random(n))
            for n in (1, 2)
        }
        self.queues: dict[tuple[str, str], deque[fx.Input]] = {}
        self.other: dict[tuple[str, str], tuple[str, str]] = {}
        self.seen: dict[str, list[fx.LinkEffect]] = {"1": [], "2": []}
        self.now = 0.0

    def do(self, who: str, effects: list[fx.LinkEffect]) -> None:
        for effect in effects:
            match effect:
                case fx.Dial(connection=connection, address=address):
                    here, there = (who, connection), (address, f"in:{len(self.other)}")
                    self.other[here], self.other[there] = there, here
                    self.queues[here] = deque([fx.Connected(connection)])
                    self.queues[there] = deque([fx.Accepted(there[1])])
                case fx.Transmit(connection=connection, message=message):
                    target = self.other.get((who, connection))
                    if target in self.queues:
                        assert target is not None
                        self.queues[target].append(fx.Received(target[1], message))
                case fx.Close(connection=connection, reason=reason):
                    self.queues.pop((who, connection), None)
                    target = self.other[who, connection]
                    if target in self.queues:
                        self.queues[target].append(fx.Lost(target[1], reason))
                case _:
                    self.seen[who].append(effect)

    def run(self, rng: Random) -> None:
        while True:
            waiting = [end for end, queue in self.queues.items() if queue]
            if not waiting:
                return
            end = rng.choice(waiting)
            told = self.queues[end].popleft()
            if isinstance(told, fx.Lost):
                del self.queues[end]
            self.now += 1
            self.do(end[0], self.links[end[0]].step(self.now, told))


@given(st.lists(st.sampled_from(["1", "2"]), min_size=1, max_size=2, unique=True), st.integers(0, 2**32))
def test_exactly_one_link_survives_whoever_dials(diallers: list[str], seed: int) -> None:
    pair = Pair()
    for who in diallers:
        pair.do(who, pair.links[who].dial(0.0, "2" if who == "1" else "1"))
    pair.run(Random(seed))
    assert [list(pair.links["1"].peers()), list(pair.links["2"].peers())] == [[2], [1]]
    assert len(pair.queues) == 2  # the two ends of one connection
    one, two = pair.links["1"].link(2), pair.links["2"].link(1)
    assert one is not None
    assert two is not None
    assert one.dialled != two.dialled
    if len(diallers) == 2:
        assert one.dialled  # the one that the smaller number dialled
    for who in ("1", "2"):
        changes = [type(effect) for effect in pair.seen[who] if isinstance(effect, fx.LinkUp | fx.LinkDown)]
        assert changes in ([fx.LinkUp], [fx.LinkUp, fx.LinkDown, fx.LinkUp])


def test_the_loser_is_not_dialled_again_while_the_winner_lives() -> None:
    pair = Pair()
    pair.do("1", pair.links["1"].dial(0.0, "2"))
    pair.do("2", pair.links["2"].dial(0.0, "1"))
    pair.run(Random(1))
    timers = [effect for effect in pair.seen["2"] if isinstance(effect, fx.SetTimer) and effect.name == "link to:1"]
    out = pair.links["2"].step(timers[-1].at, fx.Timer("link to:1"))
    assert [type(effect) for effect in out] == [fx.SetTimer]
    link = pair.links["2"].link(1)
    assert link is not None
    pair.links["2"].step(timers[-1].at, fx.Lost(link.connection, "cut"))
    assert fx.Dial("to:1#2", "1") in pair.links["2"].step(99_999.0, fx.Timer("link to:1"))


def test_a_restarted_peer_replaces_the_link_of_its_former_life() -> None:
    links = Links(Greeting("net", 1, incarnation=1), LinkOptions(), Random(0))
    ups = []
    for incarnation in (1, 2):
        name = f"in:{incarnation}"
        links.step(0.0, fx.Accepted(name))
        links.step(1.0, fx.Received(name, Greeting("net", 2, incarnation, dial=1)))
        ups.append(links.step(2.0, fx.Received(name, Welcome())))
    link = links.link(2)
    assert link is not None
    assert link.connection == "in:2"
    assert any(isinstance(effect, fx.LinkUp) and effect.incarnation == 2 for effect in ups[1])


def test_a_broker_refuses_itself_and_other_parameters() -> None:
    links = Links(Greeting("net", 1, incarnation=1), LinkOptions(), Random(0))
    links.step(0.0, fx.Accepted("in:1"))
    out = links.step(1.0, fx.Received("in:1", Greeting("net", 1, 1, dial=1)))
    refused = [effect.message for effect in out if isinstance(effect, fx.Transmit)]
    assert [message.code for message in refused if isinstance(message, Refuse)] == ["E_LINK_SELF"]
    pair = Pair((("bits", "256"),), (("bits", "512"),))
    pair.do("1", pair.links["1"].dial(0.0, "2"))
    pair.run(Random(0))
    assert list(pair.links["1"].peers()) == []
    assert any(isinstance(effect, fx.Report) and "bits" in effect.reason for effect in pair.seen["1"])


@pytest.mark.parametrize("welcome", [True, False])
def test_authentication_decides(welcome: bool) -> None:
    links = Links(Greeting("net", 1, incarnation=1), LinkOptions(), Random(0), authenticate=True)
    links.step(0.0, fx.Accepted("in:1"))
    asked = links.step(1.0, fx.Received("in:1", Greeting("net", 2, 1, dial=1)))
    assert asked == [fx.Authenticate("in:1", 2)]
    answer = fx.Authenticated("in:1") if welcome else fx.Denied("in:1", "E_AUTH", "no such key")
    out = links.step(2.0, answer)
    assert (fx.Close("in:1", "E_AUTH") in out) != welcome
    assert links.step(3.0, answer) == []  # said twice


def test_limits_and_names() -> None:
    links = Links(Greeting("net", 1, incarnation=1), LinkOptions(), Random(0))
    for number in range(ACCEPTED_MAX):
        links.step(0.0, fx.Accepted(f"in:{number}"))
    assert links.step(0.0, fx.Accepted("in:more")) == [fx.Close("in:more", "E_LINK_LIMIT")]
    with pytest.raises(UsageError, match="E_LINK_STATE"):
        links.step(0.0, fx.Accepted("in:1"))
    links.dial(0.0, "b")
    with pytest.raises(UsageError, match="E_LINK_STATE"):
        links.dial(0.0, "b")
    assert links.step(0.0, fx.Timer("link gone")) == []
    assert links.send(9, Refuse("E", "e")) == []


def test_stop_says_goodbye_to_all() -> None:
    pair = Pair()
    pair.do("1", pair.links["1"].dial(0.0, "2"))
    pair.run(Random(0))
    pair.do("1", pair.links["1"].stop(50.0, "maintenance"))
    pair.run(Random(0))
    assert list(pair.links["2"].peers()) == []
    assert fx.LinkDown(1, "goodbye: maintenance") in pair.seen["2"]
