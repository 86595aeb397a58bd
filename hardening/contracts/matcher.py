"""Contract of matchers: the same answers as the plain scan, after any sequence of additions and removals.

Names and values are few, so that constraints are shared, conjunctions recur and most messages match somebody; among the
values are those that are hard to compare: large integers beside floats, fractions that no 32-bit position can tell
apart, texts with equal beginnings.

>>> from random import Random
>>> from tidings.matching.indexed import IndexedMatcher
>>> check_matcher(IndexedMatcher, Random(1), rounds=20)
"""

from collections.abc import Callable
from random import Random

from hardening.contracts.reference_matcher import ReferenceMatcher
from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.matching.matcher import Matcher, per_message
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.model.values import INT_MAX, INT_MIN, Untyped, Value

NAMES = ("a", "b", "c", "d", "e")
SMALL = (0, 1, 2, 3, 1.0, 2.5, -1, True, False)
NUMBERS: tuple[Value, ...] = (
    2**53,
    2**53 + 1,
    2.0**53,
    0.1,
    0.1 + 1e-12,
    -0.1,
    -0.1 - 1e-12,
    -0.0,
    1e300,
    INT_MAX,
    INT_MIN,
    2.0**63,
)
NUMBERS += (-(2.0**63), float("inf"), float("-inf"), 1_700_000_000_001, 1_700_000_000_002, -1_700_000_000_001)
LONG = "abcdefghijklmnopqrstuvwxyz0123456789"
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abce",
    "ba",
    "bab",
    "a.b",
    "a.b.c",
    "b.b.c",
    "a%b",
    "ä",
    "aäb",
    "\x00",
    "a\x00",
    "1",
    "2.50",
    "true",
    LONG,
    LONG + "x",
)
PATTERNS = (
    "%",
    "_",
    "a%",
    "%b",
    "%b%",
    "a_c",
    "a%c",
    "_b%",
    "%b_d",
    "a\\%b",
    "abc",
    "a__",
    "%a%b%",
    LONG + "%",
    "%3456789_",
    "ä%",
    "\\_",
)
TOPICS = (">", "*", "a.>", "*.b", "a.*", "a.*.c", "*.*.c", "a.b.c", "a.b.>", "a")
SELECTORS = (
    "a + b > 2",
    "a = b",
    "NOT (c LIKE 'a%')",
    "JMSPriority + 1 > 5",
    "a * 2 < 3 OR b IS NULL",
    "JMSMessageID = c",
)
DERIVED = ("@topic", "@queue", "JMSPriority", "JMSDeliveryMode", "JMSTimestamp")
IDS = (0, 1, 2, 3, 63, 64, 1000, 2**20, 2**26 - 1, 2**26, 2**31, 2**32 - 1)


def random_value(rng: Random) -> Value:
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(SMALL)
    if kind < 0.6:
        return rng.choice(NUMBERS)
    return rng.choice(TEXTS) if kind < 0.95 else rng.choice(TEXTS).encode()


def random_constraint(rng: Random) -> Constraint:
    op, name = rng.choice((*Op, Op.EQ, Op.EQ, Op.EQ)), rng.choice(NAMES)
    if rng.random() < 0.05:
        name = rng.choice(DERIVED)
    if op in (Op.EXISTS, Op.MISSING):
        return Constraint(name, op)
    negated = rng.random() < 0.2
    match op:
        case Op.IN:
            return Constraint(name, op, tuple(random_value(rng) for _ in range(rng.choice((1, 2, 3, 12)))), negated)
        case Op.LIKE:
            return Constraint(name, op, rng.choice(PATTERNS), negated)
        case Op.TOPIC:
            return Constraint(name, op, rng.choice(TOPICS), negated)
        case Op.PREFIX | Op.SUFFIX | Op.CONTAINS:
            return Constraint(name, op, rng.choice(TEXTS), negated)
        case _:
            return Constraint(name, op, random_value(rng), negated)


def random_predicate(rng: Random) -> Predicate:
    few = rng.choice((0, 1, 1, 2, 2, 3))  # attributes, so that conjunctions of every access arise
    rows = [[random_constraint(rng) for _ in range(rng.randrange(few + 1))] for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    program = Selector(rng.choice(SELECTORS)).program if rng.random() < 0.1 else None
    return Predicate(rows, program)


def random_message(rng: Random) -> Message:
    properties = {name: random_value(rng) for name in rng.sample(NAMES, rng.randrange(len(NAMES) + 1))}
    properties |= {name: untyped(value) for name, value in properties.items() if rng.random() < 0.2}
    destination = Destination(rng.choice(("a", "a.b", "a.b.c", "b.b.c")), rng.random() < 0.2)
    return Message(destination, properties, priority=rng.randrange(10), persistent=rng.random() < 0.5)


def untyped(value: Value) -> Value:
    """The same as a STOMP header would have it."""
    return value if isinstance(value, bytes) else Untyped(value)


def check_matcher(make: Callable[[], Matcher], rng: Random, rounds: int = 1) -> None:
    """Random additions, removals and matches in any order, each answer compared with that of the scan."""
    matcher, reference = make(), ReferenceMatcher()
    known: set[int] = set()
    for _ in range(rounds):
        for _ in range(rng.choice((0, 1, 1, 5, 20))):
            change(matcher, reference, known, rng)
        assert len(matcher) == len(reference)
        assert matcher.derived_mask == reference.derived_mask
        batch = MessageBatch.from_messages(encode_messages(random_message(rng) for _ in range(rng.randrange(6))))
        assert per_message(matcher.match(batch)) == per_message(reference.match(batch))
    for id in known:
        matcher.remove(id)
    assert len(matcher) == 0


def change(matcher: Matcher, reference: Matcher, known: set[int], rng: Random) -> None:
    """Add or remove one; both must refuse what cannot be."""
    id = rng.choice(IDS) if rng.random() < 0.1 else rng.randrange(200)
    predicate = random_predicate(rng)
    if id in known and rng.random() < 0.9:
        matcher.remove(id)
        reference.remove(id)
        known.discard(id)
        return
    for one in (matcher, reference):
        if id in known:
            assert refusal(one.add, id, predicate) == "E_MATCHER_ID"
        else:
            if rng.random() < 0.05:
                assert refusal(one.remove, id) == "E_MATCHER_ID"
            one.add(id, predicate)
    known.add(id)


def refusal(call: Callable[..., None], *arguments: object) -> str | None:
    """The code with which a call was refused."""
    try:
        call(*arguments)
    except UsageError as error:
        return error.code
    return None
