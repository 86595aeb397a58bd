"""Configuration schema: one dataclass per table of the configuration file, with defaults and meanings."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tidings.broker.config.jwt import JwtTable
from tidings.broker.config.network import NetworkTable
from tidings.broker.config.policies import SCOPES, PolicyTable, policies_of
from tidings.broker.config.quotas import QuotaTable, quotas_of
from tidings.broker.config.schema_reader import setting
from tidings.broker.config.store import StoreTable
from tidings.broker.config.tls import TlsTable
from tidings.broker.config.tracking import TrackingTable
from tidings.broker.config.tuning import TuningTable
from tidings.delivery.mailbox import SlowPolicy
from tidings.delivery.policy import QueueScope
from tidings.model.destination import Destination, DestinationPattern
from tidings.node.clients.admission import Admission
from tidings.node.limits import BrokerLimits
from tidings.node.settings import NodeSettings

LEVELS = ("debug", "info", "warning", "error")
TYPES = ("string", "int", "float", "bool")
ACTIONS = ("slow", "refuse")
OPERATIONS = ("publish", "subscribe", "browse", "manage", "trace", "advertise", "define", "monitor")
POLICIES = tuple(policy.value for policy in SlowPolicy)
DESTINATION_KINDS = ("queue", "topic")
PROTOCOLS = ("native", "stomp", "websocket", "amqp", "mqtt", "mqtt-websocket", "http")
PORTS = {
    "native": 7300,
    "stomp": 61613,
    "websocket": 61614,
    "amqp": 5672,
    "mqtt": 1883,
    "mqtt-websocket": 8083,
    "http": 8090,
}  # of listeners that name none, by protocol
SPOKEN = ("native", "stomp", "amqp", "mqtt")  # where no listener is configured: web pages need `origins`
_LIMITS, _SETTINGS = BrokerLimits(), NodeSettings()
_BYTES: dict[str, Any] = {"minimum": 1 << 16, "maximum": 1 << 40}
_COUNT: dict[str, Any] = {"minimum": 1, "maximum": 1 << 31}


@dataclass(frozen=True, slots=True)
class BrokerTable:
    name: str = setting("tidings", "the broker's name, shown to clients and in logs")
    id: int = setting(
        0,
        "the broker's number, part of every message id; unique in a network; 0: 1, or, with overlay pan, a random "
        "number chosen at the first start and kept in the data directory",
        minimum=0,
        maximum=0xFFFF_FFFF,
    )
    alternatives: tuple[str, ...] = setting(
        tuple, "host:port of brokers that native clients may turn to when this one is lost or drained; told at login"
    )
    data: str = setting("tidings-data", "the directory of the store and of the users file; created if missing")

    @property
    def number(self) -> int:
        """The number of a broker for which none is drawn at random."""
        return self.id or _SETTINGS.broker_id


@dataclass(frozen=True, slots=True)
class ListenerTable:
    protocol: str = setting("native", "the protocol of the listener")
    host: str = setting("127.0.0.1", "the address to listen on; other machines cannot reach a loopback address")
    port: int = setting(
        PORTS["native"],
        "the port; 0: chosen by the system; not set: the protocol's own (stomp: 61613, websocket: 61614, amqp: 5672, "
        "mqtt: 1883, mqtt-websocket: 8083, http: 8090)",
        minimum=0,
        maximum=65535,
    )
    tls: bool = setting(False, "encrypt connections, with the certificate of [tls]")
    origins: tuple[str, ...] = setting(
        tuple,
        'websocket, mqtt-websocket, http: origins of web pages that may connect, as in "https://example.org"; "*": all',
    )


def default_listeners() -> tuple[ListenerTable, ...]:
    return tuple(ListenerTable(protocol, port=PORTS[protocol]) for protocol in SPOKEN)


@dataclass(frozen=True, slots=True)
class TypesTable:
    destination: str = setting("", "a topic pattern, or queue:… (wildcards too)", reload=True)
    name: str = setting("", "the property's name", reload=True)
    type: str = setting(
        "string", "its type; a message whose property does not have it is refused", choices=TYPES, reload=True
    )


def type_rules(types: Iterable[TypesTable]) -> list[tuple[str, bool, str, int]]:
    """As the forwarding plane takes them: pattern, whether of queues, property, type."""
    patterns = [(DestinationPattern.parse(one.destination), one) for one in types]
    return [(pattern.name, pattern.queue, one.name, TYPES.index(one.type) + 1) for pattern, one in patterns]


@dataclass(frozen=True, slots=True)
class AmqpTable:
    plain_address: str = setting("queue", "the kind of an address that does not name one", choices=DESTINATION_KINDS)


@dataclass(frozen=True, slots=True)
class UsersTable:
    file: str = setting(
        "", "the users file that `tidings user` edits; empty: users.toml in the data directory", reload=True
    )
    allow_anonymous: bool = setting(False, "allow a broker without users to listen on addresses other than loopback")


@dataclass(frozen=True, slots=True)
class AccessTable:
    user: str = setting("", "the user that the rule applies to; * for all users", reload=True)
    group: str = setting("", "or the group whose members it applies to", reload=True)
    operations: tuple[str, ...] = setting(
        tuple, "the operations that it allows or denies", choices=OPERATIONS, reload=True
    )
    destination: str = setting("", "the destinations: a topic pattern, or queue:… (wildcards too)", reload=True)
    type: str = setting(
        "", "or an event type with its subtypes: the names from the root, as in Trade.Sale; * for any", reload=True
    )
    allow: bool = setting(True, "true: the rule allows; false: it denies", reload=True)
    selector: str = setting("", "receive only messages that match this selector (subscribe and browse)", reload=True)


@dataclass(frozen=True, slots=True)
class LimitsTable:
    connections_max: int = setting(_LIMITS.connections_max, "client connections", reload=True, **_COUNT)
    connections_per_address_max: int = setting(
        _LIMITS.connections_per_address_max, "connections of one address", reload=True, **_COUNT
    )
    connections_per_user_max: int = setting(
        _LIMITS.connections_per_user_max, "connections of one user", reload=True, **_COUNT
    )
    login_seconds: float = setting(
        _LIMITS.login_seconds,
        "time limit for a login, and before it for the TLS handshake",
        minimum=0.1,
        maximum=3600,
        reload=True,
    )
    login_failures_max: int = setting(
        _LIMITS.login_failures_max,
        "failed logins after which user or address must wait",
        minimum=1,
        maximum=1000,
        reload=True,
    )
    login_lock_seconds: float = setting(
        _LIMITS.login_lock_seconds,
        "the first wait; it doubles with each further failure",
        minimum=0.1,
        maximum=3600,
        reload=True,
    )
    login_lock_seconds_max: float = setting(
        _LIMITS.login_lock_seconds_max, "the longest wait", minimum=0.1, maximum=86400, reload=True
    )
    heartbeat_ms: int = setting(
        _LIMITS.heartbeat_ms,
        "maximum silence of a client; after twice this time it is disconnected",
        minimum=100,
        maximum=3_600_000,
        reload=True,
    )
    frame_bytes_max: int = setting(
        _LIMITS.frame_bytes_max,
        "maximum length of a frame, and so of a message",
        minimum=1 << 16,
        maximum=1 << 30,
        reload=True,
    )
    output_bytes_max: int = setting(_LIMITS.output_bytes_max, "output queued for one connection", **_BYTES)
    memory_bytes_max: int = setting(
        _LIMITS.memory_bytes_max,
        "memory of the forwarding plane in all; partially received large frames may take half of it",
        **_BYTES,
    )
    stall_ms: int = setting(
        _LIMITS.stall_ms,
        "a subscriber that accepts nothing for this time no longer holds back publishers",
        minimum=1,
        maximum=3_600_000,
    )
    subscriptions_max: int = setting(_SETTINGS.subscriptions_max, "subscriptions of one connection", **_COUNT)
    mailboxes_max: int = setting(_SETTINGS.mailboxes_max, "queues, durable and shared subscriptions in all", **_COUNT)
    transactions_max: int = setting(_SETTINGS.transactions_max, "open transactions of one connection", **_COUNT)
    transaction_bytes_max: int = setting(
        _SETTINGS.transaction_bytes_max, "bytes of messages in one transaction", **_BYTES
    )
    transaction_messages_max: int = setting(
        _SETTINGS.transaction_messages_max,
        "messages in one transaction; all clients wait while it is committed",
        **_COUNT,
    )
    transactions_bytes_max: int = setting(
        _SETTINGS.transactions_bytes_max, "bytes of messages in all open transactions", **_BYTES
    )
    sink_bytes_max: int = setting(
        _SETTINGS.sink_bytes_max, "bytes waiting for one subscription before its slow policy acts", **_BYTES
    )
    messages_bytes_max: int = setting(
        _SETTINGS.messages_bytes_max, "bytes of messages in memory before stored ones are evicted", **_BYTES
    )
    pinned_bytes_max: int = setting(
        _SETTINGS.pinned_bytes_max,
        "bytes of messages kept in memory only, before durable mailboxes use the disk; at most half of "
        "`messages_bytes_max`",
        **_BYTES,
    )
    journal_bytes_max: int = setting(
        _SETTINGS.journal_bytes_max, "bytes on their way to disk before publishers wait", **_BYTES
    )
    retained_bytes_max: int = setting(
        _SETTINGS.retained_bytes_max, "bytes kept on disk for one retained subscription", **_BYTES
    )
    credit_default: int = setting(
        _SETTINGS.credit_default, "messages in flight to a consumer that sets no credit", **_COUNT
    )
    credit_max: int = setting(_SETTINGS.credit_max, "maximum credit of a consumer", **_COUNT)


@dataclass(frozen=True, slots=True)
class DeliveryTable:
    deliveries_max: int = setting(
        _SETTINGS.deliveries_max,
        "delivery attempts before a message becomes a dead letter; of the messages a lost consumer held, only the "
        "oldest counts an attempt",
        minimum=1,
        maximum=1_000_000,
    )
    dead_letters: str = setting(str(_SETTINGS.dead_letters), "the queue that dead letters are moved to")
    bury_expired: bool = setting(
        _SETTINGS.bury_expired, "also move messages that expire in queues and durable subscriptions to the dead letters"
    )
    slow_policies: tuple[str, ...] = setting(
        lambda: POLICIES, "policies for slow subscribers that clients may ask for", choices=POLICIES
    )
    subscription_scope: str = setting(
        _SETTINGS.subscription_scope.value,
        "of durable and shared subscriptions. broker: each broker has its own of a name; network: they have one, kept "
        "by its home and found at all of them (docs/networks.md). It must be the same at all brokers, and needs "
        "routing bdrp",
        choices=SCOPES,
    )


@dataclass(frozen=True, slots=True)
class LoggingTable:
    level: str = setting("info", "the lowest level that is logged", choices=LEVELS, reload=True)
    json: bool = setting(False, "log one JSON object per line", reload=True)
    audit_file: str = setting(
        "",
        "the audit log: logins, refusals and administrative actions as JSON lines (docs/security.md); opened again "
        "by SIGHUP; empty: none",
        reload=True,
    )

    @property
    def audit(self) -> Path | None:
        return Path(self.audit_file) if self.audit_file else None


@dataclass(frozen=True, slots=True)
class MetricsTable:
    enabled: bool = setting(True, "serve /metrics and /health")
    host: str = setting("127.0.0.1", "the address to listen on")
    port: int = setting(8700, "the port; 0: chosen by the system", minimum=0, maximum=65535)
    tls: bool = setting(False, "use HTTPS, with the certificate of [tls]; `require_client` applies here too")
    api: bool = setting(True, "serve the management API below /api/v1 (docs/management.md)")
    capacity: bool = setting(True, "estimate the broker's capacity and publish it")


@dataclass(frozen=True, slots=True)
class AdmissionTable:
    waiting_ms_max: float = setting(0.0, "maximum waiting time; 0: no admission control", minimum=0, maximum=3_600_000)
    probability: float = setting(0.9999, "the share of messages for which it must hold", minimum=0.5, maximum=0.999999)
    action: str = setting(
        "slow",
        "slow: bound what waits in the sockets of publishers; refuse: refuse clients that begin to publish",
        choices=ACTIONS,
    )

    def admission(self) -> Admission | None:
        if not self.waiting_ms_max:
            return None
        return Admission(self.waiting_ms_max / 1000, self.probability, refuses=self.action == "refuse")


@dataclass(frozen=True, slots=True)
class ConsoleTable:
    enabled: bool = setting(False, "run the web console; short form: `console = true` above all tables")
    host: str = setting("127.0.0.1", "the address to listen on; not set: that of [metrics]")
    port: int = setting(
        8700,
        "the port; not set: that of [metrics], whose pages are then served there too; 0: chosen by the system",
        minimum=0,
        maximum=65535,
    )
    tls: bool = setting(False, "use HTTPS, with the certificate of [tls]; browsers need no certificate of their own")
    names: tuple[str, ...] = setting(tuple, "host names under which it is reached, such as that of a reverse proxy")


@dataclass(frozen=True, slots=True)
class Configuration:
    broker: BrokerTable = setting(BrokerTable, "the broker itself")
    listeners: tuple[ListenerTable, ...] = setting(
        default_listeners,
        "addresses on which clients connect, one table each; none: native, STOMP and AMQP on their standard ports",
    )
    store: StoreTable = setting(StoreTable, "the store of messages: a file, or a database")
    types: tuple[TypesTable, ...] = setting(
        tuple, "types of properties that STOMP clients send as text, by destination; the first match decides"
    )
    amqp: AmqpTable = setting(AmqpTable, 'the listeners with protocol = "amqp"')
    tls: TlsTable = setting(TlsTable, "certificates, for listeners, metrics and console with tls = true")
    users: UsersTable = setting(UsersTable, "the users that may log in")
    jwt: JwtTable = setting(JwtTable, "logins by JSON Web Token (docs/security.md)")
    access: tuple[AccessTable, ...] = setting(
        tuple, "access rules; the first that matches decides, and without a match the answer is no"
    )
    network: NetworkTable = setting(NetworkTable, "other brokers, and how messages are routed to them")
    limits: LimitsTable = setting(LimitsTable, "limits")
    admission: AdmissionTable = setting(
        AdmissionTable, "admission control: throttle publishers before messages wait too long"
    )
    delivery: DeliveryTable = setting(DeliveryTable, "failed deliveries, dead letters and slow subscribers")
    policies: tuple[PolicyTable, ...] = setting(tuple, "policies of queues; the first that matches holds")
    quotas: tuple[QuotaTable, ...] = setting(tuple, "quotas of users; the first that matches holds")
    tracking: TrackingTable = setting(TrackingTable, "recording of the paths of messages")
    logging: LoggingTable = setting(LoggingTable, "the log, written to the error output")
    metrics: MetricsTable = setting(MetricsTable, "the HTTP endpoint of metrics and health checks")
    tuning: TuningTable = setting(TuningTable, "heuristics that raise throughput; each can be switched off")
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
            last_values=any(one.protocol.startswith("mqtt") for one in self.listeners),
            slow_policies=frozenset(self.delivery.slow_policies),
            subscription_scope=QueueScope(self.delivery.subscription_scope),
            policies=policies_of(self.policies),
            alternatives=self.broker.alternatives,
            quotas=quotas_of(self.quotas),
        )

    @property
    def pages_share_port(self) -> bool:
        """True if metrics and console have the same address: the console then serves the metrics' pages too."""
        console, metrics = self.console, self.metrics
        return console.enabled and console.port != 0 and (console.host, console.port) == (metrics.host, metrics.port)

    @property
    def encrypts(self) -> bool:
        """True if the certificate of [tls] is needed."""
        pages = (self.metrics, self.console)
        return any(one.tls for one in self.listeners) or any(one.enabled and one.tls for one in pages)

    @property
    def users_file(self) -> Path:
        return Path(self.users.file) if self.users.file else Path(self.broker.data) / "users.toml"


def _named(target: type, table: LimitsTable) -> dict[str, Any]:
    """The keys that are fields of both."""
    known = {one.name for one in fields(target)}
    return {one.name: getattr(table, one.name) for one in fields(table) if one.name in known}
