"""Checks a configuration beyond the type and range of each key: values that must fit together."""

import ipaddress
import re
from collections.abc import Iterator, Sequence

from tidings.broker.config import jwt, policies, quotas
from tidings.broker.config.network import NetworkTable
from tidings.broker.config.schema_reader import Problem
from tidings.broker.config.tables import AccessTable, Configuration, LimitsTable, ListenerTable, TypesTable
from tidings.broker.config.tracking import TrackingTable
from tidings.broker.links.addresses import is_address
from tidings.broker.security.access import pattern_of_rule
from tidings.delivery.policy import QueueScope
from tidings.errors import TidingsError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type import EventType
from tidings.model.message import check_property_name
from tidings.model.selector import Selector
from tidings.routing.registry import SCHEMES

SELECTABLE = {"subscribe", "browse"}
# As browsers write them, and they are compared as they are: in small letters, without a path. null: of a file.
ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#\sA-Z]+")


class Checker:
    def __init__(self, configuration: Configuration, protocols: Sequence[str]) -> None:
        self._configuration = configuration
        self._protocols = protocols

    def problems(self) -> Iterator[Problem]:
        configuration = self._configuration
        yield from self._broker()
        if not configuration.listeners:
            yield Problem(
                ("listeners",), "no listener: no client could connect", "remove the key, or add a [[listeners]] table"
            )
        for number, listener in enumerate(configuration.listeners):
            yield from self._listener(number, listener)
        for number, types in enumerate(configuration.types):
            yield from _types(number, types)
        yield from self._alternatives()
        yield from self._store()
        yield from self._tls()
        for number, rule in enumerate(configuration.access):
            yield from _access(number, rule)
            yield from self._types_there(number, rule)
        yield from self._delivery()
        routing = configuration.network.routing if configuration.network.name else "bdrp"
        for number, policy in enumerate(configuration.policies):
            yield from policies.problems(number, policy, routing)
        yield from jwt.problems(configuration.jwt)
        for number, quota in enumerate(configuration.quotas):
            yield from quotas.problems(number, quota)
        yield from self._network()
        yield from self._tracking()
        yield from self._console()
        yield from self._pages()
        yield from self._limits()

    def _types_there(self, number: int, rule: AccessTable) -> Iterator[Problem]:
        network = self._configuration.network
        if rule.type and network.name and not SCHEMES[network.routing].typed:
            reason = f"routing {network.routing} carries no event types: the rule would never apply"
            yield Problem(("access", number, "type"), reason, 'set network.routing = "hermes", or name a destination')

    def _broker(self) -> Iterator[Problem]:
        if not self._configuration.broker.data:
            yield Problem(("broker", "data"), "it is empty", "name a directory")
        if not self._configuration.broker.name:
            yield Problem(("broker", "name"), "it is empty", "give a name")

    def _store(self) -> Iterator[Problem]:
        table, broker = self._configuration.store, self._configuration.broker
        if table.url and not table.url.startswith(("postgresql://", "postgres://")):
            yield Problem(("store", "url"), "it is no address of a database", 'as in "postgresql://user@host/database"')
        if table.url and not broker.id:
            reason = "store.url needs it: messages are kept under this number, and one database may serve many brokers"
            yield Problem(("broker", "id"), reason, "give each broker of the database a number of its own")
        for key in ("password_file", "require_synchronous"):
            if getattr(table, key) and not table.url:
                yield Problem(("store", key), "there is no store.url", "remove it, or name a database")

    def _listener(self, number: int, listener: ListenerTable) -> Iterator[Problem]:
        at = ("listeners", number)
        if listener.protocol not in self._protocols:
            offered = ", ".join(self._protocols)
            yield Problem(
                (*at, "protocol"), f"{listener.protocol!r} is not a supported protocol", f"supported: {offered}"
            )
        if listener.origins and "websocket" not in listener.protocol and listener.protocol != "http":
            yield Problem(
                (*at, "origins"),
                "origins apply to listeners for web pages only",
                'remove the key, or set protocol = "websocket", "mqtt-websocket" or "http"',
            )
        for place, origin in enumerate(listener.origins):
            if not ORIGIN.fullmatch(origin):
                remedy = 'give scheme and host, as in "https://example.org", or "*"'
                yield Problem((*at, "origins", place), f"{origin!r} is not a web origin", remedy)
        if not listener.host:
            yield Problem((*at, "host"), "it is empty", "give an address; 0.0.0.0 listens on all interfaces")
        if listener.tls and not self._configuration.tls.certificate:
            yield Problem((*at, "tls"), "TLS needs a certificate", "set certificate and key in [tls]")
        for other in self._configuration.listeners[:number]:
            if listener.port and (other.host, other.port) == (listener.host, listener.port):
                yield Problem(
                    (*at, "port"), f"port {listener.port} is used by an earlier listener", "choose another port"
                )

    def _alternatives(self) -> Iterator[Problem]:
        for place, address in enumerate(self._configuration.broker.alternatives):
            if not is_address(address):
                at = ("broker", "alternatives", place)
                yield Problem(at, f"{address!r} is not host:port", 'write "10.0.0.2:7300"')

    def _tls(self) -> Iterator[Problem]:
        tls = self._configuration.tls
        if tls.key and not tls.certificate:
            yield Problem(("tls", "key"), "a key without a certificate", "set tls.certificate")
        if tls.require_client and not tls.client_ca:
            yield Problem(("tls", "require_client"), "no authority to verify client certificates", "set client_ca")

    def _console(self) -> Iterator[Problem]:
        configuration = self._configuration
        plain = any(one.protocol == "native" and not one.tls for one in configuration.listeners)
        if configuration.console.enabled and not plain:
            remedy = "add one on loopback, or run `tidings console` with --tls-ca"
            yield Problem(("console", "enabled"), "the console needs a native listener without TLS", remedy)

    def _pages(self) -> Iterator[Problem]:
        """Metrics and console may share a port with each other, but with no other listener."""
        configuration, network = self._configuration, self._configuration.network
        taken = {(one.host, one.port): "a listener" for one in configuration.listeners}
        if network.name and network.accept:
            taken.setdefault((network.host, network.port), "[network]")
        for name in ("metrics", "console"):
            table = getattr(configuration, name)
            if table.enabled and table.tls and not configuration.tls.certificate:
                yield Problem((name, "tls"), "TLS needs a certificate", "set certificate and key in [tls]")
            if table.enabled and table.port and (owner := taken.get((table.host, table.port))):
                yield Problem((name, "port"), f"port {table.port} is used by {owner}", "choose another port")
        metrics = configuration.metrics
        if metrics.enabled and configuration.pages_share_port and metrics.tls != configuration.console.tls:
            reason = f"metrics and console share port {metrics.port}, but only one of them uses TLS"
            yield Problem(("metrics", "tls"), reason, "set tls in both, or choose another port")

    def _limits(self) -> Iterator[Problem]:
        limits, default = self._configuration.limits, LimitsTable()
        if limits.credit_max < limits.credit_default != default.credit_default:  # which gives way if nobody chose it
            reason = f"{limits.credit_default} is above credit_max, {limits.credit_max}"
            yield Problem(("limits", "credit_default"), reason, "lower it, or raise credit_max")
        if limits.pinned_bytes_max > limits.messages_bytes_max // 2:
            # Publishers wait before messages_bytes_max is reached; the disk must come into use well before that.
            reason = f"{limits.pinned_bytes_max} is more than half of messages_bytes_max, {limits.messages_bytes_max}"
            yield Problem(("limits", "pinned_bytes_max"), reason, "lower it, or raise messages_bytes_max")

    def _tracking(self) -> Iterator[Problem]:
        table = self._configuration.tracking
        if table.bits % 64:
            yield Problem(
                ("tracking", "bits"), f"{table.bits} is not a multiple of 64", "choose one, for example 65536"
            )
            return
        if table.bits_max < table.bits and table.bits_max != TrackingTable().bits_max:  # which gives way if not chosen
            reason = f"{table.bits_max} is below bits, {table.bits}"
            yield Problem(("tracking", "bits_max"), reason, "raise it to at least bits: filters only grow")
        if table.skew_between_brokers_ms < table.skew_ms + table.jitter_ms:
            reason = "less than the sum of skew_ms and jitter_ms: messages would be missed"
            yield Problem(("tracking", "skew_between_brokers_ms"), reason, "raise it, or lower skew_ms or jitter_ms")
        judgement = table.judgement()
        if judgement is not None and judgement.problem and table.accuracy == "refuse":
            yield Problem(("tracking",), judgement.problem, "compute fitting parameters with `tidings plan tracking`")

    def _pan(self, network: NetworkTable) -> Iterator[Problem]:
        if not network.accept:
            yield Problem(
                ("network", "accept"), "with overlay pan, other brokers must reach this one", "remove accept = false"
            )
        for key in ("join", "address"):
            if getattr(network, key) and not is_address(getattr(network, key)):
                yield Problem(("network", key), "not host:port", "write it as in 10.0.0.5:7301")
        if not network.address and network.host in ("0.0.0.0", "::"):
            yield Problem(
                ("network", "address"),
                f"other brokers cannot connect to {network.host}",
                "set the address at which they reach this broker",
            )

    def _network(self) -> Iterator[Problem]:
        network, broker = self._configuration.network, self._configuration.broker
        if not network.name:
            if network != NetworkTable():
                yield Problem(("network",), "the network has no name", 'set name = "…", the same on every broker')
            return
        proof = network.secret_file or network.certificate
        if not (proof or network.insecure):
            remedy = (
                "configure a link secret (secret_file) or certificates (certificate and ca), or set insecure = true"
            )
            yield Problem(("network",), "peers would not be authenticated", remedy)
        if proof and network.insecure:
            yield Problem(
                ("network", "insecure"),
                "contradicts secret_file or certificate, which authenticate peers",
                "remove insecure = true",
            )
        if bool(network.certificate) != bool(network.ca) or (network.key and not network.certificate):
            yield Problem(("network", "certificate"), "certificate and ca are needed together", "set both or neither")
        if network.overlay == "pan":
            yield from self._pan(network)
        elif network.join or network.address:
            yield Problem(("network", "overlay"), "join and address apply to overlay pan only", 'set overlay = "pan"')
        if network.encoding_bits % 64:
            yield Problem(
                ("network", "encoding_bits"),
                f"{network.encoding_bits} is not a multiple of 64",
                "give a multiple of 64",
            )
        for number, pattern in enumerate(network.advertise):
            try:
                queue = DestinationPattern.parse(pattern).queue
            except TidingsError as error:
                yield Problem(("network", "advertise", number), error.reason, "give a pattern such as orders.>")
            else:
                if queue:
                    yield Problem(
                        ("network", "advertise", number),
                        "queues are not advertised between brokers",
                        "give a topic pattern",
                    )
        if SCHEMES[network.routing].typed and network.overlay != "pan":
            yield Problem(("network", "routing"), f"{network.routing} needs overlay pan", 'set overlay = "pan"')
        if SCHEMES[network.routing].needs_map and network.unicast != "link-state":
            yield Problem(
                ("network", "routing"), f"{network.routing} needs link-state routing", 'set unicast = "link-state"'
            )
        taken = {(listener.host, listener.port) for listener in self._configuration.listeners}
        if network.accept and network.port and (network.host, network.port) in taken:
            yield Problem(("network", "port"), f"port {network.port} is used by a listener", "choose another port")
        yield from _peers(network, broker.id or (0 if network.overlay == "pan" else broker.number))

    def _delivery(self) -> Iterator[Problem]:
        delivery = self._configuration.delivery
        try:
            queue = Destination.parse(delivery.dead_letters).queue
        except TidingsError as error:
            yield Problem(("delivery", "dead_letters"), error.reason, "name a queue: queue:dead-letters")
        else:
            if not queue:
                yield Problem(("delivery", "dead_letters"), "not a queue", "name a queue: queue:dead-letters")
        network = self._configuration.network
        if delivery.subscription_scope == QueueScope.NETWORK.value and network.name and network.routing != "bdrp":
            reason = f"routing {network.routing} does not carry subscriptions of the network"
            remedy = 'set network.routing = "bdrp", or subscription_scope = "broker"'
            yield Problem(("delivery", "subscription_scope"), reason, remedy)
        if not delivery.slow_policies:
            yield Problem(
                ("delivery", "slow_policies"), "without a policy, no client could subscribe", "name at least one"
            )


def _types(number: int, types: TypesTable) -> Iterator[Problem]:
    at = ("types", number)
    try:
        DestinationPattern.parse(types.destination)
    except TidingsError as error:
        yield Problem((*at, "destination"), error.reason, "give a pattern such as orders.> or queue:orders")
    try:
        check_property_name(types.name)
    except TidingsError as error:
        yield Problem((*at, "name"), error.reason, "name a property")


def _access(number: int, rule: AccessTable) -> Iterator[Problem]:
    at = ("access", number)
    if bool(rule.user) == bool(rule.group):
        yield Problem(at, "a rule names either a user or a group", 'set one of them: user = "name" or group = "name"')
    if not rule.operations:
        yield Problem(at, "a rule without operations has no effect", 'set operations = ["publish", "subscribe"]')
    if rule.type and rule.destination:
        yield Problem(at, "a rule names either a destination or an event type", "remove type or destination")
    try:
        pattern_of_rule(rule)
    except TidingsError as error:
        key, remedy = ("type", "Trade or Trade.Sale") if rule.type else ("destination", "orders.> or queue:orders")
        yield Problem((*at, key), error.reason, f"give a pattern such as {remedy}")
    else:
        yield from _type_rule(at, rule) if rule.type else ()
    only_types = set(rule.operations) & {"advertise", "define"}
    if rule.destination and only_types:
        yield Problem((*at, "operations"), f"{min(only_types)} applies to event types only", 'name one: type = "Trade"')
    if not rule.selector:
        return
    if not rule.allow or not set(rule.operations) <= SELECTABLE:
        remedy = "use selector only with allow = true and the operations subscribe and browse"
        yield Problem((*at, "selector"), "a selector restricts received messages only", remedy)
    try:
        Selector(rule.selector)
    except TidingsError as error:
        yield Problem((*at, "selector"), str(error), "correct the selector")


def _type_rule(at: tuple[str | int, ...], rule: AccessTable) -> Iterator[Problem]:
    """A rule that no type can ever meet is a mistake, and one that denies would be a dangerous one."""
    names = rule.type.split(".")
    for name in names:
        try:
            if name not in ("*", ">"):
                EventType(name)
        except TidingsError as error:
            yield Problem((*at, "type"), error.reason, "name types as in Trade.Sale, from the root on")
    if twice := {name for name in names if name != "*" and names.count(name) > 1}:
        yield Problem(
            (*at, "type"), f"{min(twice)} is named twice, but no type is its own ancestor", "name each type once"
        )
    if everywhere := {"trace", "monitor"} & set(rule.operations):
        remedy = 'write a rule of its own with destination = ">"'
        yield Problem((*at, "operations"), f"the right to {min(everywhere)} cannot be limited to a type", remedy)


def _peers(network: NetworkTable, router: int) -> Iterator[Problem]:
    """`router`: the number of this broker; 0: it is not known yet."""
    seen: set[int] = set()
    for number, peer in enumerate(network.peers):
        at = ("network", "peers", number)
        if peer.address and not all(map(is_address, peer.address.split(","))):
            yield Problem((*at, "address"), f"{peer.address!r} is not host:port", 'write "10.0.0.2:7301"')
        if not (peer.address or peer.router):
            yield Problem(at, "neither address nor router is set", "set at least one of them")
        if peer.router and peer.router == router:
            yield Problem((*at, "router"), f"{router} is this broker's own id", "name another broker")
        if peer.router and peer.router in seen:
            yield Problem((*at, "router"), f"{peer.router} is named twice", "write one table per peer")
        for key in ("cost", "delay_ms", "bandwidth_bytes_s"):
            if getattr(peer, key) and not peer.router:
                yield Problem((*at, key), "it applies to a named peer only", "set router")
        if peer.certificate_name and not peer.router:
            yield Problem((*at, "certificate_name"), "it applies to a named peer only", "set router")
        seen.add(peer.router)


def exposed(configuration: Configuration) -> list[ListenerTable]:
    """Listeners that other machines can reach."""
    return [listener for listener in configuration.listeners if not is_loopback(listener.host)]


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
