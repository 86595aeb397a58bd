"""Floods against each other over wires that lose messages: repetition and summaries must make up for it."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.overlay.topology.generate import barabasi_albert
from tidings.overlay.topology.graph import Graph
from tidings.routing.control import flood as flood_module
from tidings.routing.control.flood import LOG_ITEMS_MAX, LOG_ITEMS_MIN, Flood, FloodOptions
from tidings.routing.control.messages import FloodAck, FloodItem, FloodSummary, Known, VectorRequest, Version
from tidings.routing.effects import Deliver, Effect, Report, Send, SetTimer

TOPIC = 200


class Net:
    """Wires keep order and take 1 ms; each message is lost with a given probability."""

    def __init__(self, graph: Graph, rng: Random, loss: float) -> None:
        self.rng, self.loss, self.now = rng, loss, 0.0
        self.floods = {int(node): Flood(int(node), incarnation=1) for node in graph}
        self.state: dict[int, dict[int, bytes]] = {int(node): {} for node in graph}
        self.timers: dict[int, float] = {}
        self.inbox: list[tuple[int, Send]] = []
        self.messages = 0
        for edge in graph.edges():
            self.link(int(edge.a), int(edge.b))

    def link(self, a: int, b: int) -> None:
        self.do(a, self.floods[a].link_up(self.now, b))
        self.do(b, self.floods[b].link_up(self.now, a))

    def do(self, node: int, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.messages += 1
                    self.inbox.append((node, effect))
                case SetTimer(at=at):
                    self.timers[node] = at
                case Deliver(origin=origin, full=full, payload=payload):
                    if payload is None:
                        del self.state[node][origin]
                    else:
                        before = b"" if full else self.state[node][origin]
                        self.state[node][origin] = before + payload

    def run(self, until: float) -> None:
        while self.now < until:
            self.now += 1
            batch, self.inbox = self.inbox, []
            for source, send in batch:
                if self.rng.random() >= self.loss:
                    self.do(send.neighbour, self.floods[send.neighbour].receive(self.now, source, send.message))
            for node, at in list(self.timers.items()):
                if at <= self.now:
                    del self.timers[node]
                    self.do(node, self.floods[node].tick(self.now))


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(2, 7), st.sampled_from([0.0, 0.3]))
def test_all_learn_the_latest_state_of_all_despite_loss(seed: int, size: int, loss: float) -> None:
    rng = Random(seed)
    net = Net(barabasi_albert(size, rng), rng, loss)
    whole = dict.fromkeys(net.floods, b"")
    for step in range(12):
        node = rng.randint(1, size)
        if rng.random() < 0.7 and whole[node]:
            difference = b"+%d" % step
            whole[node] += difference
            net.do(node, net.floods[node].publish(net.now, TOPIC, whole[node], difference))
        else:
            whole[node] = b"%d:%d" % (node, step)
            net.do(node, net.floods[node].publish(net.now, TOPIC, whole[node]))
        net.run(net.now + rng.choice((0, 1, 5, 700)))
    net.run(net.now + 8000 if loss else net.now + 50)
    for node in net.floods:
        assert net.state[node] == {one: state for one, state in whole.items() if state and one != node}
    before = net.messages
    net.run(net.now + 3000)
    assert net.messages <= before + 2 * size * 2  # summaries at most: nothing is repeated for ever


def chain() -> tuple[Flood, Flood]:
    a, b = Flood(1, incarnation=1), Flood(2, incarnation=1)
    a.link_up(0.0, 2)
    b.link_up(0.0, 1)
    return a, b


def sent(effects: list[Effect]) -> list[object]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def test_an_item_is_repeated_until_acknowledged() -> None:
    a, b = chain()
    item = sent(a.publish(0.0, TOPIC, b"x"))
    assert len(item) == 1
    assert sent(a.tick(499.0)) == []
    again = sent(a.tick(500.0))
    assert isinstance(again[0], FloodItem)
    assert again[0].lifetime_ms == 89_500
    out = b.receive(510.0, 1, again[0])
    assert Deliver(TOPIC, 1, True, b"x") in out
    ack = sent(out)[0]
    assert ack == FloodAck(TOPIC, 1, Version(1, 1))
    assert a.receive(520.0, 2, ack) == []
    assert sent(a.tick(5000.0)) == []


def test_a_gap_is_noticed_and_closed() -> None:
    a, b = chain()
    sent(a.publish(0.0, TOPIC, b"x"))
    (second,) = sent(a.publish(1.0, TOPIC, b"xy", b"y"))
    assert isinstance(second, FloodItem)
    asked = sent(b.receive(2.0, 1, second))
    assert asked == [FloodSummary((Known(TOPIC, 1, Version(0, 0)),), whole=False)]
    a.receive(2.5, 2, FloodAck(TOPIC, 1, Version(0, 0)))
    late = [item for item in sent(a.tick(600.0)) if isinstance(item, FloodItem)]
    assert [item.payload for item in late] == [b"x", b"y"]
    delivered = [e for item in late for e in b.receive(601.0, 1, item) if isinstance(e, Deliver)]
    assert [(one.full, one.payload) for one in delivered] == [(True, b"x"), (False, b"y")]


def test_state_of_a_vanished_router_dies_out_everywhere_and_no_copy_revives_it() -> None:
    net = Net(barabasi_albert(4, Random(1)), Random(1), 0.0)
    net.do(1, net.floods[1].publish(0.0, TOPIC, b"here"))
    net.run(50)
    assert all(1 in net.state[node] for node in (2, 3, 4))
    net.timers.pop(1)  # 1 falls silent: it renews nothing
    for node in (2, 3, 4):
        net.do(node, net.floods[node].link_down(net.now, 1))
    net.run(net.now + 85_000)
    assert all(1 in net.state[node] for node in (2, 3, 4))
    net.run(net.now + 6_000)
    assert all(1 not in net.state[node] for node in (2, 3, 4))


def test_a_renewed_state_lives_on_at_the_cost_of_an_empty_difference() -> None:
    net = Net(barabasi_albert(3, Random(1)), Random(1), 0.0)
    net.do(1, net.floods[1].publish(0.0, TOPIC, b"here"))
    net.run(200_000)
    assert net.state[2] == net.state[3] == {1: b"here"}
    assert net.floods[3].state(TOPIC)[1].sequence > 5


def test_a_new_life_overrules_the_former_one() -> None:
    a, b = chain()
    for message in sent(a.publish(0.0, TOPIC, b"old")) + sent(a.publish(0.0, TOPIC, b"old2")):
        assert isinstance(message, FloodItem)
        b.receive(1.0, 1, message)
    b.link_down(2.0, 1)
    a = Flood(1, incarnation=2)
    a.link_up(3.0, 2)
    (new,) = sent(a.publish(3.0, TOPIC, b"new"))
    summary = sent(b.link_up(3.0, 1))[0]
    assert isinstance(summary, FloodSummary)
    assert isinstance(new, FloodItem)
    assert Deliver(TOPIC, 1, True, b"new") in b.receive(4.0, 1, new)
    echo = FloodItem(TOPIC, 1, Version(1, 2), 1000, True, b"old2")
    assert not any(isinstance(effect, Report) for effect in a.receive(5.0, 2, echo))


def codes(effects: list[Effect]) -> list[str]:
    return [effect.code for effect in effects if isinstance(effect, Report)]


def test_what_someone_else_said_in_our_name_is_reported_and_overruled_at_once() -> None:
    a, b = chain()
    a.publish(0.0, TOPIC, b"mine")
    a.publish(0.0, TOPIC + 1, b"more")
    b.receive(0.0, 1, FloodItem(TOPIC, 1, Version(7, 3), 90_000, True, b"not me"))
    out = a.receive(1.0, 2, FloodItem(TOPIC, 1, Version(7, 3), 90_000, True, b"not me"))
    assert codes(out) == ["E_FLOOD_IDENTITY"]
    assert a.incarnation == 8
    said = [message for message in sent(out) if isinstance(message, FloodItem)]
    assert [(item.topic, item.full, item.payload) for item in said] == [
        (TOPIC, True, b"mine"),
        (TOPIC + 1, True, b"more"),
    ]
    assert Deliver(TOPIC, 1, True, b"mine") in b.receive(2.0, 1, said[0])


def test_of_two_with_one_number_the_newcomer_knows_that_it_is_one() -> None:
    graph = Graph()
    graph.add(1, 2)
    net = Net(graph, Random(1), loss=0.0)
    net.do(1, net.floods[1].publish(0.0, TOPIC, b"was here before"))
    net.run(until=50)
    newcomer = Flood(1, incarnation=1_000_000)
    newcomer.link_up(net.now, 2)
    assert not newcomer.contested_until > net.now
    own = FloodItem(TOPIC, 1, Version(1_000_000, 1), 90_000, True, b"newcomer")
    answers = net.floods[1].receive(net.now, 2, own)
    [overruled] = {
        effect.message.version
        for effect in answers
        if isinstance(effect, Send) and isinstance(effect.message, FloodItem)
    }
    assert overruled > own.version
    newcomer.receive(net.now, 2, FloodItem(TOPIC, 1, overruled, 90_000, True, b"was here before"))
    assert newcomer.contested_until > net.now
    assert not net.floods[1].contested_until > net.now


def test_after_it_overruled_a_router_goes_on_by_differences() -> None:
    net = Net(barabasi_albert(3, Random(1)), Random(1), 0.0)
    net.do(1, net.floods[1].publish(0.0, TOPIC, b"mine"))
    net.run(10)
    stranger = FloodItem(TOPIC, 1, Version(7, 3), 90_000, True, b"not me")
    net.do(2, net.floods[2].receive(net.now, next(iter(net.floods[2]._unacked)), stranger))
    net.run(net.now + 20)
    net.do(1, net.floods[1].publish(net.now, TOPIC, b"mine+", b"+"))
    net.run(net.now + 20)
    assert net.state[2] == net.state[3] == {1: b"mine+"}
    assert net.floods[3].state(TOPIC)[1].incarnation == 8


def test_two_with_the_same_number_do_not_race_and_the_one_that_stays_has_the_last_word() -> None:
    """1 and its twin are both linked to 2; the twin is 9 here, and speaks as 1."""
    net = Net(Graph(), Random(1), 0.0)
    net.floods = {1: Flood(1, incarnation=1), 9: Flood(1, incarnation=5), 2: Flood(2, incarnation=1)}
    net.state = {1: {}, 2: {}, 9: {}}
    net.link(1, 2)
    net.link(9, 2)
    for node in (1, 9):
        net.do(node, net.floods[node].publish(0.0, TOPIC, b"%d" % node))
    net.run(60_000)
    assert net.floods[1].incarnation < 30  # once in five seconds each
    net.do(2, net.floods[2].link_down(net.now, 9))
    del net.timers[9]
    net.run(net.now + 6_000)
    assert net.state[2] == {1: b"1"}


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flood_module, "ITEMS_MAX", 1)
    a, b = chain()
    assert Deliver(TOPIC, 3, True, b"x") in b.receive(0.0, 1, FloodItem(TOPIC, 3, Version(1, 1), 1000, True, b"x"))
    out = b.receive(0.0, 1, FloodItem(TOPIC, 4, Version(1, 1), 1000, True, b"x"))
    assert [effect.code for effect in out if isinstance(effect, Report)] == ["E_FLOOD_LIMIT"]
    with pytest.raises(UsageError, match="E_FLOOD_MESSAGE"):
        a.receive(0.0, 2, VectorRequest(1, Version(1, 1), 1))
    assert a.receive(0.0, 9, FloodAck(TOPIC, 1, Version(1, 1))) == []  # no neighbour


def fulls(flood: Flood, differences: int, whole: bytes, difference: bytes) -> int:
    found = 0
    for number in range(differences + 1):
        for message in sent(flood.publish(float(number), TOPIC, whole, difference)):
            assert isinstance(message, FloodItem)
            found += message.full
    return found


def test_many_differences_become_a_full_state_again() -> None:
    assert fulls(chain()[0], 199, b"whole", b"d") == 1 + 199 // LOG_ITEMS_MIN, "they take more bytes than it"
    assert fulls(chain()[0], 199, bytes(200), b"d") == 1, "they take fewer"
    assert fulls(chain()[0], LOG_ITEMS_MAX, b"whole", b"") == 2, "however small they are"
    assert FloodOptions().renew_ms * 2 < FloodOptions().lifetime_ms
