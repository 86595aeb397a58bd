"""Seeded defects in sessions of MQTT, delays, message groups and last values: the world `mqtt` must notice each."""

from typing import Any

from hardening.simulate.planting import Method, Mutant
from tidings.delivery.groups import MessageGroups
from tidings.delivery.last_values import LastValues
from tidings.node.clients.delayed_messages import DelayedMessages
from tidings.protocols.mqtt.exactly_once import ExactlyOnceReceiver
from tidings.protocols.mqtt.outgoing import Outgoing

MQTT = {"world": "mqtt"}


def _without_record(original: Method) -> Method:
    return lambda self, peer, record, fail: original(self, peer, b"", fail)


def _released_at_once(original: Method) -> Method:
    def received(self: Outgoing, packet: Any, message: Any) -> None:
        persistent, self._persistent = self._persistent, False
        original(self, packet, message)
        self._persistent = persistent

    return received


def _at_once(original: Method) -> Method:
    def store(self: DelayedMessages, message: bytes) -> tuple[int, int]:
        _, seq = original(self, message)
        return 0, seq

    return store


def _forgotten(original: Method) -> Method:
    return lambda self, recovered: None


def _nobody(original: Method) -> Method:
    return lambda self, group: None


def _but_one(original: Method) -> Method:
    def find(self: LastValues, pattern: Any) -> list[int]:
        found: list[int] = original(self, pattern)
        return found[1:]

    return find


MQTT_MUTANTS = (
    Mutant(
        "received-forgotten",
        "packet ids of QoS 2 are not known any more after a lost connection or a crash",
        ExactlyOnceReceiver,
        "__init__",
        _without_record,
        choices=MQTT,
    ),
    Mutant(
        "released-at-once",
        "PUBREL is sent before it is on disk that the client has the message",
        Outgoing,
        "_received",
        _released_at_once,
        seed=36,
        choices=MQTT,
    ),
    Mutant("delays-ignored", "delayed messages are due at once", DelayedMessages, "store", _at_once, choices=MQTT),
    Mutant(
        "delays-forgotten",
        "delayed messages are not looked for after a restart",
        DelayedMessages,
        "recover",
        _forgotten,
        choices=MQTT,
    ),
    Mutant("groups-ignored", "any consumer gets messages of a group", MessageGroups, "owner", _nobody, choices=MQTT),
    Mutant("value-missing", "one topic's last message is not read", LastValues, "find", _but_one, choices=MQTT),
)
