"""Hermes at one broker, by hand: what clients may ask for, what they are told, and what goes to neighbours."""

import pytest

from tidings.errors import UsageError
from tidings.kernel.codec import encode_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.event_type import AttributeType, EventType
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.messages import (
    HermesEffect,
    HermesHandOver,
    HermesPublication,
    HermesSafe,
    HermesSubscriptionId,
    InterestKind,
    Request,
    RequestDone,
    Send,
    Settled,
    Tell,
    Untell,
    Verb,
)
from tidings.routing.hermes.tables import ALWAYS

TICK = EventType("tick", None, {"price": AttributeType.INT})
BOND = EventType("bond", "tick", {"years": AttributeType.INT})
UP = 9
ID = HermesSubscriptionId(1, 1)


def broker(up: int | None = UP) -> Hermes:
    machine = Hermes(1, hash, lambda key: up, HermesOptions(settle_ms=0))
    machine.start(0.0)
    machine.registry.own((TICK,))
    machine.registry.use("tick")  # the rendezvous node knows that clients here use it: nobody is asked
    return machine


def over(low: int) -> Predicate:
    return Predicate.of(Constraint("price", Op.GT, low))


def told(effects: list[HermesEffect]) -> list[object]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def event(price: int) -> bytes:
    return encode_message(Message(Destination.parse("tick"), {"price": price}))


def test_a_covered_subscription_is_not_passed_on_and_comes_back_when_its_cover_goes() -> None:
    machine = broker()
    lifetime = round(machine.options.lifetime_ms)
    wide, narrow = over(10), over(20)
    assert told(machine.subscribe(0, 1, ID, "tick", wide)) == [Tell("tick", InterestKind.FILTER, wide, lifetime)]
    assert told(machine.subscribe(0, 2, HermesSubscriptionId(1, 2), "tick", narrow)) == []
    assert told(machine.unsubscribe(0, ID)) == [
        Tell("tick", InterestKind.FILTER, narrow, lifetime),
        Untell("tick", InterestKind.FILTER, wide),
    ]


def test_the_two_kinds_of_subscription_do_not_cover_each_other() -> None:
    machine = broker()
    machine.subscribe(0, 1, ID, "tick")
    kinds = [
        one.kind
        for one in told(machine.subscribe(0, 2, HermesSubscriptionId(1, 2), "tick", over(1)))
        if isinstance(one, Tell)
    ]
    assert kinds == [InterestKind.FILTER]


def test_filters_follow_advertisements_back() -> None:
    machine = broker()
    machine.subscribe(0, 1, ID, "tick", over(10))
    lifetime = round(machine.options.lifetime_ms)
    effects = machine.hear(0, 5, Tell("tick", InterestKind.ADVERTISED, ALWAYS, lifetime))
    sent = [(effect.neighbour, effect.message) for effect in effects if isinstance(effect, Send)]
    assert (5, Tell("tick", InterestKind.FILTER, over(10), lifetime)) in sent
    assert (UP, Tell("tick", InterestKind.ADVERTISED, ALWAYS, lifetime)) in sent


def test_an_event_for_both_kinds_goes_over_a_link_once_with_both_flags() -> None:
    machine = broker(up=None)
    for kind, filter in ((InterestKind.TYPE, ALWAYS), (InterestKind.FILTER, over(10))):
        machine.hear(0, 5, Tell("tick", kind, filter, 1000))
    machine.hear(0, 6, Tell("tick", InterestKind.FILTER, over(50), 1000))
    machine.advertise(0, 1, "tick")
    assert told(machine.publish(0, "tick", event(20))) == [HermesPublication("tick", True, True, False, b"", event(20))]
    assert told(machine.hear(0, 5, HermesPublication("tick", True, True, False, b"", event(20)))) == []  # never back


def test_a_type_is_asked_for_at_its_rendezvous_node_and_an_unknown_one_is_refused() -> None:
    machine, root = broker(), Hermes(UP, hash, lambda key: None)
    (request,) = machine.subscribe(0, 7, ID, "nothing")
    assert isinstance(request, Request)
    assert request.request.verb is Verb.USE
    answer, _ = root.asked(0, request.request)
    (done,) = machine.answered(0, request.token, answer)
    assert isinstance(done, RequestDone)
    assert done.token == 7
    assert done.error is not None
    assert done.error.code == "E_TYPE_UNKNOWN"


def test_a_subtype_needs_its_parent_and_is_reported_to_the_parents_rendezvous_node() -> None:
    machine, root = broker(), Hermes(UP, hash, lambda key: None)
    (request,) = machine.add_type(0, 1, BOND)
    assert isinstance(request, Request)
    assert [one.name for one in request.request.chain] == ["tick", "bond"]
    answer, effects = root.asked(0, request.request)
    assert answer.code == ""
    (heir,) = effects
    assert isinstance(heir, Request)
    assert (heir.request.verb, heir.request.name) == (Verb.HEIR, "tick")
    assert root.asked(0, heir.request)[0].code == ""
    refused, _ = root.asked(0, request.request.__class__(Verb.REMOVE, "tick"))
    assert refused.code == "E_TYPE_SUBTYPES"


def test_a_type_is_not_defined_twice_and_a_removed_one_is_not_kept_by_its_users() -> None:
    root = Hermes(UP, hash, lambda key: None)
    ask = Hermes(1, hash, lambda key: UP)
    (request,) = ask.add_type(0, 1, TICK)
    assert isinstance(request, Request)
    assert root.asked(0, request.request)[0].code == ""
    other = EventType("tick", None, {"price": AttributeType.FLOAT})
    (second,) = Hermes(2, hash, lambda key: UP).add_type(0, 1, other)
    assert isinstance(second, Request)
    assert root.asked(0, second.request)[0].code == "E_TYPE_REDEFINED"
    kind = type(request.request)
    assert root.asked(0, kind(Verb.REMOVE, "tick"))[0].code == ""
    assert root.asked(0, kind(Verb.KEEP, "tick", (TICK,)))[0].code == "E_TYPE_UNKNOWN"


def test_undoing_what_was_not_done_is_an_error() -> None:
    machine = broker()
    with pytest.raises(UsageError, match="E_HERMES_ID"):
        machine.unsubscribe(0, ID)
    with pytest.raises(UsageError, match="E_HERMES_UNADVERTISED"):
        machine.unadvertise(0, "tick")
    with pytest.raises(UsageError, match="E_HERMES_UNADVERTISED"):
        machine.publish(0, "tick", event(1))


def test_a_filter_may_ask_only_for_attributes_of_the_type() -> None:
    (done,) = broker().subscribe(0, 1, ID, "tick", Predicate.of(Constraint("colour", Op.EQ, "red")))
    assert isinstance(done, RequestDone)
    assert done.error is not None
    assert done.error.code == "E_EVENT_UNKNOWN"


def test_a_persistent_event_is_kept_until_all_have_it() -> None:
    machine = broker(up=None)
    machine.hear(0, 5, Tell("tick", InterestKind.TYPE, ALWAYS, 1000))
    machine.subscribe(0, 1, ID, "tick")
    machine.advertise(0, 1, "tick")
    effects = machine.publish(1, "tick", event(1), b"tag")
    assert HermesHandOver((ID,), event(1), b"tag", "tick") in effects
    assert not any(isinstance(effect, HermesSafe) for effect in effects)
    assert not any(isinstance(effect, HermesSafe) for effect in machine.hear(2, 5, Settled("tick", b"tag")))
    assert HermesSafe(b"tag") in machine.handed(3, "tick", b"tag")
    again = machine.hear(3, 5, HermesPublication("tick", True, True, False, b"tag", event(1)))
    assert not any(isinstance(effect, HermesHandOver) for effect in again)  # not handed over twice


SAFE, SETTLED = HermesSafe(b"tag"), Settled("tick", b"tag")


def persistent(type: str = "tick") -> HermesPublication:
    return HermesPublication(type, True, False, False, b"tag", event(1))


def keeping(*neighbours: int) -> Hermes:
    """A rendezvous node at which clients advertise the type, and these neighbours want it."""
    machine = broker(up=None)
    machine.advertise(0, 1, "tick")
    for neighbour in neighbours:
        machine.hear(0, neighbour, Tell("tick", InterestKind.TYPE, ALWAYS, 1000))
    return machine


def test_a_publishers_broker_that_gets_its_own_event_from_others_waits_for_all_and_they_not_for_it() -> None:
    machine = keeping(5)
    assert told(machine.hear(1, 6, persistent())) == [persistent()]  # after a restart; from 6 to 5
    effects = machine.publish(2, "tick", event(1), b"tag")
    assert told(effects) == [SETTLED]  # 6 waits no longer for what this broker has on disk
    assert SAFE not in effects
    effects = machine.hear(3, 5, SETTLED)
    assert SAFE in effects
    assert not told(effects)


def test_an_event_that_came_to_the_parents_tree_from_elsewhere_first_is_settled_in_the_subtypes() -> None:
    machine = keeping(5)
    machine.trees.heir(0, "tick", "bond")
    machine.hear(1, 6, persistent())
    effects = machine.hear(2, 7, persistent("bond"))
    assert Send(7, Settled("bond", b"tag")) in effects
    assert told(machine.hear(3, 5, SETTLED)) == [SETTLED]  # to 6


def test_two_brokers_that_pass_each_other_an_event_over_a_new_link_do_not_wait_for_each_other() -> None:
    machine = keeping(5, 6)
    machine.hear(1, 5, persistent())
    machine.link_down(2, 5)
    machine.hear(3, 5, Tell("tick", InterestKind.TYPE, ALWAYS, 1000))
    assert Send(5, persistent()) in machine.link_up(3, 5)
    assert Send(5, SETTLED) in machine.hear(4, 5, persistent())
    machine.hear(5, 5, SETTLED)
    assert told(machine.hear(5, 6, SETTLED)) == [persistent()] * 2  # once more, because a link was lost
    machine.hear(6, 5, SETTLED)
    assert not told(machine.hear(6, 6, SETTLED))  # nobody waits
    assert told(machine.hear(7, 8, persistent())) == [persistent()] * 2  # it was let go


def test_an_event_whose_source_is_lost_is_kept_for_the_next_from_whom_it_comes() -> None:
    machine = broker(up=None)
    machine.subscribe(0, 1, ID, "tick")
    machine.hear(1, 5, persistent())
    machine.link_down(2, 5)
    assert not told(machine.hear(3, 6, persistent()))  # it waits until clients here have it
    assert told(machine.hear(4, 7, persistent())) == [SETTLED]
    assert told(machine.handed(5, "tick", b"tag")) == [SETTLED]


def test_an_event_whose_source_is_lost_is_settled_with_nobody() -> None:
    machine = broker(up=None)
    machine.subscribe(0, 1, ID, "tick")
    machine.hear(1, 5, persistent())
    machine.link_down(2, 5)
    assert not told(machine.handed(3, "tick", b"tag"))
