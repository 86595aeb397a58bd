"""Selectors of queue consumers: asked in the kernel, with one budget for all that look at a message in turn."""

from collections.abc import Callable

from tidings.kernel.codec import encode_message
from tidings.kernel.matcher import MESSAGE_STEPS
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.message_filter import accepts


def message(**properties: Value) -> bytes:
    return encode_message(Message(Destination("q", True), properties))


def filter_of(selector: str) -> Callable[[bytes], bool]:
    accept = accepts(Selector(selector))
    assert accept is not None
    return accept


def asked(selector: str, encoded: bytes) -> bool:
    return filter_of(selector)(encoded)


def test_the_same_answers_as_the_selector() -> None:
    properties: dict[str, Value] = {"a": 5, "b": "text", "c": True}
    for text in (
        "a = 5",
        "a > 5",
        "b LIKE 't_x%'",
        "c AND a BETWEEN 1 AND 9",
        "missing = 1",
        "NOT missing = 1",
        "a / 0 = 1",
    ):
        assert asked(text, message(**properties)) is (Selector(text).matches(properties) is True)
    assert accepts(Selector(" ")) is None


def test_header_fields_are_seen() -> None:
    assert asked("JMSPriority = 4", message())
    assert asked("JMSDeliveryMode = 'NON_PERSISTENT' OR JMSDeliveryMode = 'PERSISTENT'", message())


def test_many_consumers_share_what_a_message_may_cost() -> None:
    """The first few expensive selectors are decided; then they are given up, and what is cheap is still decided."""
    encoded = message(a="a" * 200_000 + "b", b=1)
    dear = [filter_of(f"a LIKE '%{'a_' * 20}%{'_' * number}b%'") for number in range(100)]
    answers = [one(encoded) for one in dear]
    given_up = answers.index(False)
    assert 200_000 * given_up < 3 * MESSAGE_STEPS
    assert not any(answers[given_up:])
    assert filter_of("b = 1")(encoded)
    assert dear[99](encoded)  # asked for the second time: a new round
