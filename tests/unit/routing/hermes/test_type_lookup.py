"""A type that is removed and added again in another form: nobody keeps to the old one for longer than a refresh."""

from tidings.errors import TidingsError
from tidings.model.event_type import AttributeType, EventType
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.messages import HermesEffect, Request, RequestDone, TypeRequest, Verb

OLD = (EventType("tick", None, {"price": AttributeType.INT}),)
PARENT = EventType("news", None, {"price": AttributeType.STRING})
NEW = (PARENT, EventType("tick", "news", {"years": AttributeType.INT}))
ROOT = 9
OPTIONS = HermesOptions()


class Pair:
    """A broker, and the rendezvous node of all types."""

    def __init__(self) -> None:
        self.root = Hermes(ROOT, hash, lambda key: None, OPTIONS)
        self.broker = Hermes(1, hash, lambda key: ROOT, OPTIONS)
        self.broker.start(0.0)
        self.now, self.reachable = 0.0, True

    def ask(self, verb: Verb, chain: tuple[EventType, ...] = (), router: int = 0) -> str:
        """Some other broker asks for this; the code of the answer."""
        return self.root.asked(self.now, TypeRequest(verb, "tick", chain, router))[0].code

    def redefine(self) -> None:
        assert self.ask(Verb.REMOVE) == ""
        assert self.ask(Verb.ADD, NEW) == ""

    def do(self, effects: list[HermesEffect]) -> list[TidingsError | None]:
        """Bring requests to the rendezvous node and back; what clients are told."""
        told: list[TidingsError | None] = []
        waiting = list(effects)
        while waiting:
            match waiting.pop(0):
                case Request(token=token, request=request):
                    answer = self.root.asked(self.now, request)[0] if self.reachable else None
                    waiting += self.broker.answered(self.now, token, answer)
                case RequestDone(error=error):
                    told.append(error)
        return told

    def refresh(self) -> None:
        self.now += OPTIONS.refresh_ms
        self.do(self.broker.tick(self.now))

    def get(self) -> tuple[EventType, ...]:
        (error,) = self.do(self.broker.get_type(self.now, 1, "tick"))
        return self.broker.registry.chain("tick") if error is None else ()


def test_what_was_only_looked_up_is_looked_up_again() -> None:
    pair = Pair()
    pair.ask(Verb.ADD, OLD)
    assert pair.get() == OLD
    pair.redefine()
    assert pair.get() == NEW
    pair.ask(Verb.REMOVE)
    assert pair.get() == ()
    assert pair.broker.registry.types() == []


def test_nobody_answers_then_it_is_as_last_heard() -> None:
    pair = Pair()
    pair.ask(Verb.ADD, OLD)
    pair.get()
    pair.reachable = False
    assert pair.get() == OLD


def added() -> Pair:
    pair = Pair()
    pair.do(pair.broker.add_type(0, 1, OLD[-1]))
    assert pair.broker.registry.owned() == [OLD]
    return pair


def test_a_broker_where_a_type_was_added_does_not_keep_the_old_form() -> None:
    pair = added()
    pair.redefine()
    pair.refresh()
    assert pair.broker.registry.owned() == []
    assert pair.broker.registry.types() == []
    assert pair.get() == NEW
    pair.refresh()
    assert pair.ask(Verb.KEEP, NEW) == ""  # nothing was brought back


def test_it_need_not_wait_for_the_refresh() -> None:
    pair = added()
    pair.redefine()
    assert pair.get() == NEW
    assert pair.broker.registry.owned() == []
    pair = added()
    pair.ask(Verb.REMOVE)
    assert pair.get() == ()
    assert pair.broker.registry.owned() == []


def test_who_advertises_gets_the_form_of_now() -> None:
    pair = added()
    pair.redefine()
    pair.do(pair.broker.advertise(0, 1, "tick"))
    assert pair.broker.registry.chain("tick") == NEW
    assert pair.broker.registry.owned() == []
    assert pair.ask(Verb.REMOVE) == "E_TYPE_IN_USE"


def away() -> Pair:
    """The broker uses a type, and was then away for so long that its rendezvous node has forgotten that."""
    pair = added()
    pair.do(pair.broker.advertise(0, 1, "tick"))
    pair.now += OPTIONS.lifetime_ms
    pair.root.registry.expire(pair.now)
    return pair


def test_a_form_in_use_is_exchanged_with_the_next_refresh() -> None:
    pair = away()
    pair.redefine()
    pair.refresh()
    assert pair.broker.registry.chain("tick") == NEW
    assert pair.broker.registry.owned() == []
    assert pair.ask(Verb.REMOVE) == "E_TYPE_IN_USE"


def test_a_type_in_use_that_was_removed_is_learned_when_there_is_one_again() -> None:
    pair = away()
    pair.ask(Verb.REMOVE)
    pair.refresh()
    assert pair.broker.registry.chain("tick") == ()
    pair.refresh()
    assert pair.broker.registry.chain("tick") == ()
    pair.ask(Verb.ADD, NEW)
    pair.refresh()
    assert pair.broker.registry.chain("tick") == NEW
    assert pair.ask(Verb.REMOVE) == "E_TYPE_IN_USE"
