"""The Hermes machine as the scheme of a node: what it makes of predicates, messages and answers."""

from collections.abc import Collection, Mapping

import pytest

from tidings.errors import TidingsError
from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type import AttributeType, EventType
from tidings.model.event_type_topics import pattern_of, topic_of
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.scheme import Bdrp
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.effects import AskKey, Effect, HandOver, Passed, Report, Safe, Send
from tidings.routing.hermes import Hermes, HermesOptions
from tidings.routing.hermes.codec import SCHEME, decode, decode_request, encode
from tidings.routing.hermes.messages import EchoEvent, HermesPublication, InterestKind, Settled, Tell, TypeAnswer, Verb
from tidings.routing.hermes.scheme import HermesScheme

TRADE = EventType("Trade", None, {"price": AttributeType.INT})
SALE = EventType("Sale", "Trade")
UP = 9
DEAR = Predicate.of(Constraint("price", Op.GT, 10))


class Nowhere:
    """Tables of a plane that there is none of."""

    def interest(self, router: int, added: Collection[bytes], removed: Collection[bytes]) -> None: ...
    def forget(self, router: int) -> None: ...
    def routes(self, next_hops: Mapping[int, int]) -> None: ...


def scheme(*, ready: list[bool] | None = None) -> HermesScheme:
    bdrp = Bdrp(Flood(1, incarnation=1), InterestEncoding(), Nowhere())
    machine = Hermes(1, hash, lambda key: UP, HermesOptions(settle_ms=0))
    made = HermesScheme(bdrp, machine, lambda: ready is None or ready[0])
    made.start(0.0)
    made.tick(0.0)
    return made


def wanted(path: tuple[str, ...], filter: Predicate) -> bytes:
    return encode_predicate(filter.within(DestinationPattern.parse(pattern_of(path)).constraint))


def asked(effects: list[Effect]) -> list[tuple[int, Verb, str]]:
    found = [(one.token, decode_request(one.payload)) for one in effects if isinstance(one, AskKey)]
    return [(token, request.verb, request.name) for token, request in found]


def told(effects: list[Effect]) -> list[object]:
    return [decode(one.message.payload) for one in effects if isinstance(one, Send)]  # type: ignore[attr-defined]


def event(price: int, number: int = 1, *, persistent: bool = False) -> bytes:
    id = MessageId(1, 1, 1000, number)
    topic = Destination(topic_of(("Trade",)))
    return encode_message(Message(topic, {"price": price}, id=id, persistent=persistent))


def from_neighbour(message: bytes, tag: bytes = b"") -> tuple[int, SchemeMessage]:
    return UP, SchemeMessage(SCHEME, encode(HermesPublication("Trade", True, True, False, tag, message)))


def test_a_subscription_to_topics_of_a_type_is_one_to_the_type() -> None:
    made = scheme()
    ((token, verb, name),) = asked(made.subscribe(1, wanted(("Trade",), DEAR)))
    assert (verb, name) == (Verb.USE, "Trade")
    (said,) = told(made.answered(2, token, encode(TypeAnswer((TRADE,)))))
    assert isinstance(said, Tell)
    assert (said.type, said.kind, said.filter) == ("Trade", InterestKind.FILTER, DEAR)
    ((token, _, name),) = asked(made.subscribe(3, wanted(("Trade", "Sale"), Predicate.always())))
    assert name == "Sale"
    (said,) = told(made.answered(4, token, encode(TypeAnswer((TRADE, SALE)))))
    assert isinstance(said, Tell)
    assert (said.type, said.kind) == ("Sale", InterestKind.TYPE)
    assert made.local_rows() == set()
    made.subscribe(5, encode_predicate(Predicate.of(DestinationPattern.parse("ticks.>").constraint)))
    assert len(made.local_rows()) == 1  # other topics are B-DRP's


def test_interests_of_mailboxes_are_told_by_bdrp_too_as_long_as_there_are_any() -> None:
    made, predicate = scheme(), wanted(("Trade",), DEAR)
    made.lasting(1, predicate, on=True)
    made.lasting(1, predicate, on=True)
    rows = made.local_rows()
    assert len(rows) == 1
    made.lasting(2, predicate, on=False)
    assert made.local_rows() == rows
    made.lasting(2, predicate, on=False)
    assert made.local_rows() == set()
    other = encode_predicate(Predicate.of(DestinationPattern.parse("ticks.>").constraint))
    made.subscribe(3, other)
    assert made.lasting(3, other, on=True) == []
    made.unsubscribe(4, other)
    assert made.local_rows() == set()


def test_what_nobody_answers_is_tried_again_unless_it_is_taken_back() -> None:
    made = scheme()
    predicate = wanted(("Trade",), Predicate.always())
    ((token, _, _),) = asked(made.subscribe(1, predicate))
    made.answered(2, token, None)
    assert made.waiting == 1
    ((token, verb, _),) = asked(made.tick(made.machine.options.refresh_ms))
    assert verb is Verb.USE
    made.unsubscribe(20_000, predicate)  # while it is under way: undone when it is answered
    effects = made.answered(20_001, token, encode(TypeAnswer((TRADE,))))
    assert [verb for _, verb, _ in asked(effects)] == [Verb.UNUSE]
    assert made.machine.trees.trees["Trade"].flows[InterestKind.TYPE].sources == {}


def test_requests_wait_until_the_broker_is_in_the_network_but_not_for_ever() -> None:
    ready = [False]
    made = scheme(ready=ready)
    errors: list[TidingsError | None] = []
    assert asked(made.get_type(1, "Trade", errors.append)) == []
    assert asked(made.tick(100)) == []
    ready[0] = True
    assert [name for _, _, name in asked(made.tick(200))] == ["Trade"]
    ready[0] = False
    made.get_type(300, "Sale", errors.append)
    made.tick(60_000)
    assert [error and error.code for error in errors] == ["E_TYPE_UNREACHABLE"]


def test_a_persistent_event_is_handed_over_once_however_often_it_comes() -> None:
    made, message = scheme(), event(20, persistent=True)
    for path, filter in ((("Trade",), Predicate.always()), (("Trade",), DEAR)):
        for token, _, _ in asked(made.subscribe(1, wanted(path, filter))):
            made.answered(1, token, encode(TypeAnswer((TRADE,))))
    tag = message[4:20]
    effects = made.learn(2, from_neighbour(message, tag))
    assert [one for one in effects if isinstance(one, HandOver)] == [HandOver(message, tag, "Trade")]
    assert Passed(tag) in effects
    assert not any(isinstance(one, HandOver) for one in made.learn(3, from_neighbour(message, tag)))


def test_an_event_that_is_not_persistent_does_not_come_this_way() -> None:
    (_, report) = scheme().learn(1, from_neighbour(event(20)))
    assert isinstance(report, Report)
    assert report.code == "E_SCHEME_MESSAGE"


def wanting_trades() -> HermesScheme:
    made = scheme()
    ((token, _, _),) = asked(made.subscribe(1, wanted(("Trade",), Predicate.always())))
    made.answered(1, token, encode(TypeAnswer((TRADE,))))
    return made


def test_a_persistent_event_is_settled_when_it_is_safe_here() -> None:
    made, message = wanting_trades(), event(20, persistent=True)
    tag = message[4:20]
    effects = made.learn(2, from_neighbour(message, tag))
    assert HandOver(message, tag, "Trade") in effects
    assert told(effects) == []
    assert told(made.handed(3, "Trade", tag)) == [Settled("Trade", tag)]


def test_a_persistent_event_that_could_not_be_stored_is_handed_over_again() -> None:
    made, message = wanting_trades(), event(20, persistent=True)
    tag = message[4:20]
    made.learn(2, from_neighbour(message, tag))
    assert made.refused(3, "Trade", tag) == []
    assert HandOver(message, tag, "Trade") in made.tick(made.machine.options.refresh_ms)
    assert HandOver(message, tag, "Trade") not in made.tick(2 * made.machine.options.refresh_ms)


def test_a_posted_event_ends_as_safe_even_if_its_type_is_gone() -> None:
    made = scheme()
    message = event(20, persistent=True)
    ((token, verb, _),) = asked(made.post(1, message))
    assert verb is Verb.USE
    effects = made.answered(2, token, encode(TypeAnswer((), "E_TYPE_UNKNOWN", "there is no event type 'Trade'")))
    assert Safe(message[4:20]) in effects
    assert made.counts()["unsettled"] == 0


@pytest.mark.parametrize(
    "form",
    [
        (EventType("Trade", None, {"price": AttributeType.STRING}),),
        (EventType("Old"), EventType("Trade", "Old", {"price": AttributeType.INT})),
    ],
)
def test_a_posted_event_is_not_given_to_subscribers_of_another_form_of_its_type(form: tuple[EventType, ...]) -> None:
    made = scheme()
    message = event(20, persistent=True)
    made.learn(0, (5, SchemeMessage(SCHEME, encode(Tell("Trade", InterestKind.TYPE, Predicate.always(), 1000)))))
    ((token, _, _),) = asked(made.post(1, message))
    effects = made.answered(2, token, encode(TypeAnswer(form)))
    (echo,) = [said for said in told(effects) if isinstance(said, EchoEvent)]
    effects = made.learn(3, (UP, SchemeMessage(SCHEME, encode(EchoEvent("Trade", echo.number, True)))))
    assert Safe(message[4:20]) in effects
    assert [said for said in told(effects) if isinstance(said, HermesPublication)] == []
    assert made.counts()["unsettled"] == 0


@pytest.mark.parametrize(
    "said", [SchemeMessage(2, b""), SchemeMessage(SCHEME, b"\x63"), from_neighbour(b"no message")[1]]
)
def test_nonsense_of_a_neighbour_is_reported(said: SchemeMessage) -> None:
    (report,) = scheme().learn(1, (UP, said))
    assert isinstance(report, Report)
    assert report.code == "E_SCHEME_MESSAGE"


def test_a_request_that_makes_no_sense_is_answered_so() -> None:
    answer, effects = scheme().asked(1, b"\x63")
    assert b"E_TYPE_REQUEST" in answer
    assert effects == []
