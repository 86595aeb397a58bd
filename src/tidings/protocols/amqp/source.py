"""Reads and answers the source of a consumer's link."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidings.errors import RemoteProtocolError
from tidings.model.destination import DestinationPattern
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.requests import AckMode
from tidings.protocols.amqp.address import read_address
from tidings.protocols.amqp.context import Context
from tidings.protocols.amqp.engine.link import SND_SETTLED, SND_UNSETTLED, SenderLink
from tidings.protocols.amqp.engine.terminus import NEVER, WITH_LINK, Terminus
from tidings.protocols.amqp.sql_filter import to_selector
from tidings.protocols.amqp.wire.types import AmqpValue, Described, symbol, ulong

SQL = (symbol("amqp:sql-filter"), ulong(0x0000000000000120))
SELECTOR = (symbol("apache.org:selector-filter:string"), ulong(0x0000468C00000004))
NO_LOCAL = (symbol("apache.org:no-local-filter:list"), ulong(0x0000468C00000003))
LIFETIME, DELETE_ON_CLOSE = symbol("lifetime-policy"), ulong(0x2B)
SHARED, GLOBAL = "shared", "global"
EXCLUSIVE = symbol("exclusive")  # a property of the link
WAIT_NETWORK = "wait-network"  # a capability of the source: attach once all brokers know of it


class Filters(NamedTuple):
    selector: str
    no_local: bool
    applied: dict[AmqpValue, AmqpValue]  # what the answer names; unknown filters are left out


@dataclass(frozen=True, slots=True)
class LinkSource:
    destination: str
    filters: Filters
    durable: str
    shared: str
    presettled: bool
    wild: bool  # not every message is of the same destination
    temporary: bool = False  # a queue of its own, that ends with the link
    fields: dict[str, Value] = field(default_factory=dict)  # what to ask the broker for

    @property
    def common(self) -> bool:
        """True if other links, or a later one, may get messages that this one does not take."""
        return bool(self.durable or self.shared) or self.destination.startswith("queue:")


def read_source(link: SenderLink, context: Context) -> LinkSource:
    terminus = link.remote_source or Terminus()
    capabilities = terminus.capability_names
    temporary = terminus.dynamic and "temporary-topic" not in capabilities
    if terminus.dynamic:
        destination = f"{'queue' if temporary else 'topic'}:{context.next_temporary()}"
    elif not terminus.address:
        raise RemoteProtocolError("E_AMQP_SOURCE", "the source has no address", fatal=False)
    else:
        destination = read_address(terminus.address, capabilities, plain_is_queue=context.plain_is_queue)
    pattern = DestinationPattern.parse(destination)
    filters = _filters(terminus.filter)
    presettled = link.remote_snd_settle_mode == SND_SETTLED
    durable, shared = ("", "") if pattern.queue else _names(link, terminus, capabilities, context)
    if filters.no_local and (durable or shared or pattern.queue):
        raise RemoteProtocolError(
            "E_AMQP_NOT_IMPLEMENTED",
            "no-local works only for topics, on links that are neither durable nor shared",
            fatal=False,
        )
    # Only the forwarding plane knows the publisher of a message, and it has no acknowledgements.
    presettled = presettled or filters.no_local
    fields: dict[str, Value] = {
        "destination": destination,
        "selector": filters.selector,
        "no_local": filters.no_local,
        "durable": durable,
        "shared": shared,
        "ack": (AckMode.AUTO if presettled else AckMode.CLIENT).value,
        "paused": True,
        "exclusive": _exclusive(link.remote_properties),
        "wait": "network" if WAIT_NETWORK in capabilities else "",
    }
    return LinkSource(destination, filters, durable, shared, presettled, pattern.wild, temporary, fields)


def _exclusive(properties: AmqpValue) -> bool:
    given = properties.get(EXCLUSIVE, False) if isinstance(properties, dict) else False
    if not isinstance(given, bool):
        raise RemoteProtocolError("E_AMQP_SOURCE", "the link property exclusive must be a boolean", fatal=False)
    return given


def _names(link: SenderLink, terminus: Terminus, capabilities: tuple[str, ...], context: Context) -> tuple[str, str]:
    """The names under which the subscription is kept and shared. Its identity is container and link name.

    Of links that share one, the names differ after a bar; globally shared ones are not the container's.
    """
    kept = terminus.expiry_policy == NEVER
    if SHARED not in capabilities:
        return (link.name if kept else ""), ""
    name = link.name.partition("|")[0]
    if GLOBAL not in capabilities:
        name = f"{context.container}|{name}"
    return (name if kept else ""), name


def _filters(given: AmqpValue) -> Filters:
    selector, no_local, applied = "", False, {}
    for name, one in given.items() if isinstance(given, dict) else ():
        descriptor = one.descriptor if isinstance(one, Described) else name
        if descriptor in SELECTOR or descriptor in SQL:
            value = one.value if isinstance(one, Described) else one
            if not isinstance(value, str):
                raise RemoteProtocolError("E_AMQP_FILTER", "a selector filter must be a string", fatal=False)
            selector = _both(selector, to_selector(value) if descriptor in SQL else str(value))
        elif descriptor in NO_LOCAL:
            no_local = True
        else:
            continue
        applied[name] = one
    return Filters(selector, no_local, applied)


def _both(one: str, other: str) -> str:
    """The conjunction of two selectors."""
    if not (one.strip() and other.strip()):
        return one if one.strip() else other
    for each in (one, other):
        Selector(each)  # raises its own error; the combined text could hide it
    return f"({one}) AND ({other})"


def answer_source(link: SenderLink, source: LinkSource) -> None:
    """Attach with the source actually used."""
    asked = link.remote_source or Terminus()
    answer = answer_lifetime(asked, kept=asked.expiry_policy == NEVER)
    if asked.dynamic:
        answer.address = address_of_pattern(source.destination)
    answer.filter = source.filters.applied or None
    link.snd_settle_mode = SND_SETTLED if source.presettled else SND_UNSETTLED
    link.attach(answer, link.remote_target)


def answer_lifetime(asked: Terminus, *, kept: bool) -> Terminus:
    """The terminus as asked for, with its actual lifetime."""
    answer = replace(asked)
    if not kept:
        answer.durable, answer.expiry_policy, answer.timeout = 0, WITH_LINK, 0
    if asked.dynamic:
        answer.node_properties = {LIFETIME: Described(DELETE_ON_CLOSE, [])}
    return answer


def address_of_pattern(destination: str) -> str:
    kind, _, name = destination.partition(":")
    return f"{kind}://{name}"
