"""Types evolve: forms with more optional attributes reach everybody, and nobody falls back to an older one."""

from dataclasses import replace
from itertools import permutations

import pytest

from tidings.model.event_type import AttributeType, EventType
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.codec import decode_types, encode_types
from tidings.routing.hermes.messages import HermesEffect, Request, TypeRequest, Verb
from tidings.routing.hermes.registry import Chain
from tidings.routing.hermes.type_forms import evolved, merged

INT, STRING = AttributeType.INT, AttributeType.STRING
FIRST = EventType("tick", None, {"price": INT})
SECOND = replace(FIRST, attributes={"price": INT, "fee": INT}, optional=frozenset({"fee"}))
THIRD = replace(SECOND, attributes={**SECOND.attributes, "note": STRING}, optional=frozenset({"fee", "note"}))
OTHER = replace(FIRST, attributes={"price": STRING})
CHILD = EventType("deal", "tick", {"buyer": STRING})
OPTIONS = HermesOptions()


class Brokers:
    """A rendezvous node of all types, and two brokers with clients."""

    def __init__(self) -> None:
        self.root = Hermes(9, hash, lambda key: None, OPTIONS)
        self.brokers = [Hermes(number, hash, lambda key: 9, OPTIONS) for number in (1, 2)]
        self.now = 0.0
        self.root.start(self.now)
        for broker in self.brokers:
            self.do(broker, broker.start(self.now))

    def do(self, broker: Hermes, effects: list[HermesEffect]) -> None:
        waiting = [(broker, effect) for effect in effects]
        while waiting:
            at, effect = waiting.pop(0)
            if isinstance(effect, Request):
                answer, more = self.root.asked(self.now, effect.request)
                waiting += [(self.root, one) for one in more]
                waiting += [(at, one) for one in at.answered(self.now, effect.token, answer)]

    def refresh(self) -> None:
        self.now += OPTIONS.refresh_ms
        for broker in (*self.brokers, self.root):
            self.do(broker, broker.tick(self.now))


@pytest.mark.parametrize(
    ("known", "offered", "adding", "form"),
    [
        (FIRST, FIRST, False, FIRST),
        (FIRST, SECOND, True, replace(SECOND, version=2)),
        (replace(FIRST, version=4), SECOND, True, replace(SECOND, version=5)),
        (FIRST, SECOND, False, None),  # nobody knows which was first
        (FIRST, replace(SECOND, version=2), False, replace(SECOND, version=2)),
        (replace(SECOND, version=2), FIRST, False, replace(SECOND, version=2)),
        (replace(SECOND, version=2), FIRST, True, replace(SECOND, version=2)),
        (SECOND, replace(FIRST, version=2), False, None),  # it was removed and added again, smaller
        (FIRST, OTHER, True, None),
        (FIRST, replace(SECOND, optional=frozenset()), True, None),
    ],
)
def test_which_form_holds(known: EventType, offered: EventType, adding: bool, form: EventType | None) -> None:
    found = merged((known,), (offered,), adding=adding)
    assert found == (None if form is None else (form,))
    assert found is None or form is None or found[0].version == form.version


def test_in_whatever_order_forms_are_heard_of_the_last_one_holds() -> None:
    forms = [FIRST, replace(SECOND, version=2), replace(THIRD, version=3)]
    for order in permutations(forms):
        held: Chain = (order[0],)
        for form in order[1:]:
            held = merged(held, (form,)) or ()
        assert held == (THIRD,)
        assert held[0].version == 3


def test_forms_are_written_and_read() -> None:
    for chain in ((FIRST,), (replace(THIRD, version=3),), (replace(SECOND, version=2), CHILD)):
        read = decode_types(encode_types(chain))
        assert read == chain
        assert [one.version for one in read] == [one.version for one in chain]
        assert [one.optional for one in read] == [one.optional for one in chain]


def test_more_attributes_reach_all_who_use_the_type_with_the_next_refresh() -> None:
    brokers = Brokers()
    one, two = brokers.brokers
    brokers.do(one, one.add_type(0, 1, FIRST))
    brokers.do(one, one.add_type(0, 2, CHILD))
    for broker in (one, two):
        brokers.do(broker, broker.advertise(0, 3, "tick"))
        brokers.do(broker, broker.advertise(0, 4, "deal"))
    brokers.do(two, two.add_type(0, 5, SECOND))
    assert two.registry.chain("tick") == (SECOND,)
    assert {"tick"} <= two.registry.take_changed()
    brokers.refresh()
    for broker in (one, two):
        assert broker.registry.chain("tick") == (SECOND,)
        assert evolved(broker.registry.chain("deal"), (FIRST, CHILD))
        assert broker.registry.chain("deal") == (SECOND, CHILD)
    assert {"tick", "deal"} <= one.registry.take_changed()
    assert one.registry.is_owned("tick")
    for _ in range(3):  # nobody falls back to what he added once
        brokers.refresh()
        brokers.do(one, one.add_type(brokers.now, 6, FIRST))
    assert [broker.registry.chain("tick")[0].version for broker in (one, two)] == [2, 2]
    assert brokers.root.asked(brokers.now, TypeRequest(Verb.GET, "tick"))[0].chain == (SECOND,)


def test_a_subtype_with_such_an_attribute_of_another_type_prevents_it() -> None:
    brokers = Brokers()
    one, _ = brokers.brokers
    brokers.do(one, one.add_type(0, 1, FIRST))
    brokers.do(one, one.add_type(0, 2, replace(CHILD, attributes={"fee": STRING})))
    answer, _ = brokers.root.asked(0, TypeRequest(Verb.ADD, "tick", (SECOND,)))
    assert answer.code == "E_TYPE_ATTRIBUTE"
    assert brokers.root.asked(0, TypeRequest(Verb.GET, "tick"))[0].chain == (FIRST,)


def test_a_broker_that_was_away_does_not_bring_back_what_was_removed_meanwhile() -> None:
    brokers = Brokers()
    brokers.root.asked(0, TypeRequest(Verb.ADD, "tick", (SECOND,)))
    brokers.root.asked(0, TypeRequest(Verb.REMOVE, "tick"))
    brokers.root.asked(0, TypeRequest(Verb.ADD, "tick", (FIRST,)))
    assert brokers.root.asked(0, TypeRequest(Verb.KEEP, "tick", (SECOND,), 1))[0].code == "E_TYPE_REDEFINED"
    assert brokers.root.asked(0, TypeRequest(Verb.GET, "tick"))[0].chain[0].version == 2
