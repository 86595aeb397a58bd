"""Reads and answers the source of a consumer's link."""

from dataclasses import dataclass, field
from typing import NamedTuple

from proton import Described, Link, Terminus, symbol, ulong

from tidings.errors import RemoteProtocolError
from tidings.model.destination import DestinationPattern
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.requests import AckMode
from tidings.protocols.amqp.address import read_address
from tidings.protocols.amqp.context import Context, capabilities_of, object_of
from tidings.protocols.amqp.sections import AmqpValue, encode_value
from tidings.protocols.amqp.sql_filter import to_selector

SQL = (symbol("amqp:sql-filter"), ulong(0x0000000000000120))
SELECTOR = (symbol("apache.org:selector-filter:string"), ulong(0x0000468C00000004))
NO_LOCAL = (symbol("apache.org:no-local-filter:list"), ulong(0x0000468C00000003))
LIFETIME, DELETE_ON_CLOSE = symbol("lifetime-policy"), ulong(0x2B)
SHARED, GLOBAL = "shared", "global"


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


def read_source(link: Link, context: Context) -> LinkSource:
    terminus = link.remote_source
    capabilities = capabilities_of(terminus)
    temporary = terminus.dynamic and "temporary-topic" not in capabilities
    if terminus.dynamic:
        destination = f"{'queue' if temporary else 'topic'}:{context.next_temporary()}"
    elif not terminus.address:
        raise RemoteProtocolError("E_AMQP_SOURCE", "the source has no address", fatal=False)
    else:
        destination = read_address(terminus.address, capabilities, plain_is_queue=context.plain_is_queue)
    pattern = DestinationPattern.parse(destination)
    filters = _filters(object_of(terminus.filter))
    presettled = link.remote_snd_settle_mode == Link.SND_SETTLED
    durable, shared = ("", "") if pattern.queue else _names(link, terminus, capabilities, context)
    if filters.no_local and (durable or shared or pattern.queue):
        raise RemoteProtocolError(
            "E_AMQP_NOT_IMPLEMENTED",
            "no-local works only for topics, on links that are neither durable nor shared",
            fatal=False,
        )
    # Only the forwarding plane knows whose message it is, and it waits for nobody's acknowledgement.
    presettled = presettled or filters.no_local
    fields: dict[str, Value] = {
        "destination": destination,
        "selector": filters.selector,
        "no_local": filters.no_local,
        "durable": durable,
        "shared": shared,
        "ack": (AckMode.AUTO if presettled else AckMode.CLIENT).value,
        "paused": True,
    }
    return LinkSource(destination, filters, durable, shared, presettled, pattern.wild, temporary, fields)


def _names(link: Link, terminus: Terminus, capabilities: tuple[str, ...], context: Context) -> tuple[str, str]:
    """The names under which the subscription is kept and shared. Its identity is container and link name.

    Of links that share one, the names differ after a bar; globally shared ones are not the container's.
    """
    kept = terminus.expiry_policy == Terminus.EXPIRE_NEVER
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
    encode_value(applied)  # it will be in the answer, and Proton would not survive one that it cannot encode
    return Filters(selector, no_local, applied)


def _both(one: str, other: str) -> str:
    """The conjunction of two selectors."""
    if not (one.strip() and other.strip()):
        return one if one.strip() else other
    for each in (one, other):
        Selector(each)  # which says what is wrong with it: together they may mean something else
    return f"({one}) AND ({other})"


def mirror(link: Link) -> None:
    """Answer with what the client has said; to be called before any of it is read.

    Proton (0.40) keeps such values as bytes until somebody reads them. What it then fails to decode, it also fails to
    encode, and dies of it: bytes that nobody has read go back as they came.
    """
    link.source.copy(link.remote_source)
    link.target.copy(link.remote_target)


def answer_source(link: Link, source: LinkSource) -> None:
    """Fill the attach with the source actually used."""
    if link.remote_source.dynamic:
        link.source.address = address_of_pattern(source.destination)
    answer_lifetime(link.source, kept=link.remote_source.expiry_policy == Terminus.EXPIRE_NEVER)
    link.source.filter.clear()
    if source.filters.applied:
        link.source.filter.put_dict(source.filters.applied)
    link.snd_settle_mode = Link.SND_SETTLED if source.presettled else Link.SND_UNSETTLED
    link.rcv_settle_mode = link.remote_rcv_settle_mode


def answer_lifetime(terminus: Terminus, *, kept: bool) -> None:
    """Replace the requested lifetime, copied into the answer, by the actual one."""
    if not kept:
        terminus.durability = Terminus.NONDURABLE
        terminus.expiry_policy = Terminus.EXPIRE_WITH_LINK
        terminus.timeout = 0
    if terminus.dynamic:
        terminus.properties.clear()
        lifetime: dict[AmqpValue, AmqpValue] = {LIFETIME: Described(DELETE_ON_CLOSE, [])}
        terminus.properties.put_dict(lifetime)


def address_of_pattern(destination: str) -> str:
    kind, _, name = destination.partition(":")
    return f"{kind}://{name}"
