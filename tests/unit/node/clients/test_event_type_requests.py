"""What becomes of advertisements when their type has another form."""

from typing import Any, cast

import pytest

from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.event_type import AttributeType, EventType, EventTypeError
from tidings.model.event_type_topics import topic_of
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.event_type_registry import EventTypeRegistry
from tidings.node.clients.event_type_requests import EventTypeRequests
from tidings.node.clients.session import Connection
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.requests import AdvertiseType, Done, Failed, UnadvertiseType
from tidings.routing.scheme import Then

Chain = tuple[EventType, ...]
OLD: Chain = (EventType("T", None, {"a": AttributeType.INT}),)
NEW: Chain = (EventType("P"), EventType("T", "P", {"a": AttributeType.STRING}))


class Book:
    """One type. What is answered last is what counts."""

    def __init__(self) -> None:
        self.form, self.later = OLD, OLD  # when it is looked up, and when it is advertised
        self.advertised = 0

    def chain(self, name: str) -> tuple[EventType, ...]:
        return self.form

    def get(self, name: str, then: Then) -> None:
        then(None)

    def advertise(self, name: str, then: Then) -> None:
        self.advertised += 1
        self.form = self.later
        then(None)

    def unadvertise(self, name: str) -> None:
        self.advertised -= 1

    def take_changed(self) -> set[str]:
        return {"T"}


class Answers:
    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, number: int, answer: object) -> None:
        self.answers.append(answer)


class Quiet:
    def hold(self, number: int, reason: object) -> None: ...
    def release(self, reason: object) -> None: ...


class Plane:
    """What the plane lets through: topics, and the forms of their types."""

    def __init__(self) -> None:
        self.forms: dict[str, Any] = {}

    def advertise_event(self, connection: int, topic: str, type: str, attributes: Any) -> None:
        self.forms[topic] = (type, attributes)

    def withdraw_event(self, connection: int, topic: str) -> None:
        del self.forms[topic]


class Rights:
    name = "alice"

    def __init__(self, forbidden: str) -> None:
        self.forbidden = forbidden

    def may(self, operation: str, topic: str) -> bool:
        return topic != self.forbidden


class Setting:
    def __init__(self, forbidden: str = "") -> None:
        self.book, self.box, self.plane = Book(), Answers(), Plane()
        self.request_handler = EventTypeRequests(
            cast(EventTypeRegistry, self.book),
            cast(AnswerBatch, self.box),
            cast(Backpressure, Quiet()),
            cast(Any, self.plane),
        )
        self.client = Connection(1, cast(Any, Rights(forbidden)), "c")

    def advertise(self) -> Any:
        self.request_handler.carry_out(self.client, AdvertiseType(1, "T"))
        return self.box.answers.pop()

    def check(self, chain: tuple[EventType, ...], value: Value, type: str | None = "T") -> None:
        topic = Destination(topic_of(tuple(one.name for one in chain)))
        self.request_handler.check(self.client, encode_message(Message(topic, {"a": value}, type=type)))


def test_an_advertisement_is_of_the_form_that_was_answered_last() -> None:
    one = Setting()
    one.book.later = NEW
    assert isinstance(one.advertise(), Done)
    one.check(NEW, "x")
    with pytest.raises(EventTypeError, match="E_EVENT_WRONG_TYPE"):
        one.check(NEW, 1)


def test_that_form_must_be_allowed_too() -> None:
    one = Setting(forbidden="@type.P.T.event")
    one.book.later = NEW
    answer = one.advertise()
    assert isinstance(answer, Failed)
    assert answer.error.code == "E_FORBIDDEN"
    assert one.book.advertised == 0
    assert one.client.advertised == {}


@pytest.mark.parametrize("form", [NEW, ()])
def test_no_event_of_a_form_that_is_no_more(form: Chain) -> None:
    one = Setting()
    one.advertise()
    one.check(OLD, 1)
    one.book.form = form
    with pytest.raises(EventTypeError, match="E_TYPE_REDEFINED: event type 'T' was removed"):
        one.check(OLD, 1)


def test_who_advertises_again_has_one_advertisement_of_the_new_form() -> None:
    one = Setting()
    one.advertise()
    one.book.form = one.book.later = NEW
    assert isinstance(one.advertise(), Done)
    one.check(NEW, "x")
    assert one.book.advertised == 1
    one.request_handler.lost(one.client)
    assert one.book.advertised == 0


def test_an_event_names_its_type_in_jmstype() -> None:
    one = Setting()
    one.advertise()
    for wrong in (None, "P"):
        with pytest.raises(
            EventTypeError, match="E_EVENT_TYPE: JMSType of an event of type 'T' must be the type's name"
        ):
            one.check(OLD, 1, wrong)


def test_the_plane_lets_events_through_while_their_type_has_the_form_that_was_advertised() -> None:
    one = Setting()
    one.advertise()
    assert one.plane.forms == {"@type.T.event": ("T", [("a", 1, False)])}
    one.request_handler.settle()
    assert list(one.plane.forms) == ["@type.T.event"]
    one.book.form = one.book.later = NEW
    one.request_handler.settle()
    assert one.plane.forms == {}
    one.advertise()
    assert one.plane.forms == {"@type.P.T.event": ("T", [("a", 3, False)])}
    one.request_handler.carry_out(one.client, UnadvertiseType(2, "T"))
    assert one.plane.forms == {}
    one.advertise()
    one.request_handler.lost(one.client)
    one.book.form = OLD
    one.request_handler.settle()  # its connection is closed: nothing is to be withdrawn
    assert list(one.plane.forms) == ["@type.P.T.event"]
