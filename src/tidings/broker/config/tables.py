"""What may be set: one dataclass for each table of the configuration file, with defaults and meanings."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tidings.broker.config.network import NetworkTable
from tidings.broker.config.schema_reader import setting
from tidings.broker.config.tls import TlsTable
from tidings.broker.config.tracking import TrackingTable
from tidings.delivery.mailbox import SlowPolicy
from tidings.model.destination import Destination, DestinationPattern
from tidings.node.clients.admission import Admission
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings

LEVELS = ("debug", "info", "warning", "error")
TYPES = ("string", "int", "float", "bool")
ACTIONS = ("slow", "refuse")
OPERATIONS = ("publish", "subscribe", "browse", "manage", "trace", "advertise", "define")
POLICIES = tuple(policy.value for policy in SlowPolicy)
DESTINATION_KINDS = ("queue", "topic")
PROTOCOLS = ("native", "stomp", "websocket", "amqp", "mqtt")
PORTS = {
    "native": 7300,
    "stomp": 61613,
    "websocket": 61614,
    "amqp": 5672,
    "mqtt": 1883,
}  # of listeners that name none, by protocol
SPOKEN = ("native", "stomp", "amqp", "mqtt")  # where no listener is configured: web pages need `origins`
_LIMITS, _SETTINGS = BrokerLimits(), NodeSettings()
_BYTES: dict[str, Any] = {"minimum": 1 << 16, "maximum": 1 << 40}
_COUNT: dict[str, Any] = {"minimum": 1, "maximum": 1 << 31}


@dataclass(frozen=True, slots=True)
class BrokerTable:
    name: str = setting("tidings", "what the broker calls itself to clients and in logs")
    id: int = setting(
        0,
        "its number, part of every message id; unique in a network; 0: it is 1, or, if overlay is pan, drawn at the "
        "first start and kept in the data directory",
        minimum=0,
        maximum=0xFFFF_FFFF,
    )
    data: str = setting("tidings-data", "the directory of the store and of the users file; made if it is not there")

    @property
    def number(self) -> int:
        """What the number is where none is drawn."""
        return self.id or _SETTINGS.broker_id


@dataclass(frozen=True, slots=True)
class ListenerTable:
    protocol: str = setting("native", "which protocol is spoken there")
    host: str = setting("127.0.0.1", "the address to listen on; other machines reach only one that is not loopback")
    port: int = setting(
        PORTS["native"],
        "the port; 0: the system chooses; left out: the protocol's own "
        "(stomp: 61613, websocket: 61614, amqp: 5672, mqtt: 1883)",
        minimum=0,
        maximum=65535,
    )
    tls: bool = setting(False, "whether connections are encrypted, with the certificate of [tls]")
    origins: tuple[str, ...] = setting(
        tuple, 'websocket: web pages of which origins may connect, as in "https://example.org"; "*": of all'
    )


def default_listeners() -> tuple[ListenerTable, ...]:
    return tuple(ListenerTable(protocol, port=PORTS[protocol]) for protocol in SPOKEN)


@dataclass(frozen=True, slots=True)
class TypesTable:
    destination: str = setting("", "a topic pattern, or queue:… (wildcards too)", reload=True)
    name: str = setting("", "the property's name", reload=True)
    type: str = setting("string", "what it is; a message where it is not is refused", choices=TYPES, reload=True)


def type_rules(types: Iterable[TypesTable]) -> list[tuple[str, bool, str, int]]:
    """As the forwarding plane takes them: pattern, whether of queues, property, type."""
    patterns = [(DestinationPattern.parse(one.destination), one) for one in types]
    return [(pattern.name, pattern.queue, one.name, TYPES.index(one.type) + 1) for pattern, one in patterns]


@dataclass(frozen=True, slots=True)
class AmqpTable:
    plain_address: str = setting(
        "queue", "what an address is that says neither topic nor queue", choices=DESTINATION_KINDS
    )


@dataclass(frozen=True, slots=True)
class UsersTable:
    file: str = setting(
        "", "the users file that `tidings user` edits; empty: users.toml in the data directory", reload=True
    )
    allow_anonymous: bool = setting(False, "without users, listen on other addresses than loopback all the same")


@dataclass(frozen=True, slots=True)
class AccessTable:
    user: str = setting("", "whom the rule is about: a user's name, or * for everybody", reload=True)
    group: str = setting("", "or the members of a group", reload=True)
    operations: tuple[str, ...] = setting(tuple, "what they do", choices=OPERATIONS, reload=True)
    destination: str = setting("", "where: a topic pattern, or queue:… (wildcards too)", reload=True)
    type: str = setting(
        "", "or an event type and its subtypes: the names from its root on, as in Trade.Sale; * for any", reload=True
    )
    allow: bool = setting(True, "whether they may", reload=True)
    selector: str = setting("", "they receive only what this selector lets through (subscribe and browse)", reload=True)


@dataclass(frozen=True, slots=True)
class LimitsTable:
    connections_max: int = setting(_LIMITS.connections_max, "connections at a time", reload=True, **_COUNT)
    connections_per_address_max: int = setting(
        _LIMITS.connections_per_address_max, "of one address", reload=True, **_COUNT
    )
    connections_per_user_max: int = setting(_LIMITS.connections_per_user_max, "of one user", reload=True, **_COUNT)
    login_seconds: float = setting(
        _LIMITS.login_seconds,
        "how long a client may take to log in, and before that for the handshake of TLS",
        minimum=0.1,
        maximum=3600,
        reload=True,
    )
    login_failures_max: int = setting(
        _LIMITS.login_failures_max,
        "failed log-ins before user or address must wait",
        minimum=1,
        maximum=1000,
        reload=True,
    )
    login_lock_seconds: float = setting(
        _LIMITS.login_lock_seconds,
        "the first wait; doubles with each further failure",
        minimum=0.1,
        maximum=3600,
        reload=True,
    )
    login_lock_seconds_max: float = setting(
        _LIMITS.login_lock_seconds_max, "the longest wait", minimum=0.1, maximum=86400, reload=True
    )
    heartbeat_ms: int = setting(
        _LIMITS.heartbeat_ms,
        "the longest silence; after twice of it a client is taken for dead",
        minimum=100,
        maximum=3_600_000,
        reload=True,
    )
    frame_bytes_max: int = setting(
        _LIMITS.frame_bytes_max,
        "the longest frame, so the largest message",
        minimum=1 << 16,
        maximum=1 << 30,
        reload=True,
    )
    output_bytes_max: int = setting(_LIMITS.output_bytes_max, "output that waits for one connection", **_BYTES)
    memory_bytes_max: int = setting(
        _LIMITS.memory_bytes_max,
        "what the forwarding plane may hold in all; large frames of which only a part has come may take half of it",
        **_BYTES,
    )
    stall_ms: int = setting(
        _LIMITS.stall_ms,
        "a subscriber that takes nothing for so long no longer holds up publishers",
        minimum=1,
        maximum=3_600_000,
    )
    subscriptions_max: int = setting(_SETTINGS.subscriptions_max, "subscriptions of one connection", **_COUNT)
    mailboxes_max: int = setting(_SETTINGS.mailboxes_max, "queues, durable and shared subscriptions", **_COUNT)
    transactions_max: int = setting(_SETTINGS.transactions_max, "open transactions of one connection", **_COUNT)
    transaction_bytes_max: int = setting(_SETTINGS.transaction_bytes_max, "messages in one transaction", **_BYTES)
    transactions_bytes_max: int = setting(_SETTINGS.transactions_bytes_max, "messages in all open ones", **_BYTES)
    sink_bytes_max: int = setting(
        _SETTINGS.sink_bytes_max, "what waits for one subscription before its policy acts", **_BYTES
    )
    messages_bytes_max: int = setting(
        _SETTINGS.messages_bytes_max, "messages in memory before stored ones leave it", **_BYTES
    )
    pinned_bytes_max: int = setting(
        _SETTINGS.pinned_bytes_max,
        "messages that only memory has, before durable mailboxes use the disk; at most half of `messages_bytes_max`",
        **_BYTES,
    )
    journal_bytes_max: int = setting(
        _SETTINGS.journal_bytes_max, "messages on their way to disk before publishers wait", **_BYTES
    )
    retained_bytes_max: int = setting(
        _SETTINGS.retained_bytes_max, "messages kept on disk for one retained subscription", **_BYTES
    )
    credit_default: int = setting(
        _SETTINGS.credit_default, "messages under way to a consumer that names no number", **_COUNT
    )
    credit_max: int = setting(_SETTINGS.credit_max, "the most a consumer may ask for", **_COUNT)


@dataclass(frozen=True, slots=True)
class DeliveryTable:
    deliveries_max: int = setting(
        _SETTINGS.deliveries_max,
        "so many times a message is tried, then it is a dead letter; of what a lost consumer had the oldest counts",
        minimum=1,
        maximum=1_000_000,
    )
    dead_letters: str = setting(str(_SETTINGS.dead_letters), "where dead letters go: a queue")
    bury_expired: bool = setting(
        _SETTINGS.bury_expired, "whether what expires in queues and durable subscriptions becomes a dead letter too"
    )
    slow_policies: tuple[str, ...] = setting(
        lambda: POLICIES, "which policies subscribers may ask for", choices=POLICIES
    )


@dataclass(frozen=True, slots=True)
class LoggingTable:
    level: str = setting("info", "what is worth a line", choices=LEVELS, reload=True)
    json: bool = setting(False, "one JSON object a line, for programs", reload=True)


@dataclass(frozen=True, slots=True)
class MetricsTable:
    enabled: bool = setting(True, "whether to answer /metrics and /health")
    host: str = setting("127.0.0.1", "the address to listen on")
    port: int = setting(8700, "the port; 0: the system chooses", minimum=0, maximum=65535)
    tls: bool = setting(False, "whether it is https, with the certificate of [tls]; `require_client` holds here too")
    capacity: bool = setting(True, "whether to estimate what the broker can carry, and tell")


@dataclass(frozen=True, slots=True)
class AdmissionTable:
    waiting_ms_max: float = setting(
        0.0, "the longest predicted waiting time; 0: everybody is admitted", minimum=0, maximum=3_600_000
    )
    probability: float = setting(0.9999, "the share of messages for which it holds", minimum=0.5, maximum=0.999999)
    action: str = setting(
        "slow", "slow: read less from all publishers; refuse: turn away those who begin to publish", choices=ACTIONS
    )

    def admission(self) -> Admission | None:
        if not self.waiting_ms_max:
            return None
        return Admission(
            self.waiting_ms_max / 1000, self.probability, refuses=self.action == "refuse", clock=time.monotonic
        )


@dataclass(frozen=True, slots=True)
class ConsoleTable:
    enabled: bool = setting(False, "whether to run the web console; `console = true` above all tables says it too")
    host: str = setting("127.0.0.1", "the address to listen on; unless it is set, that of [metrics]")
    port: int = setting(
        8700,
        "the port; unless it is set, that of [metrics], whose pages are there too; 0: the system chooses",
        minimum=0,
        maximum=65535,
    )
    tls: bool = setting(False, "whether it is https, with the certificate of [tls]; browsers need to show none")
    names: tuple[str, ...] = setting(tuple, "host names under which it is called, such as that of a proxy before it")


@dataclass(frozen=True, slots=True)
class Configuration:
    broker: BrokerTable = setting(BrokerTable, "the broker itself")
    listeners: tuple[ListenerTable, ...] = setting(
        default_listeners,
        "where clients connect; one table for each; without any, native, STOMP and AMQP on their own ports",
    )
    types: tuple[TypesTable, ...] = setting(
        tuple, "types of properties that STOMP clients send as text, by destination; the first that fits counts"
    )
    amqp: AmqpTable = setting(AmqpTable, 'the listeners with protocol = "amqp"')
    tls: TlsTable = setting(TlsTable, "certificates, for listeners, metrics and console with tls = true")
    users: UsersTable = setting(UsersTable, "who may log in")
    access: tuple[AccessTable, ...] = setting(tuple, "who may do what; the first rule that fits decides, none: no")
    network: NetworkTable = setting(NetworkTable, "other brokers, and how messages are routed to them")
    limits: LimitsTable = setting(LimitsTable, "how much of everything")
    admission: AdmissionTable = setting(AdmissionTable, "whether publishers are held back before messages wait long")
    delivery: DeliveryTable = setting(DeliveryTable, "what becomes of messages that nobody takes")
    tracking: TrackingTable = setting(TrackingTable, "what is recorded about where messages went")
    logging: LoggingTable = setting(LoggingTable, "what the broker writes to its error output")
    metrics: MetricsTable = setting(MetricsTable, "the endpoint for Prometheus and for health checks")
    console: ConsoleTable = setting(ConsoleTable, "the web console, a process beside the broker (docs/console.md)")

    def limits_of(self) -> BrokerLimits:
        """For the driver."""
        return BrokerLimits(**_named(BrokerLimits, self.limits))

    def settings(self) -> NodeSettings:
        """For the node."""
        return replace(
            NodeSettings(**_named(NodeSettings, self.limits)),
            broker_id=self.broker.number,
            deliveries_max=self.delivery.deliveries_max,
            dead_letters=Destination.parse(self.delivery.dead_letters),
            bury_expired=self.delivery.bury_expired,
            slow_policies=frozenset(self.delivery.slow_policies),
        )

    @property
    def pages_share_port(self) -> bool:
        """Whether metrics and console were given the same address: then the console shows the metrics' pages."""
        console, metrics = self.console, self.metrics
        return console.enabled and console.port != 0 and (console.host, console.port) == (metrics.host, metrics.port)

    @property
    def encrypts(self) -> bool:
        """Whether the certificate of [tls] is needed."""
        pages = (self.metrics, self.console)
        return any(one.tls for one in self.listeners) or any(one.enabled and one.tls for one in pages)

    @property
    def users_file(self) -> Path:
        return Path(self.users.file) if self.users.file else Path(self.broker.data) / "users.toml"


def _named(target: type, table: LimitsTable) -> dict[str, Any]:
    """The keys that are fields of both."""
    known = {one.name for one in fields(target)}
    return {one.name: getattr(table, one.name) for one in fields(table) if one.name in known}
