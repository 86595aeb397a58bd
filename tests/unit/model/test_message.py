import math
from typing import Any

import pytest
from hardening.support.strategies_model import messages
from hypothesis import given

from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId

TOPIC = Destination("ticks.xyz")


def test_what_a_selector_sees() -> None:
    one = MessageId(1, 2, 3, 4)
    bare = Message(TOPIC, {"price": 50}, id=one).attributes()
    assert bare == {
        "price": 50,
        "JMSTimestamp": 3,
        "JMSPriority": 4,
        "JMSDeliveryMode": "NON_PERSISTENT",
        "JMSMessageID": "ID:" + str(one),
        "@topic": "ticks.xyz",
    }
    full = Message(
        Destination("orders", queue=True),
        persistent=True,
        timestamp_ms=9,
        expiration_ms=10,
        correlation_id="c",
        reply_to=TOPIC,
        type="t",
    ).attributes()
    assert full["@queue"] == "orders"
    assert "@topic" not in full
    assert full["JMSDeliveryMode"] == "PERSISTENT"
    assert [full[f"JMS{name}"] for name in ("Timestamp", "Expiration", "CorrelationID", "ReplyTo", "Type")] == [
        9,
        10,
        "c",
        "topic:ticks.xyz",
        "t",
    ]


@given(messages)
def test_properties_are_kept_as_they_are(message: Message) -> None:
    seen = message.attributes()
    assert all(seen[name] is value for name, value in message.properties.items())
    assert hash(message) == hash(message)
    assert message.expired(0) is False
    assert message.expired(message.expiration_ms or 0) == (message.expiration_ms is not None)


def test_kinds_never_mix() -> None:
    assert Message(TOPIC, {"a": 1}) != Message(TOPIC, {"a": True})
    assert Message(TOPIC, {"a": 1, "b": 2}) == Message(TOPIC, {"b": 2, "a": 1})
    assert Message(TOPIC, type="t") != Message(TOPIC, correlation_id="t")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"properties": {"": 1}}, "E_NAME_LENGTH"),
        ({"properties": {"é" * 128: 1}}, "E_NAME_LENGTH"),
        ({"properties": {"@topic": "a"}}, "E_MESSAGE_NAME"),
        ({"properties": {"JMSType": "a"}}, "E_MESSAGE_NAME"),
        ({"properties": {5: "a"}}, "E_MESSAGE_NAME"),
        ({"properties": {"a": math.nan}}, "E_VALUE_NAN"),
        ({"properties": {"a": None}}, "E_VALUE_TYPE"),
        ({"properties": {"a": 2**63}}, "E_VALUE_RANGE"),
        ({"properties": {str(n): n for n in range(2**16)}}, "E_MESSAGE_PROPERTIES"),
        ({"priority": 10}, "E_MESSAGE_FIELD"),
        ({"priority": True}, "E_MESSAGE_FIELD"),
        ({"body": "text"}, "E_MESSAGE_FIELD"),
        ({"id": b"0" * 16}, "E_MESSAGE_FIELD"),
        ({"persistent": 1}, "E_MESSAGE_FIELD"),
        ({"timestamp_ms": -1}, "E_MESSAGE_FIELD"),
        ({"expiration_ms": 0}, "E_MESSAGE_FIELD"),
        ({"expiration_ms": 2**63}, "E_MESSAGE_FIELD"),
        ({"correlation_id": 1}, "E_MESSAGE_FIELD"),
        ({"type": "\ud800"}, "E_VALUE_TEXT"),
        ({"reply_to": "topic:a"}, "E_MESSAGE_FIELD"),
        ({"destination": "a"}, "E_MESSAGE_FIELD"),
    ],
)
def test_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        Message(**{"destination": TOPIC, **fields})
    assert caught.value.code == code
