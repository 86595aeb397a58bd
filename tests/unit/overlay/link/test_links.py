"""Links of two brokers against each other, over a wire that keeps order but takes any time it likes."""

from collections import deque
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay import effects as fx
from tidings.overlay.link.greeting import Goodbye, Greeting, LinkPing, Pong, Refuse, Welcome
from tidings.overlay.link.links import ACCEPTED_MAX, Links
from tidings.overlay.link.machine import LinkOptions


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
                    self.queues[there] = deque([fx.LinkAccepted(there[1])])
                case fx.Transmit(connection=connection, message=message):
                    target = self.other.get((who, connection))
                    if target in self.queues:
                        assert target is not None
                        self.queues[target].append(fx.Received(target[1], message))
                case fx.CloseLink(connection=connection, reason=reason):
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


def greeted(links: Links, now: float, name: str, incarnation: int) -> list[fx.LinkEffect]:
    """An incarnation of broker 2 dials broker 1, greets it and welcomes it."""
    out = links.step(now, fx.LinkAccepted(name))
    out += links.step(now, fx.Received(name, Greeting("net", 2, incarnation, dial=1)))
    return out + links.step(now, fx.Received(name, Welcome()))


def linked(*incarnations: int) -> Links:
    links = Links(Greeting("net", 1, incarnation=1), LinkOptions(), Random(0))
    assert any(isinstance(effect, fx.LinkUp) for effect in greeted(links, 0.0, "in:1", incarnations[0]))
    for number, incarnation in enumerate(incarnations[1:], 2):
        greeted(links, 10.0, f"in:{number}", incarnation)
    return links


def pings(effects: list[fx.LinkEffect], connection: str) -> list[LinkPing]:
    found = [one.message for one in effects if isinstance(one, fx.Transmit) and one.connection == connection]
    return [message for message in found if isinstance(message, LinkPing)]


@pytest.mark.parametrize("incarnation", [2, 9])
def test_a_restarted_peer_replaces_the_silent_link_of_its_former_life(incarnation: int) -> None:
    """Also one that lost its memory and whose clock was set back."""
    links = linked(5, incarnation)
    old = links.link(2)
    assert old is not None
    assert old.connection == "in:1"  # it may still be there
    out = links.step(LinkOptions().suspect_ms, fx.Timer("link in:1"))
    assert fx.CloseLink("in:1", "E_LINK_DUPLICATE") in out
    assert [(one.peer, one.incarnation) for one in out if isinstance(one, fx.LinkUp)] == [(2, incarnation)]
    assert not any(isinstance(effect, fx.Report) and effect.code.startswith("E_") for effect in out)


def test_a_restarted_peer_is_linked_as_soon_as_its_former_link_is_lost() -> None:
    links = linked(1, 2)
    out = links.step(11.0, fx.Lost("in:1", "reset"))
    assert [type(one) for one in out if isinstance(one, fx.LinkUp | fx.LinkDown)] == [fx.LinkDown, fx.LinkUp]


@pytest.mark.parametrize("incarnation", [2, 9])
def test_who_has_the_number_of_a_peer_that_answers_is_refused_and_both_are_told(incarnation: int) -> None:
    links = linked(5)
    asked = greeted(links, 20.0, "in:2", incarnation)
    (ping,) = pings(asked, "in:1")
    links.step(20.5, fx.Received("in:1", Pong(19_000)))  # an answer to what was asked before proves nothing
    out = links.step(21.0, fx.Received("in:1", Pong(ping.sent_us)))
    assert fx.CloseLink("in:2", "E_LINK_NUMBER") in out
    (told,) = [one for one in out if isinstance(one, fx.Report) and one.code == "E_LINK_NUMBER"]
    assert "the number 2 is used twice" in told.reason
    link = links.link(2)
    assert link is not None
    assert link.connection == "in:1"
    twin = Links(Greeting("net", 2, incarnation), LinkOptions(), Random(0))
    twin.dial(0.0, "one")
    twin.step(1.0, fx.Connected("to:one#1"))
    (refusal,) = [one.message for one in out if isinstance(one, fx.Transmit) and one.connection == "in:2"]
    heard = twin.step(2.0, fx.Received("to:one#1", refusal))
    assert "E_LINK_NUMBER" in [one.code for one in heard if isinstance(one, fx.Report)]


def test_brokers_that_were_set_up_differently_are_told_at_both_ends() -> None:
    one = Links(Greeting("net", 1, 1, parameters=(("routing", "bdrp"),)), LinkOptions(), Random(0))
    one.step(0.0, fx.LinkAccepted("in:1"))
    theirs = Greeting("net", 2, 1, dial=1, parameters=(("routing", "flooding"),))
    out = one.step(1.0, fx.Received("in:1", theirs))
    other = Links(theirs, LinkOptions(), Random(0))
    other.dial(0.0, "one")
    other.step(1.0, fx.Connected("to:one#1"))
    (refusal,) = [told.message for told in out if isinstance(told, fx.Transmit) and isinstance(told.message, Refuse)]
    for heard in (out, other.step(2.0, fx.Received("to:one#1", refusal))):
        codes = [told.code for told in heard if isinstance(told, fx.Report)]
        assert codes == ["E_LINK_PARAMETER", "LINK_DOWN"], "a code that begins with E_ is logged as a warning"


def test_brokers_with_another_hops_max_are_linked_with_a_warning_at_both_ends() -> None:
    codes = []
    for mine, theirs in (("32", "8"), ("8", "32"), ("32", "32")):
        links = Links(Greeting("net", 1, 1, parameters=(("hops_max", mine),)), LinkOptions(), Random(0))
        links.step(0.0, fx.LinkAccepted("in:1"))
        out = links.step(1.0, fx.Received("in:1", Greeting("net", 2, 1, dial=1, parameters=(("hops_max", theirs),))))
        out += links.step(2.0, fx.Received("in:1", Welcome()))
        assert fx.LinkUp in map(type, out)
        codes.append([told.code for told in out if isinstance(told, fx.Report)])
    assert codes == [["E_LINK_DIFFERS"], ["E_LINK_DIFFERS"], []]


@pytest.mark.parametrize("code", ["E_LINK_NUMBER", "E_LINK_NETWORK", "E_MADE_UP"])
def test_the_words_of_who_came_in_are_not_passed_on(code: str) -> None:
    refusal = Refuse(code, "give this broker another id " * 40)
    links = Links(Greeting("net", 1, 1), LinkOptions(), Random(0), authenticate=True)
    links.step(0.0, fx.LinkAccepted("in:1"))
    links.step(0.0, fx.LinkAccepted("in:2"))
    said = [
        *links.step(1.0, fx.Received("in:1", refusal)),
        *links.step(1.0, fx.Received("in:2", Goodbye("another id"))),
    ]
    reports = [told for told in said if isinstance(told, fx.Report)]
    assert [told.code for told in reports] == ["LINK_DOWN" if code == "E_MADE_UP" else code, "LINK_DOWN"]
    assert all(told.stranger and "another id" not in told.reason for told in reports)
    links.dial(2.0, "other")
    links.step(2.0, fx.Connected("to:other#1"))
    reports = [told for told in links.step(3.0, fx.Received("to:other#1", refusal)) if isinstance(told, fx.Report)]
    assert all(not told.stranger and "another id" in told.reason and len(told.reason) < 300 for told in reports)


def test_of_two_connections_of_a_restarted_peer_one_waits() -> None:
    links = linked(1, 2)
    out = links.step(12.0, fx.LinkAccepted("in:3"))
    out += links.step(12.0, fx.Received("in:3", Greeting("net", 2, 2, dial=7)))  # the later attempt
    assert fx.CloseLink("in:2", "E_LINK_DUPLICATE") in out
    links.step(12.0, fx.Received("in:3", Welcome()))
    links.step(13.0, fx.Lost("in:1", "reset"))
    link = links.link(2)
    assert link is not None
    assert link.connection == "in:3"


def test_a_broker_refuses_itself_and_other_parameters() -> None:
    links = Links(Greeting("net", 1, incarnation=1), LinkOptions(), Random(0))
    links.step(0.0, fx.LinkAccepted("in:1"))
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
    links.step(0.0, fx.LinkAccepted("in:1"))
    asked = links.step(1.0, fx.Received("in:1", Greeting("net", 2, 1, dial=1)))
    assert asked == [fx.Authenticate("in:1", 2)]
    answer = fx.Authenticated("in:1") if welcome else fx.Denied("in:1", "E_AUTH", "no such key")
    out = links.step(2.0, answer)
    assert (fx.CloseLink("in:1", "E_AUTH") in out) != welcome
    assert links.step(3.0, answer) == []  # said twice


def test_limits_and_names() -> None:
    links = Links(Greeting("net", 1, incarnation=1), LinkOptions(), Random(0))
    for number in range(ACCEPTED_MAX):
        links.step(0.0, fx.LinkAccepted(f"in:{number}"))
    assert links.step(0.0, fx.LinkAccepted("in:more")) == [fx.CloseLink("in:more", "E_LINK_LIMIT")]
    with pytest.raises(UsageError, match="E_LINK_STATE"):
        links.step(0.0, fx.LinkAccepted("in:1"))
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
