"""From what a client asks for to what is installed: which predicate, and which mailbox if it needs one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from tidings.delivery.mailbox import MailboxKind
from tidings.errors import SecurityError, UsageError
from tidings.kernel.plain_selector import plain_predicate
from tidings.model.codec import decode_predicate, encode_constraint, encode_predicate
from tidings.model.destination import MORE_LEVELS, TOPIC_ATTRIBUTE, Destination, DestinationPattern
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.node.clients.session import Principal
from tidings.node.message_filter import accepts
from tidings.node.requests import AckMode, Subscribe

NAME_MAX = 255  # characters of a subscription's or client's name
CLIENT_ID_MAX = 512  # characters of what a client and its user are called together
LINGERING_PREFIX = "mqtt/"  # durable subscriptions that end with a client's session
TEMPORARY_PREFIX = "tmp."  # a queue of such a name is made by its owner alone, never by being used


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    destination: str
    predicate: bytes
    kind: MailboxKind | None  # None: no mailbox, the forwarding plane delivers directly
    name: str  # of the mailbox
    accepts: Callable[[bytes], bool] | None  # what it may get of what waits: by its selector (queues), by its rule's
    asked: bytes = b""  # of a durable subscription: the predicate without the rule's selector
    filter: str = ""  # what `accepts` was made of
    formerly: bytes = b""  # the same as version 1 of the language read it, if it did so differently


def plan(request: Subscribe, client_id: str, connection: int, principal: Principal) -> SubscriptionPlan:
    pattern, destination, constraint = _parsed(request.destination)
    if not principal.may("subscribe", destination):
        raise SecurityError("E_FORBIDDEN", f"{principal.name} may not subscribe to {destination}")
    restriction = principal.restriction(destination)
    if restriction or pattern.queue or (predicate := plain_predicate(request.selector, constraint)) is None:
        selector = restricted(Selector(request.selector), restriction)
        if pattern.queue:
            _check_names(request)
            return _plan_queue(request, pattern, selector)
        predicate = encode_predicate(predicate_of(pattern, selector))
    _check_names(request)
    if request.durable and request.shared:
        if request.durable != request.shared:
            raise UsageError("E_SUBSCRIBE_NAME", "a subscription that is shared and durable has one name for both")
        kind, name = MailboxKind.SHARED_DURABLE, shared_durable_name(request.shared)
    elif request.durable:
        kind, name = MailboxKind.DURABLE, durable_name(client_id, request.durable)
    elif request.shared:
        kind, name = MailboxKind.SHARED, f"shared:{request.shared}"
    elif request.ack is AckMode.CLIENT:
        kind, name = MailboxKind.PRIVATE, f"private:{connection}:{request.subscription}"
    else:
        return SubscriptionPlan(destination, predicate, None, "", None)
    if not request.durable:
        return SubscriptionPlan(destination, predicate, kind, name, None)
    asked = encode_predicate(predicate_of(pattern, Selector(request.selector))) if restriction else predicate
    formerly = encode_predicate(predicate_of(pattern, Selector(request.selector, version=1)))
    return SubscriptionPlan(
        destination,
        predicate,
        kind,
        name,
        accepts(Selector(restriction)),
        asked,
        restriction,
        b"" if formerly == asked else formerly,
    )


@lru_cache(maxsize=1024)
def _parsed(destination: str) -> tuple[DestinationPattern, str, bytes]:
    """The pattern, its canonical text, and its constraint as bytes."""
    pattern = DestinationPattern.parse(destination)
    return pattern, str(pattern), encode_constraint(pattern.constraint)


def restricted(selector: Selector, restriction: str) -> Selector:
    """The predicate asked for, restricted to what is allowed."""
    if not restriction:
        return selector
    return Selector(f"({selector.text}) AND ({restriction})" if selector.text.strip() else restriction)


def predicate_of(pattern: DestinationPattern, selector: Selector) -> Predicate:
    residual = None if selector.exact else selector.program
    return Predicate(selector.conjunctions, residual).within(pattern.constraint)


def destination_of(predicate: bytes) -> str:
    """The topics that a subscription of this predicate is about; all, if its selector is never fulfilled."""
    for conjunction in decode_predicate(predicate).conjunctions:
        for constraint in conjunction:
            if constraint.name == TOPIC_ATTRIBUTE:
                return str(DestinationPattern.of(constraint))
    return str(DestinationPattern(MORE_LEVELS))


def queue_predicate(destination: Destination) -> bytes:
    """The predicate of a queue: all that is sent to it."""
    pattern = DestinationPattern(destination.name, destination.queue)
    return encode_predicate(Predicate.of(pattern.constraint))


def is_temporary(destination: Destination) -> bool:
    return destination.queue and destination.name.startswith(TEMPORARY_PREFIX)


def durable_name(client_id: str, name: str) -> str:
    """Two clients may give their durable subscriptions the same name: theirs is the pair."""
    owner = client_id.replace("%", "%25").replace(":", "%3A")
    return f"durable:{owner}:{name}"


def durable_parts(mailbox: str) -> tuple[str, str]:
    """The client's id and the name that it gave.

    >>> durable_parts(durable_name("alice/100%:a", "audit:1"))
    ('alice/100%:a', 'audit:1')
    """
    _, owner, name = mailbox.split(":", 2)
    return owner.replace("%3A", ":").replace("%25", "%"), name


def shared_durable_name(name: str) -> str:
    return f"shared-durable:{name}"


def kind_of(name: str) -> MailboxKind:
    """Of a durable or shared subscription, by the name of its mailbox."""
    return MailboxKind(name.partition(":")[0])


def may_be_of_network(name: str) -> bool:
    """Reports whether a mailbox is a durable or shared subscription that the network can have in common. What lingers
    (MQTT sessions) belongs to its broker, with records and a lifetime of its own.

    >>> may_be_of_network(durable_name("alice/a", "audit")), may_be_of_network(durable_name("alice/a", "mqtt/1/0"))
    (True, False)
    """
    match name.partition(":")[0]:
        case MailboxKind.SHARED.value | MailboxKind.SHARED_DURABLE.value:
            return True
        case MailboxKind.DURABLE.value:
            return name.count(":") > 1 and not durable_parts(name)[1].startswith(LINGERING_PREFIX)
        case _:
            return False


def _plan_queue(request: Subscribe, pattern: DestinationPattern, selector: Selector) -> SubscriptionPlan:
    if pattern.wild:
        raise UsageError("E_QUEUE_WILDCARD", "a consumer names one queue, without wildcards")
    if request.durable or request.shared:
        raise UsageError("E_QUEUE_DURABLE", "queues are always durable and shared: leave these options out")
    destination = Destination(pattern.name, True)
    kind = MailboxKind.TEMPORARY if is_temporary(destination) else MailboxKind.QUEUE
    predicate = queue_predicate(destination)
    return SubscriptionPlan(str(pattern), predicate, kind, str(destination), accepts(selector), filter=selector.text)


def _check_names(request: Subscribe) -> None:
    check_name("durable", request.durable)
    check_name("shared", request.shared)


def check_name(what: str, name: str) -> None:
    if len(name) > NAME_MAX or any(character < " " for character in name):
        raise UsageError("E_SUBSCRIBE_NAME", f"{what}: at most {NAME_MAX} characters, no control characters")
