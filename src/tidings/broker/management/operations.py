"""The table of management operations: routing, validation, access rights and documentation all read it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

from tidings.broker.management import brokers, destinations, networks, queues, subscriptions
from tidings.broker.management.call import Call
from tidings.broker.management.parameters import Parameter
from tidings.errors import UsageError
from tidings.routing.unicast.protocol import COST_MAX

PREFIX = "/api/v1"
JAEGER = "/api"  # where readers of Jaeger's query API look for /traces/ID
PAGE, PAGE_MAX, MESSAGES_MAX = 100, 200, 256
Handler: TypeAlias = Callable[[Call], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str  # with {parameters}
    name: str
    summary: str
    right: str  # the access right it needs, for the documentation; the engine checks it
    handler: Handler
    parameters: tuple[Parameter, ...] = ()
    returns: tuple[str, ...] = ()  # keys that the answer always has

    def match(self, path: str) -> dict[str, str] | None:
        """The path's parameters, decoded; None: another path."""
        pattern, segments = self.path.split("/"), path.split("/")
        if len(pattern) != len(segments):
            return None
        found: dict[str, str] = {}
        for expected, segment in zip(pattern, segments, strict=True):
            if expected.startswith("{"):
                try:
                    found[expected[1:-1]] = unquote(segment, errors="strict")
                except UnicodeDecodeError:
                    raise UsageError("E_API_PARAMETER", "the path is not valid UTF-8") from None
            elif expected != segment:
                return None
        return found


PAGED = (
    Parameter("offset", "query", "integer", "Items to skip.", 0, maximum=1 << 31),
    Parameter("limit", "query", "integer", "Maximum number of items.", PAGE, minimum=1, maximum=PAGE_MAX),
    Parameter("containing", "query", "string", "Only items whose names contain this text.", "", length_max=250),
)
LIST = ("total", "items")
LEFT = ("phase", "left", "moved", "in_transit", "waiting")
ROUTER_MAX = (1 << 32) - 1
QUEUE = Parameter("queue", "path", "string", "Name of the queue, without the prefix queue:.", length_max=255)
MESSAGES = Parameter(
    "messages", "body", "integers", "Tags of messages, as listed; empty: all.", (), minimum=1, length_max=MESSAGES_MAX
)
MESSAGE_ID = Parameter(
    "id", "path", "string", "The message id, 32 hexadecimal digits.", length_max=40, pattern="^[0-9a-f]{32}$"
)
AFTER = Parameter(
    "after",
    "query",
    "string",
    "The position `next` of the page before.",
    "",
    length_max=50,
    pattern="^([0-9]+[.][0-9])?$",
)
SEE, ADMINISTER, MANAGE_QUEUE = "monitor or manage on >", "manage on >", "manage on the queue"

OPERATIONS = (
    Operation(
        "GET", "/status", "status", "State and version of the broker.", SEE, brokers.status, returns=("version",)
    ),
    Operation("GET", "/capacity", "capacity", "Estimated capacity.", SEE, brokers.capacity, returns=("capacity",)),
    Operation(
        "GET",
        "/destinations",
        "listDestinations",
        "Destinations of subscriptions.",
        SEE,
        destinations.destinations,
        PAGED,
        LIST,
    ),
    Operation("GET", "/traffic", "listTraffic", "Rates by destination.", SEE, destinations.traffic, PAGED, LIST),
    Operation("GET", "/queues", "listQueues", "Queues, the fullest first.", SEE, queues.find, PAGED, LIST),
    Operation(
        "POST",
        "/queues",
        "createQueue",
        "Create a queue, unless it exists.",
        MANAGE_QUEUE,
        queues.create,
        (Parameter("name", "body", "string", "Name of the queue, without the prefix queue:.", length_max=255),),
        ("queue", "created"),
    ),
    Operation("GET", "/queues/{queue}", "getQueue", "One queue.", SEE, queues.show, (QUEUE,), ("name", "waiting")),
    Operation(
        "DELETE",
        "/queues/{queue}",
        "deleteQueue",
        "Delete a queue without consumers and messages.",
        MANAGE_QUEUE,
        queues.delete,
        (
            QUEUE,
            Parameter(
                "force",
                "query",
                "boolean",
                "Delete it with its messages, and end its consumers' connections.",
                False,
            ),
        ),
        ("count",),
    ),
    Operation(
        "GET",
        "/queues/{queue}/messages",
        "browseQueue",
        "Messages that wait, without consuming them.",
        "browse on the queue",
        queues.browse,
        (
            QUEUE,
            Parameter("limit", "query", "integer", "Maximum number.", 50, minimum=1, maximum=MESSAGES_MAX),
            Parameter("selector", "query", "string", "Only messages that match this selector.", "", length_max=1_000),
            Parameter(
                "after",
                "query",
                "string",
                "The position `next` of the page before.",
                "",
                0,
                0,
                50,
                "^([0-9]+[.][0-9])?$",
            ),
        ),
        ("items", "more", "next"),
    ),
    Operation(
        "POST",
        "/queues/{queue}/purge",
        "purgeQueue",
        "Delete waiting messages.",
        MANAGE_QUEUE,
        queues.purge,
        (QUEUE, MESSAGES),
        ("count",),
    ),
    Operation(
        "POST",
        "/queues/{queue}/move",
        "moveMessages",
        "Move waiting messages to another queue.",
        "manage on the queue, publish on the target",
        queues.move,
        (
            QUEUE,
            Parameter("target", "body", "string", "Name of the other queue, without queue:.", length_max=255),
            MESSAGES,
        ),
        ("count",),
    ),
    Operation("GET", "/policies", "listPolicies", "Policies of queues, in order.", SEE, queues.policies, PAGED, LIST),
    Operation("GET", "/subscriptions", "listSubscriptions", "Subscriptions.", SEE, subscriptions.find, PAGED, LIST),
    Operation("GET", "/durables", "listDurables", "Durable subscriptions.", SEE, subscriptions.durables, PAGED, LIST),
    Operation(
        "DELETE",
        "/durables/{name}",
        "removeDurable",
        "Remove a durable subscription without subscribers.",
        f"{ADMINISTER}; of a shared one: on its topic",
        subscriptions.remove,
        (
            Parameter("name", "path", "string", "Its name."),
            Parameter("owner", "query", "string", "Its owner, user/client id, as listed.", ""),
            Parameter("shared", "query", "boolean", "It is a shared one, which has no owner.", False),
        ),
        ("removed",),
    ),
    Operation("GET", "/connections", "listConnections", "Client connections.", SEE, brokers.connections, PAGED, LIST),
    Operation(
        "DELETE",
        "/connections/{number}",
        "closeConnection",
        "Close a client connection.",
        ADMINISTER,
        brokers.close_connection,
        (Parameter("number", "path", "integer", "Its number, as listed.", maximum=(1 << 32) - 1),),
        ("closed",),
    ),
    Operation(
        "GET",
        "/network/explain",
        "explainMessage",
        "Brokers that a message published here would be sent to, with the interests and next hops.",
        SEE,
        networks.explain,
        (
            Parameter("destination", "query", "string", "Its topic.", length_max=1000),
            Parameter("attributes", "query", "string", "Its attributes, a JSON object.", "{}", length_max=10_000),
        ),
    ),
    Operation(
        "GET",
        "/network/explain/selector",
        "explainSelector",
        "What a subscription costs on links, and brokers with interests in some of its messages.",
        SEE,
        networks.explain_selector,
        (
            Parameter("destination", "query", "string", "Its topic, or a pattern of topics.", length_max=1000),
            Parameter("selector", "query", "string", "Its selector.", "", length_max=10_000),
        ),
    ),
    Operation("GET", "/network/routes", "listRoutes", "Routes to other brokers.", SEE, networks.routes, PAGED, LIST),
    Operation(
        "GET",
        "/network/interests",
        "listInterests",
        "What this broker asks of others, the costliest on links first, and how much of it came in vain.",
        SEE,
        networks.interests,
        PAGED,
        LIST,
    ),
    Operation(
        "GET",
        "/network/covering",
        "listCovering",
        "Tables of routing by covering: advertisements, subscriptions, preserved ones, what neighbours were told.",
        SEE,
        networks.covering,
        PAGED,
        LIST,
    ),
    Operation(
        "DELETE",
        "/network/brokers/{router}",
        "forgetBroker",
        "Forget a broker that was removed for good: its interests, and messages that wait for it.",
        ADMINISTER,
        networks.forget_broker,
        (
            Parameter("router", "path", "integer", "Its broker id.", minimum=1, maximum=ROUTER_MAX),
            Parameter("queue", "query", "string", "Move the messages to this queue; empty: drop them.", ""),
        ),
        ("forgotten", "dropped", "moved"),
    ),
    Operation("GET", "/network/peers", "listPeers", "Peers of this broker.", SEE, networks.peers, returns=LIST),
    Operation(
        "POST",
        "/network/peers",
        "addPeer",
        "Dial another broker from now on, also after a restart.",
        ADMINISTER,
        networks.add_peer,
        (
            Parameter("address", "body", "string", "host:port of its links.", length_max=300),
            Parameter("router", "body", "integer", "Its broker id; 0: any that answers.", 0, maximum=ROUTER_MAX),
            Parameter("certificate_name", "body", "string", "Common name of its certificate.", "", length_max=250),
            Parameter("cost", "body", "integer", "Cost of the link; 0: its latency.", 0, maximum=COST_MAX),
        ),
        ("added",),
    ),
    Operation(
        "DELETE",
        "/network/peers/{peer}",
        "removePeer",
        "Dial a peer no longer, also after a restart.",
        ADMINISTER,
        networks.remove_peer,
        (Parameter("peer", "path", "string", "Its address or broker id.", length_max=300),),
        ("removed",),
    ),
    Operation(
        "GET", "/network/leaving", "showLeaving", "How far this broker has left.", SEE, networks.leaving, returns=LEFT
    ),
    Operation(
        "POST",
        "/network/leaving",
        "leaveNetwork",
        "Leave the network: clients are asked to move, messages in transit are passed on, then the broker ends.",
        ADMINISTER,
        networks.leave,
        (Parameter("seconds", "body", "integer", "At most this long.", 30, minimum=1, maximum=3600),),
        LEFT,
    ),
    Operation(
        "POST",
        "/network/held/release",
        "releaseHeld",
        "Give the messages that are held since the store was replaced to the subscribers there are now.",
        ADMINISTER,
        networks.release_held,
        returns=("released",),
    ),
    Operation("GET", "/users", "listUsers", "Users and their groups.", SEE, brokers.users, PAGED, LIST),
    Operation("GET", "/access", "listAccess", "Access rules, in order.", SEE, brokers.access, PAGED, LIST),
    Operation("GET", "/quotas", "listQuotas", "Users' quotas and use.", SEE, brokers.quotas, PAGED, LIST),
    Operation(
        "POST",
        "/configuration/check",
        "checkConfiguration",
        "Check the configuration files without applying them.",
        ADMINISTER,
        brokers.check_configuration,
        returns=("valid", "problems"),
    ),
    Operation(
        "POST",
        "/configuration/reload",
        "reloadConfiguration",
        "Reload configuration, users and certificates.",
        ADMINISTER,
        brokers.reload_configuration,
        returns=("reloaded", "problems"),
    ),
    Operation(
        "POST",
        "/broker/switch-over",
        "switchOver",
        "Hand the store over to a standby broker; this process becomes a standby.",
        ADMINISTER,
        brokers.switch_over,
        returns=("switching",),
    ),
    Operation(
        "POST",
        "/store/backup",
        "backUpStore",
        "Write a copy of the store in a file to the folder `backups` of the data directory, while it is in use.",
        ADMINISTER,
        brokers.back_up,
        (Parameter("name", "body", "string", "The name of the new file.", length_max=100),),
        ("file", "bytes"),
    ),
    Operation(
        "GET",
        "/messages/{id}/trace",
        "traceMessage",
        "Path of a message through the network.",
        "trace or monitor on >",
        brokers.trace,
        (
            Parameter(
                "id",
                "path",
                "string",
                "The message id, 32 hexadecimal digits.",
                length_max=40,
                pattern="^[0-9a-f]{32}$",
            ),
            Parameter("everywhere", "query", "boolean", "Ask brokers outside the route too.", False),
            Parameter("why", "query", "string", "A subscriber: why it has the message, or not.", "", length_max=600),
            Parameter("destination", "query", "string", "With why: where it was sent to.", "", length_max=255),
            Parameter("attributes", "query", "string", "With why: its properties, a JSON object.", "", length_max=4096),
        ),
        ("message", "hops", "reasons"),
    ),
    Operation(
        "GET",
        "/messages",
        "findMessages",
        "Messages with a value of an attribute that [tracking] keys names; the newest, oldest first.",
        "trace or monitor on >",
        brokers.find_messages,
        (
            Parameter("key", "query", "string", "NAME=VALUE", length_max=4096),
            Parameter("since_ms", "query", "integer", "Not older than this, in ms since 1970.", 0),
            Parameter("until_ms", "query", "integer", "Not younger than this; 0: now.", 0),
            Parameter("count", "query", "integer", "Messages at most, up to 1000.", 100),
        ),
        ("messages", "more", "since_ms", "unasked", "unrecorded"),
    ),
    Operation(
        "GET",
        "/traces/{id}",
        "getTrace",
        "Path of a message, or of those with this trace id, in the form of Jaeger's query API, for Grafana.",
        "trace or monitor on >",
        brokers.jaeger_trace,
        (
            Parameter("id", "path", "string", "A message id, or a trace id: 32 hexadecimal digits.", length_max=40),
            Parameter("everywhere", "query", "boolean", "Ask brokers outside the route too.", False),
        ),
        ("data", "total"),
    ),
)
