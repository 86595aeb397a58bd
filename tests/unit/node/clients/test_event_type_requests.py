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
from tidings.node.requests import AdvertiseType, Done, Failed
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


class Answers:
    def __init__(self) -> None:
        self.answers: list[Any] = []

    def answer(self, number: int, answer: object) -> None:
        self.answers.append(answer)


class Quiet:
    def hold(self, number: int, reason: object) -> None: ...
    def release(self, reason: object) -> None: ...


class Rights:
    name = "alice"

    def __init__(self, forbidden: str) -> None:
        self.forbidden = forbidden

    def may(self, operation: str, topic: str) -> bool:
        return topic != self.forbidden


class Setting:
    def __init__(self, forbidden: str = "") -> None:
        self.book, self.box = Book(), Answers()
        self.request_handler = EventTypeRequests(
            cast(EventTypeRegistry, self.book), cast(AnswerBatch, self.box), cast(Backpressure, Quiet())
        )
        self.client = Connection(1, cast(Any, Rights(forbidden)), "c")

    def advertise(self) -> Any:
        self.request_handler.carry_out(self.client, AdvertiseType(1, "T"))
        return self.box.answers.pop()

    def check(self, chain: tuple[EventType, ...], value: Value) -> None:
        topic = Destination(topic_of(tuple(one.name for one in chain)))
        self.request_handler.check(self.client, encode_message(Message(topic, {"a": value})))


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
