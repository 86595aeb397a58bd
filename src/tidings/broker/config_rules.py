"""What a configuration must fulfil beyond the type and range of each key."""

import ipaddress
from collections.abc import Iterator, Sequence

from tidings.broker.config_reader import Problem
from tidings.broker.config_tables import AccessTable, Configuration, ListenerTable, TypesTable
from tidings.errors import TidingsError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import check_property_name
from tidings.model.selector import Selector

SELECTABLE = {"subscribe", "browse"}


class Checker:
    def __init__(self, configuration: Configuration, protocols: Sequence[str]) -> None:
        self._configuration = configuration
        self._protocols = protocols

    def problems(self) -> Iterator[Problem]:
        configuration = self._configuration
        yield from self._broker()
        if not configuration.listeners:
            yield Problem(("listeners",), "nobody could connect", "leave it out, or add a [[listeners]] table")
        for number, listener in enumerate(configuration.listeners):
            yield from self._listener(number, listener)
        for number, types in enumerate(configuration.types):
            yield from _types(number, types)
        yield from self._tls()
        for number, rule in enumerate(configuration.access):
            yield from _access(number, rule)
        yield from self._delivery()

    def _broker(self) -> Iterator[Problem]:
        if not self._configuration.broker.data:
            yield Problem(("broker", "data"), "it is empty", "name a directory")
        if not self._configuration.broker.name:
            yield Problem(("broker", "name"), "it is empty", "give a name")

    def _listener(self, number: int, listener: ListenerTable) -> Iterator[Problem]:
        at = ("listeners", number)
        if listener.protocol not in self._protocols:
            offered = ", ".join(self._protocols)
            yield Problem((*at, "protocol"), f"{listener.protocol!r} is not spoken here", f"there is: {offered}")
        if listener.origins and listener.protocol != "websocket":
            yield Problem(
                (*at, "origins"), "only web pages have an origin", 'leave it out, or say protocol = "websocket"'
            )
        if not listener.host:
            yield Problem((*at, "host"), "it is empty", "give an address, 0.0.0.0 for all of this machine")
        if listener.tls and not self._configuration.tls.certificate:
            yield Problem((*at, "tls"), "there is no certificate", "set certificate and key in [tls]")
        for other in self._configuration.listeners[:number]:
            if listener.port and (other.host, other.port) == (listener.host, listener.port):
                yield Problem((*at, "port"), f"{listener.port} is taken by an earlier listener", "choose another one")

    def _tls(self) -> Iterator[Problem]:
        tls = self._configuration.tls
        if tls.key and not tls.certificate:
            yield Problem(("tls", "key"), "a key without a certificate", "set certificate too")
        if tls.require_client and not tls.client_ca:
            yield Problem(("tls", "require_client"), "nothing to check certificates with", "set client_ca too")

    def _delivery(self) -> Iterator[Problem]:
        delivery = self._configuration.delivery
        try:
            queue = Destination.parse(delivery.dead_letters).queue
        except TidingsError as error:
            yield Problem(("delivery", "dead_letters"), error.reason, "name a queue: queue:dead-letters")
        else:
            if not queue:
                yield Problem(("delivery", "dead_letters"), "not a queue", "name a queue: queue:dead-letters")
        if not delivery.slow_policies:
            yield Problem(("delivery", "slow_policies"), "nobody could subscribe", "name at least one")


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
        yield Problem(at, "a rule is about a user or a group", 'set one of them: user = "name" or group = "name"')
    if not rule.operations:
        yield Problem(at, "a rule without operations says nothing", 'set operations = ["publish", "subscribe"]')
    try:
        DestinationPattern.parse(rule.destination)
    except TidingsError as error:
        yield Problem((*at, "destination"), error.reason, "give a pattern such as orders.> or queue:orders")
    if not rule.selector:
        return
    if not rule.allow or not set(rule.operations) <= SELECTABLE:
        remedy = "use it only with allow = true and the operations subscribe and browse"
        yield Problem((*at, "selector"), "only what is received can be selected", remedy)
    try:
        Selector(rule.selector)
    except TidingsError as error:
        yield Problem((*at, "selector"), str(error), "correct the selector")


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
