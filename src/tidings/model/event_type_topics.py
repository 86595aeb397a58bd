"""Events of a type are messages to a topic that names the type's ancestors, the root first, and then the type.

So a subscription to a type is one to a pattern of topics, which takes in its subtypes, and everything that knows topics
knows types: matching, routing, durable subscriptions, access rules. Nothing else can be published to such topics: the
broker accepts only events that fit their type.

>>> topic_of(("Trade", "Sale")), pattern_of(("Trade",))
('@type.Trade.Sale.event', '@type.Trade.>')
>>> path_of("@type.Trade.Sale.event"), path_of("ticks.xyz")
(('Trade', 'Sale'), ())
>>> filter = Predicate.of(Constraint("price", Op.GT, 5))
>>> wanted = filter.within(DestinationPattern.parse(pattern_of(("Trade",))).constraint)
>>> typed_interest(wanted) == ("Trade", filter)
True
"""

from tidings.model.constraint import Constraint, Op
from tidings.model.destination import TOPIC_ATTRIBUTE, DestinationPattern
from tidings.model.predicate import Predicate

ROOT = "@type."  # how these topics begin; the kernel knows it too (native/include/tidings/codec/message.hpp)
DESTINATION, QUEUE = 28, 2  # of an encoded message: where its destination stands, the flag of a queue
_LEAF = ".event"  # so that a type's own events are below it, as its subtypes' are
Path = tuple[str, ...]


def topic_of(path: Path) -> str:
    return f"{ROOT}{'.'.join(path)}{_LEAF}"


def pattern_of(path: Path) -> str:
    """Of the topics of a type and its subtypes."""
    return str(DestinationPattern(f"{ROOT}{'.'.join(path)}.>").name)


def path_of(topic: str) -> Path:
    """The type and its ancestors, the root first; empty: this is no topic of events."""
    if not topic.startswith(ROOT) or not topic.endswith(_LEAF):
        return ()
    names = topic[len(ROOT) : -len(_LEAF)]
    return tuple(names.split(".")) if names else ()


def is_event(message: bytes) -> bool:
    """Reports whether an encoded message (docs/wire.md) is an event of a type."""
    return message[DESTINATION : DESTINATION + len(ROOT)] == ROOT.encode() and not message[1] & QUEUE


def names_events(encoded: bytes) -> bool:
    """False if an encoded predicate names no topic of events for sure: a look that is much cheaper than decoding it."""
    return ROOT.encode() in encoded


def typed_interest(predicate: Predicate) -> tuple[str, Predicate | None] | None:
    """The type that a subscription names, and its filter (None: all events); None: it names none, or several."""
    prefixes: set[str] = set()
    rest: list[list[Constraint]] = []
    for conjunction in predicate.conjunctions:
        topics = [one for one in conjunction if one.name == TOPIC_ATTRIBUTE]
        if len(topics) != 1 or topics[0].op is not Op.PREFIX or topics[0].negated:
            return None
        prefixes.add(str(topics[0].value))
        rest.append([one for one in conjunction if one.name != TOPIC_ATTRIBUTE])
    if len(prefixes) != 1:
        return None
    prefix = prefixes.pop()
    names = prefix[len(ROOT) : -1]
    if not prefix.startswith(ROOT) or not prefix.endswith(".") or not names:
        return None
    filter = Predicate(rest, predicate.residual)
    return names.rpartition(".")[2], None if filter == Predicate.always() else filter
