"""The record that the broker keeps of an MQTT session: subscriptions as JSON, publisher numbers of its connections."""

import json
from dataclasses import dataclass, field
from typing import Any

from tidings.model.values import Value
from tidings.protocols.mqtt.topics import patterns

NAME = "mqtt"  # what lingers, and the first level of its records and durable subscriptions
SUBSCRIPTIONS, OUTGOING = f"{NAME}/session", f"{NAME}/out"
PUBLISHERS_MAX = 16
FOREVER_S = 0xFFFF_FFFF
FOREVER_MS = (1 << 48) - 1


@dataclass(slots=True)
class MqttSubscription:
    filter: str
    qos: int
    identifier: int  # 0: none
    shared: str
    selector: str
    policy: str
    no_local: bool
    retain_as_published: bool
    topic: str  # of the filter, without share and conditions
    durable: int = 0  # a number of the session; 0: the subscription ends with the connection
    exclusive: bool = False
    patterns: tuple[str, ...] = ()
    numbers: list[int] = field(default_factory=list)  # of the broker's subscriptions
    ended: bool = False
    wait: str = ""  # until where it is known before it is answered

    def __post_init__(self) -> None:
        self.patterns = patterns(self.topic)

    @property
    def limited(self) -> bool:
        """Messages come by credit."""
        return self.qos > 0 or bool(self.shared)

    def durable_name(self, place: int) -> str:
        return f"{NAME}/{self.durable}/{place}"

    def same_messages(self, other: "MqttSubscription") -> bool:
        """True if the broker's subscriptions of the one serve the other."""
        return self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        local = self.no_local and not (self.durable or self.shared)  # otherwise filtered here
        return (
            self.shared,
            self.selector,
            self.policy,
            local,
            self.topic,
            bool(self.durable),
            self.limited,
            self.exclusive,
        )


_FIELDS = (
    "filter",
    "qos",
    "identifier",
    "shared",
    "selector",
    "policy",
    "no_local",
    "retain_as_published",
    "topic",
    "durable",
    "exclusive",  # records of earlier versions end before it
)


@dataclass(slots=True)
class SessionRecord:
    subscriptions: dict[str, MqttSubscription] = field(default_factory=dict)  # by filter
    publishers: list[int] = field(default_factory=list)  # of this session's connections, the last ones
    last_durable: int = 0

    def connected(self, publisher: int) -> None:
        self.publishers = [*self.publishers, publisher][-PUBLISHERS_MAX:]

    def take_durable(self) -> int:
        self.last_durable += 1
        return self.last_durable

    def to_bytes(self) -> bytes:
        subscriptions = [[getattr(one, name) for name in _FIELDS] for one in self.subscriptions.values()]
        return json.dumps([self.last_durable, self.publishers, subscriptions]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "SessionRecord":
        last, publishers, subscriptions = json.loads(data)
        found = [MqttSubscription(**dict(zip(_FIELDS, one, strict=False))) for one in subscriptions]
        return cls({one.filter: one for one in found}, publishers, last)


def record_of(fields: dict[str, Value], name: str) -> bytes:
    """A record in the answer to RECALL; empty if there is none."""
    value: Any = fields.get(name, b"")
    return value if isinstance(value, bytes) else b""
