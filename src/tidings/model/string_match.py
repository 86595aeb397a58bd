"""Tests on strings that no interval expresses: suffix, substring, LIKE, topic patterns.

What can be said without running the test: a pattern that is really an equality or a prefix is one (`read` then gives
cuts only); a literal beginning narrows the cuts; one pattern implies another. Implication between LIKE patterns runs
the general one over the elements of the special one as if they were text: a `%` of the special one may only be
swallowed by a `%` of the general one, a `_` by a `_` or `%`. That is sound, and misses only curiosities such as
`%_` against `_%`. Between topic patterns it is exact. Where nothing is known the answer is no.

>>> def test(op, text):
...     return read(Constraint("name", op, text))[1]
>>> implies(test(Op.LIKE, "%abcd_"), test(Op.CONTAINS, "bc")), implies(test(Op.TOPIC, "*.b.c"), test(Op.TOPIC, "*.*.c"))
(True, True)
>>> read(Constraint("name", Op.LIKE, "ab%"))
(((2, 'ab'), (2, 'ac')), None)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import TypeAlias

from tidings.model.constraint import Constraint, Op
from tidings.model.like import Pattern
from tidings.model.value_set import PRESENT, Cuts, cuts

Element: TypeAlias = str | None  # one character; None: any one; "": any text
Elements: TypeAlias = tuple[Element, ...]
ANY_TEXT = ""
ELEMENTS_MAX = 1024  # beyond that implication is not looked for: it costs the product of the lengths


@dataclass(frozen=True, slots=True)
class TextTest:
    constraint: Constraint  # SUFFIX, CONTAINS, LIKE or TOPIC, perhaps negated
    elements: Elements  # of a LIKE pattern that every text of the plain constraint matches
    topic: tuple[str, ...] | None = None  # levels of a TOPIC pattern; `elements` then says less than the test

    @property
    def negated(self) -> bool:
        return self.constraint.negated

    def holds(self, text: str) -> bool:
        return self.constraint.holds(text)


def read(constraint: Constraint) -> tuple[Cuts, TextTest | None]:
    """Any constraint as cuts and, if they are not all it says, a test that strings among them must pass besides."""
    if constraint.op not in (Op.SUFFIX, Op.CONTAINS, Op.LIKE, Op.TOPIC):
        return cuts(constraint), None
    assert isinstance(constraint.value, str)
    topic = tuple(constraint.value.split(".")) if constraint.op is Op.TOPIC else None
    elements = _elements(constraint.op, constraint.value)
    head = "".join(takewhile(bool, elements))  # type: ignore[arg-type]
    rest = elements[len(head) :]
    if not rest:
        return cuts(replace(constraint, op=Op.EQ, value=head)), None
    if rest == (ANY_TEXT,) and (topic is None or topic[-1] == ">"):
        return cuts(replace(constraint, op=Op.PREFIX, value=head)), None
    narrowed = PRESENT if constraint.negated else cuts(replace(constraint, op=Op.PREFIX, value=head))
    return narrowed, TextTest(constraint, elements, topic)


def _elements(op: Op, text: str) -> Elements:
    if op is Op.TOPIC:
        levels: list[Element] = []
        for number, level in enumerate(topic := text.split(".")):
            wild = level == "*" or (level == ">" and number == len(topic) - 1)
            levels += (["."] if number else []) + ([ANY_TEXT] if wild else list(level))
        return tuple(levels)
    runs: Sequence[Sequence[str | None]] = Pattern.parse(text).runs
    if op is not Op.LIKE:
        runs = ("", text, "") if op is Op.CONTAINS else ("", text)
    flat = [element for run in runs for element in (ANY_TEXT, *run)][1:]
    return tuple(one for i, one in enumerate(flat) if one != ANY_TEXT or i == 0 or flat[i - 1] != ANY_TEXT)


def implies(a: TextTest, b: TextTest) -> bool:
    """Reports whether every text that passes a surely passes b."""
    if a.constraint == b.constraint:
        return True
    if a.negated:
        return b.negated and _plain_implies(b, a)
    return disjoint(a, b) if b.negated else _plain_implies(a, b)


def prefix_implies(prefix: str, b: TextTest) -> bool:
    """Reports whether every text with this prefix surely passes b."""
    return implies(_prefix_test(prefix), b)


@lru_cache(maxsize=1024)
def _prefix_test(prefix: str) -> TextTest:
    # For topics a prefix is `levels.>`: what it says of its last, unfinished level is left out.
    topic = (*prefix.split(".")[:-1], ">")
    return TextTest(Constraint("prefix", Op.PREFIX, prefix), (*prefix, ANY_TEXT), topic)


def _plain_implies(a: TextTest, b: TextTest) -> bool:
    if b.topic is not None:
        return a.topic is not None and topic_covers(b.topic, a.topic)
    return _pattern_covers(b.elements, a.elements)


def disjoint(a: TextTest, b: TextTest) -> bool:
    """Reports whether surely no text satisfies both, negations apart."""
    if a.topic is not None and b.topic is not None and _topic_disjoint(a.topic, b.topic):
        return True
    return _heads_differ(a.elements, b.elements) or _heads_differ(a.elements[::-1], b.elements[::-1])


def prefix_excluded(prefix: str, tests: Sequence[TextTest]) -> bool:
    """Reports whether one of the tests surely keeps out every text with this prefix."""
    start = _prefix_test(prefix)
    return any(_plain_implies(start, one) if one.negated else disjoint(start, one) for one in tests)


def contradictory(tests: Sequence[TextTest]) -> bool:
    """Reports whether surely no text passes all."""
    plain = [one for one in tests if not one.negated]
    for number, one in enumerate(plain):
        if any(disjoint(one, other) for other in plain[:number]):
            return True
        if any(_same(one, other) or _plain_implies(one, other) for other in tests if other.negated):
            return True
    return False


def _same(a: TextTest, b: TextTest) -> bool:
    return a.constraint.op == b.constraint.op and a.constraint.value == b.constraint.value


def _heads_differ(a: Elements, b: Elements) -> bool:
    for one, other in zip(a, b, strict=False):
        if ANY_TEXT in (one, other):
            return False
        if one is not None and other is not None and one != other:
            return True
    return False


def _pattern_covers(general: Elements, special: Elements) -> bool:
    """All positions of `general` reached after each element of `special`, as bits; see like.py."""
    if max(len(general), len(special)) > ELEMENTS_MAX:
        return False
    accepts: dict[str, int] = {}
    wild = loops = length = 0
    for element in general:
        if element == ANY_TEXT:
            loops |= 1 << length
            continue
        if element is None:
            wild |= 1 << length
        else:
            accepts[element] = accepts.get(element, 0) | 1 << length
        length += 1
    states = 1
    for element in special:
        if element == ANY_TEXT:
            states &= loops
        else:
            passing = wild | (accepts.get(element, 0) if element is not None else 0)
            states = (states & passing) << 1 | states & loops
        if not states:
            return False
    return bool(states >> length & 1)


def _open(levels: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    return (levels[:-1], True) if levels[-1] == ">" else (levels, False)


def topic_covers(general: tuple[str, ...], special: tuple[str, ...]) -> bool:
    """Exact: whether every topic of `special` is one of `general`."""
    wide, wide_open = _open(general)
    narrow, narrow_open = _open(special)
    if wide_open:
        if len(narrow) + narrow_open <= len(wide):
            return False
    elif narrow_open or len(narrow) != len(wide):
        return False
    return all(a == "*" or (a == b and b != "*") for a, b in zip(wide, narrow, strict=False))


def _topic_disjoint(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Exact: whether no topic matches both."""
    left, left_open = _open(a)
    right, right_open = _open(b)
    if len(left) + left_open > len(right) and not right_open:
        return True
    if len(right) + right_open > len(left) and not left_open:
        return True
    return any(x != y and "*" not in (x, y) for x, y in zip(left, right, strict=False))
