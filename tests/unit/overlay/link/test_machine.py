from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay import effects as fx
from tidings.overlay.link.greeting import Goodbye, Greeting, LinkPing, Pong, Refuse, Welcome
from tidings.overlay.link.link_table import (
    LIVE,
    TRANSITIONS,
    LinkState,
    Trigger,
)
from tidings.overlay.link.machine import SEVERAL_BACKOFF_MAX_MS, Link, LinkOptions

OPTIONS = LinkOptions()
PEER = Greeting("net", 2, incarnation=5)
DOCS = Path(__file__).parents[4] / "docs" / "networks.md"


def dialling(seed: int = 0, options: LinkOptions = OPTIONS) -> Link:
    return Link("to:b", Greeting("net", 1, incarnation=1), options, Random(seed), address="b", expected=2)


def hear(link: Link, now: float, message: fx.ControlMessage) -> list[fx.LinkEffect]:
    return link.step(now, fx.Received(link.connection, message))


def bring_up(link: Link, now: float = 0.0) -> list[fx.LinkEffect]:
    if link.dialled:
        out = link.start(now) + link.step(now + 10, fx.Connected(link.connection))
        peer = PEER
    else:
        out = link.accept(now)
        peer = replace(PEER, dial=1)
    out += hear(link, now + 10, peer)
    return out + link.admit(now + 10) + hear(link, now + 20, Welcome())


def transmitted(effects: list[fx.LinkEffect]) -> list[fx.ControlMessage]:
    return [effect.message for effect in effects if isinstance(effect, fx.Transmit)]


def timer(effects: list[fx.LinkEffect]) -> float:
    return [effect.at for effect in effects if isinstance(effect, fx.SetTimer)][-1]


def test_coming_up_step_by_step() -> None:
    link = dialling()
    assert link.start(0.0) == [fx.Dial("to:b#1", "b"), fx.SetTimer("link to:b", 5000)]
    greeted = link.step(10.0, fx.Connected("to:b#1"))
    assert transmitted(greeted) == [Greeting("net", 1, 1, dial=1)]
    assert hear(link, 20.0, PEER) == [fx.Authenticate("to:b#1", 2)]
    assert transmitted(link.admit(20.0)) == [Welcome()]
    assert link.state not in LIVE  # the peer may still refuse
    up = hear(link, 30.0, Welcome())
    assert up[0] == fx.LinkUp(2, incarnation=5, latency_ms=5.0)  # connecting took 10 ms
    assert transmitted(up) == [LinkPing(30_000)]
    assert link.state is LinkState.UP


def test_the_accepting_side() -> None:
    link = Link("in:1", Greeting("net", 1, incarnation=1), OPTIONS, Random(0))
    out = bring_up(link)
    assert fx.LinkUp(2, 5, 5.0) in out
    assert link.dial == 1
    lost = link.step(50.0, fx.Lost("in:1", "reset"))
    assert lost == [fx.LinkDown(2, "reset")]  # and no attempt to dial
    assert link.state is LinkState.DOWN


def test_a_dial_that_is_refused_says_that_nobody_is_there() -> None:
    link = dialling()
    link.start(0.0)
    assert fx.NobodyThere("b") in link.step(1.0, fx.Lost(link.connection, "refused", refused=True))
    link.start(300.0)
    unreached = link.step(301.0, fx.Lost(link.connection, "no route"))
    assert not any(isinstance(effect, fx.NobodyThere) for effect in unreached)


def test_a_long_wait_to_dial_can_be_cut_short_but_not_to_nothing() -> None:
    link = dialling()
    bring_up(link)
    assert link.hasten(30.0) == []  # it is up
    hear(link, 30.0, Refuse("E_X", "because"))
    assert link.due_at is not None
    assert link.due_at > 10_000
    assert timer(link.hasten(40.0)) == 40 + OPTIONS.backoff_first_ms
    assert timer(link.hasten(100.0)) == 40 + OPTIONS.backoff_first_ms


def test_latency_is_smoothed_and_told_when_it_changes() -> None:
    link = dialling()
    bring_up(link)
    assert hear(link, 1010.0, Pong(1_000_000)) == []  # 10 ms again
    told = hear(link, 2100.0, Pong(2_000_000))  # 100 ms: an eighth of the way from 5 to 50
    assert told == [fx.LatencyChanged(2, 10.625)]
    assert hear(link, 2110.0, Pong(9_000_000)) == []  # from the future: not ours
    assert link.latency_ms == pytest.approx(10.625)


def test_what_changes_by_little_is_not_told_however_short_the_link() -> None:
    link = dialling(options=LinkOptions(latency_step_ms=6.0))
    bring_up(link)
    assert hear(link, 1010.0, Pong(1_000_000)) == []
    assert hear(link, 2100.0, Pong(2_000_000)) == []  # more than a quarter, but less than 6 ms
    assert link.latency_ms == pytest.approx(10.625)


def test_silence_makes_suspect_then_dead_and_an_answer_revives() -> None:
    link = dialling()
    at = timer(bring_up(link))
    states: list[tuple[float, LinkState]] = []
    while link.state in LIVE and at < 4000:
        out = link.step(at, fx.Timer("link to:b"))
        states.append((at, link.state))
        at = timer(out)
    assert (2520.0, LinkState.SUSPECT) in states  # suspect_ms after the welcome
    hear(link, 4000.0, Pong(3_990_000))
    assert link.state is LinkState.UP
    while link.state in LIVE:
        out = link.step(at, fx.Timer("link to:b"))
        at = timer(out)
    assert fx.LinkDown(2, "no progress while suspect", silent=True) in out
    assert fx.CloseLink("to:b#1", "timeout") in out
    late = dialling()
    bring_up(late)
    assert fx.CloseLink("to:b#1", "timeout") in late.step(99_999.0, fx.Timer("link to:b"))  # both deadlines missed


def tend(link: Link, at: float, until: float, sent_bytes: int, hears: bool) -> float:
    """Each time its timer rings, say what was carried, until that time or the link's end; when it rings next."""
    while link.state in LIVE and at < until:
        link.step(at, fx.Carried(link.connection, sent_bytes, round(at) // 50 if hears else 0))
        at = timer(link.step(at, fx.Timer("link to:b")))
    return at


def test_while_much_is_on_its_way_an_answer_may_take_long_if_the_peer_is_heard() -> None:
    link = dialling()
    at = tend(link, timer(bring_up(link)), until=30_000, sent_bytes=10_000_000, hears=True)
    assert link.state in LIVE
    assert hear(link, at, Pong(1_020_000))  # the first ping after what was written then: what a latency
    heard_at = at
    at = tend(link, at, until=60_000, sent_bytes=20_000_000, hears=False)
    assert link.state is LinkState.DOWN
    assert at <= heard_at + OPTIONS.dead_ms + OPTIONS.heartbeat_ms + OPTIONS.backoff_first_ms


def test_what_an_answered_ping_came_after_is_no_excuse() -> None:
    link = dialling()
    at = tend(link, timer(bring_up(link)), until=3000, sent_bytes=10_000_000, hears=True)
    hear(link, at, Pong(round(at * 1000)))
    assert tend(link, at, until=60_000, sent_bytes=10_000_000, hears=True) < at + OPTIONS.dead_ms + 1000
    assert link.state is LinkState.DOWN


def test_a_handshake_without_progress_ends() -> None:
    link = dialling()
    at = timer(link.start(0.0))
    assert fx.CloseLink("to:b#1", "timeout") in link.step(at, fx.Timer("link to:b"))
    assert link.state is LinkState.DOWN


@given(st.integers(0, 2**32))
def test_backoff_doubles_to_its_maximum_with_jitter(seed: int) -> None:
    link = dialling(seed)
    out = link.start(0.0)
    now = 0.0
    for attempt in range(12):
        link.step(now, fx.Lost(link.connection, "refused"))
        at = link.due_at
        assert at is not None
        wait = min(OPTIONS.backoff_max_ms, OPTIONS.backoff_first_ms * 2**attempt)
        assert wait / 2 <= at - now <= wait
        now = at
        out = link.step(now, fx.Timer("link to:b"))
        assert fx.Dial(f"to:b#{attempt + 2}", "b") in out


def test_a_mismatch_is_refused_with_its_code_and_not_retried_in_haste() -> None:
    link = dialling()
    link.start(0.0)
    link.step(1.0, fx.Connected(link.connection))
    out = hear(link, 2.0, replace(PEER, version=9))
    refusal = transmitted(out)[0]
    assert isinstance(refusal, Refuse)
    assert refusal.code == "E_LINK_VERSION"
    assert fx.CloseLink("to:b#1", "E_LINK_VERSION") in out
    assert link.due_at is not None
    assert link.due_at >= OPTIONS.backoff_max_ms / 2
    other = dialling()
    bring_up(other)
    assert fx.LinkDown(2, "E_X: because") in hear(other, 30.0, Refuse("E_X", "because"))


def test_goodbye_and_stop() -> None:
    link = dialling()
    bring_up(link)
    assert fx.LinkDown(2, "goodbye: tired") in hear(link, 30.0, Goodbye("tired"))
    link.start(40.0)
    assert link.stop(50.0, "enough")[0] == fx.CloseLink("to:b#2", "enough")
    assert (link.state, link.stop(60.0, "again")) == (LinkState.CLOSED, [])


@pytest.mark.parametrize("message", [Welcome(), LinkPing(1), Pong(1), fx.ControlMessage()])
def test_what_is_said_out_of_turn_ends_the_link(message: fx.ControlMessage) -> None:
    link = dialling()
    link.start(0.0)
    link.step(1.0, fx.Connected(link.connection))
    out = hear(link, 2.0, message)
    assert fx.CloseLink("to:b#1", "E_LINK_PROTOCOL") in out
    assert link.state is LinkState.DOWN


def test_messages_pass_when_up() -> None:
    link = dialling()
    bring_up(link)
    message = fx.ControlMessage()
    assert hear(link, 30.0, message) == [fx.Arrived(2, message)]
    assert transmitted(hear(link, 30.0, LinkPing(7))) == [Pong(7)]


def test_hearing_the_peer_is_not_enough() -> None:
    """Its pings prove only that it reaches us."""
    link = dialling()
    bring_up(link)
    for now in range(100, 7000, 100):
        hear(link, float(now), LinkPing(now))
        link.step(float(now), fx.Timer("link to:b"))
        if link.state not in LIVE:
            break
    assert now == 6100  # dead_ms after the welcome


MESSAGES = [PEER, replace(PEER, version=9), Welcome(), Refuse("E", "e"), Goodbye("g"), LinkPing(1)]


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 10)), max_size=40), st.integers(0, 99))
def test_whatever_the_peer_does_the_link_stays_alive(steps: list[tuple[float, int]], seed: int) -> None:
    link = dialling(seed)
    out = link.start(0.0)
    now, up, armed = 0.0, False, timer(out)
    for wait, choice in steps:
        now = min(now + wait, max(now, armed))  # timers ring in time
        if now == armed:
            out = link.step(now, fx.Timer("link to:b"))
        elif choice < len(MESSAGES) and link.state is not LinkState.CONNECTING:
            out = hear(link, now, MESSAGES[choice])
        elif choice == 7 and link.state is LinkState.CONNECTING:
            out = link.step(now, fx.Connected(link.connection))
        elif choice == 8 and link.state is LinkState.GREETING and link.peer and not link.admitted:
            out = link.admit(now)
        elif choice == 9:
            out = link.step(now, fx.Lost(link.connection, "cut"))
        else:
            out = hear(link, now, Pong(round(now * 1000))) if link.state in LIVE else []
        for effect in out:
            match effect:
                case fx.SetTimer(at=at):
                    armed = at
                case fx.LinkUp():
                    assert not up
                    up = True
                case fx.LinkDown():
                    assert up
                    up = False
                case fx.Transmit(connection=connection) | fx.CloseLink(connection=connection):
                    assert connection == link.connection
        assert up == (link.state in LIVE)
        assert link.due_at is not None  # never stuck
        assert armed <= link.due_at


def test_echoes_of_an_old_connection_are_ignored() -> None:
    link = dialling()
    bring_up(link)
    assert link.step(30.0, fx.Lost("to:b#0", "old")) == []
    assert link.step(30.0, fx.Received("to:b#0", Goodbye("old"))) == []
    assert link.state is LinkState.UP


def test_the_table_forbids_what_it_does_not_list() -> None:
    link = dialling()
    bring_up(link)
    with pytest.raises(UsageError, match="E_LINK_STATE"):
        link.step(30.0, fx.Connected(link.connection))
    with pytest.raises(UsageError, match="E_LINK_STATE"):
        link.accept(30.0)
    with pytest.raises(UsageError, match="E_LINK_STATE"):
        link.step(30.0, fx.LinkAccepted(link.connection))


def test_every_state_can_be_reached_and_left() -> None:
    reached = {to for row in TRANSITIONS.values() for to in row.values()} | {LinkState.DOWN}
    assert reached == set(LinkState)
    assert {trigger for row in TRANSITIONS.values() for trigger in row} == set(Trigger)
    assert all(Trigger.STOP in row for state, row in TRANSITIONS.items() if state is not LinkState.CLOSED)


def transitions_table() -> str:
    """The machine as a Markdown table, for docs/networks.md."""
    lines = ["| state | trigger | next |", "|---|---|---|"]
    for state, row in TRANSITIONS.items():
        lines += [f"| {state.name} | {trigger.name}: {trigger.value} | {to.name} |" for trigger, to in row.items()]
    return "\n".join(lines)


def transitions_diagram() -> str:
    """The machine as a Mermaid state diagram; triggers between the same two states share an arrow."""
    lines = ["stateDiagram-v2", "    [*] --> DOWN"]
    for state, row in TRANSITIONS.items():
        arrows: dict[LinkState, list[str]] = {}
        for trigger, to in row.items():
            arrows.setdefault(to, []).append(trigger.name)
        lines += [f"    {state.name} --> {to.name}: {', '.join(names)}" for to, names in arrows.items()]
    return "\n".join([*lines, "    CLOSED --> [*]"])


def test_the_documentation_prints_this_table() -> None:
    text = DOCS.read_text()
    assert transitions_table() in text
    assert transitions_diagram() in text


def test_several_addresses_are_tried_in_turn_and_one_that_was_live_first() -> None:
    link = Link("to:a,b", Greeting("net", 1, incarnation=1), OPTIONS, Random(1), address="a,b", expected=2)
    dialled, now, effects = list[str](), 0.0, link.start(0.0)
    for _ in range(40):
        dialled += [effect.address for effect in effects if isinstance(effect, fx.Dial)]
        now = timer(link.step(now + 1, fx.Lost(link.connection, "refused", refused=True)))
        assert link.due_at is not None
        assert link.due_at - now <= SEVERAL_BACKOFF_MAX_MS
        effects = link.step(now, fx.Timer("link to:a,b"))
    assert dialled == ["a", "b"] * 20
    link = Link("to:a,b", Greeting("net", 1, incarnation=1), OPTIONS, Random(1), address="a,b", expected=2)
    bring_up(link)
    at = timer(link.step(100.0, fx.Lost(link.connection, "gone")))
    (again,) = [one for one in link.step(at, fx.Timer("link to:a,b")) if isinstance(one, fx.Dial)]
    assert again.address == "a"
