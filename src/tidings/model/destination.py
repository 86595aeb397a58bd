"""Destinations and patterns of them.

A destination is a topic or a queue. Its name consists of levels divided by dots. A pattern may hold wildcards: `*` is
exactly one level, `>` at the end is one or more. Both are attributes to the routing: a message carries its
destination's name as `@topic` or `@queue`, a subscription constrains it.

Users write `topic:a.b`, `topic://a.b` or `/topic/a.b`, the same for queues, or a plain name. A name does not begin with
`/`, and none of its parts between `.` and `/` is `#` or `+`: so each of these forms reads as one destination only, and
wildcards of other systems are noticed.

>>> str(Destination.parse("ticks.xyz")), str(Destination.parse("/queue/orders")), str(Destination.parse("queue://orders"))
('topic:ticks.xyz', 'queue:orders', 'queue:orders')
>>> Destination.parse("sensors/room/light")
Traceback (most recent call last):
    ...
tidings.errors.UsageError: E_DESTINATION_CHARACTER at 7: levels are divided by dots: write 'sensors.room.light'; a \
topic of this very name is 'topic:sensors/room/light'
>>> pattern = DestinationPattern.parse("ticks.*.eu")
>>> pattern.matches(Destination.parse("ticks.xyz.eu")), pattern.matches(Destination.parse("ticks.eu"))
(True, False)
>>> DestinationPattern.parse("ticks.>").constraint
Constraint(name='@topic', op=<Op.PREFIX: 8>, value='ticks.', negated=False)
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from tidings.errors import UsageError
from tidings.model.constraint import Constraint, Op
from tidings.model.like import topic_matches
from tidings.model.values import check

NAME_BYTES_MAX = 1024
TOPIC_ATTRIBUTE, QUEUE_ATTRIBUTE = "@topic", "@queue"
ONE_LEVEL, MORE_LEVELS = "*", ">"
# What users write before a name -> whether it makes a queue.
PREFIXES = {
    "topic://": False,
    "queue://": True,
    "topic:": False,
    "queue:": True,
    "/topic/": False,
    "/queue/": True,
}
_UNKNOWN_SCHEME = re.compile(r"/+(?:[^/]*/+)?|[A-Za-z][A-Za-z0-9+\-]*:/*")
FOREIGN = {"+": ONE_LEVEL, "#": MORE_LEVELS}  # wildcards of others -> ours
# The first place where a name goes wrong: a character it must not hold, a level that is empty, a foreign wildcard.
_ANY_FAULT = r"[\x00-\x1f\x7f]|(?:^|(?<=\.))(?=\.|\Z)|\A/|(?:^|(?<=[./]))[+#](?=[./]|\Z)"
_FAULT = re.compile(rf"{_ANY_FAULT}|[*>]")
_PATTERN_FAULT = re.compile(rf"{_ANY_FAULT}|(?<=[^.])[*>]|\*(?!\.|\Z)|>(?!\Z)")


def name_fault(name: str) -> tuple[str, int, str] | None:
    """Checks a concrete destination's name; returns the code, position and reason of the first error."""
    return _find_fault(name, _FAULT)


def _find_fault(name: str, fault: re.Pattern[str]) -> tuple[str, int, str] | None:
    if len(name.encode()) > NAME_BYTES_MAX:
        return "E_DESTINATION_LENGTH", 0, f"a destination name has at most {NAME_BYTES_MAX} bytes"
    found = fault.search(name)
    if found is None:
        return None
    if not found[0]:
        return "E_DESTINATION_EMPTY", found.start(), "a level is empty"
    if found[0] == "/":
        return "E_DESTINATION_CHARACTER", found.start(), "a name does not begin with '/'"
    if found[0] in FOREIGN:
        reason = f"{found[0]!r} is not a wildcard here: write {FOREIGN[found[0]]!r}, and '.' between levels"
        return "E_DESTINATION_WILDCARD", found.start(), reason
    if found[0] in (ONE_LEVEL, MORE_LEVELS):
        why = "is a wildcard only as a whole level, '>' only at the end" if fault is _PATTERN_FAULT else "is a wildcard"
        return "E_DESTINATION_WILDCARD", found.start(), f"{found[0]!r} {why}"
    return "E_DESTINATION_CHARACTER", found.start(), "a control character"


def split_prefix(text: str, *, plain_is_queue: bool = False) -> tuple[bool, str]:
    """(whether it is a queue, name) of what a user wrote.

    An unknown prefix and slashes in a plain name are refused: they come from another system.
    """
    check(text)
    for prefix, queue in PREFIXES.items():
        if text.startswith(prefix):
            return queue, text[len(prefix) :]
    if found := _UNKNOWN_SCHEME.match(text):
        name = text[found.end() :]
        alike = [one for one in PREFIXES if one.strip("/:") == found[0].strip("/:s").lower()]
        known = next((one for one in alike if (one[0] == "/") == (text[0] == "/")), "")
        meant = [f"{known}{name}"] if known else [f"topic:{name}", f"queue:{name}"]
        reason = f"unknown prefix {found[0][:80]!r}: write {' or '.join(repr(one[:80]) for one in meant)}"
        raise UsageError("E_DESTINATION_PREFIX", reason, position=0)
    if (at := text.find("/")) >= 0 and name_fault(text) is None:
        reason = f"levels are divided by dots: write {text.replace('/', '.')[:80]!r}"
        kind = "queue" if plain_is_queue else "topic"
        exact = f"; a {kind} of this very name is {f'{kind}:{text}'[:80]!r}"
        raise UsageError("E_DESTINATION_CHARACTER", reason + exact, position=at)
    return plain_is_queue, text


@dataclass(frozen=True, slots=True, order=True)
class _Named:
    name: str
    queue: bool = False

    _fault: ClassVar[re.Pattern[str]]  # what must not occur in a name

    def __post_init__(self) -> None:
        check(self.name)
        if found := _find_fault(self.name, self._fault):
            code, position, reason = found
            raise UsageError(code, f"{reason}, in {self.name[:80]!r}", position=position)

    def __str__(self) -> str:
        return f"{'queue' if self.queue else 'topic'}:{self.name}"

    @property
    def attribute(self) -> str:
        """The attribute under which routing sees the name."""
        return QUEUE_ATTRIBUTE if self.queue else TOPIC_ATTRIBUTE


class Destination(_Named):
    """A topic or a queue; `str()` gives the canonical text."""

    __slots__ = ()
    _fault = _FAULT

    @staticmethod
    def parse(text: str) -> "Destination":
        """Read what a user wrote, a plain name as a topic: `a`, `topic:a`, `topic://a`, `/topic/a`; `queue:a`, …"""
        queue, name = split_prefix(text)
        try:
            return Destination(name, queue)
        except UsageError as error:
            raise _moved(error, len(text) - len(name)) from None


class DestinationPattern(_Named):
    """A set of topics (or queues), written with wildcards."""

    __slots__ = ()
    _fault = _PATTERN_FAULT

    @staticmethod
    def parse(text: str) -> "DestinationPattern":
        """Like `Destination.parse`, but wildcards are allowed."""
        queue, name = split_prefix(text)
        try:
            return DestinationPattern(name, queue)
        except UsageError as error:
            raise _moved(error, len(text) - len(name)) from None

    @property
    def wild(self) -> bool:
        return any(level in (ONE_LEVEL, MORE_LEVELS) for level in self.name.split("."))

    def matches(self, destination: Destination) -> bool:
        return self.queue == destination.queue and topic_matches(self.name, destination.name)

    @property
    def constraint(self) -> Constraint:
        """The same, as the routing sees it; in the cheapest operator that says it."""
        *levels, last = self.name.split(".")
        if not self.wild:
            return Constraint(self.attribute, Op.EQ, self.name)
        if last != MORE_LEVELS or ONE_LEVEL in levels:
            return Constraint(self.attribute, Op.TOPIC, self.name)
        if not levels:
            return Constraint(self.attribute, Op.EXISTS)
        return Constraint(self.attribute, Op.PREFIX, self.name[:-1])

    @staticmethod
    def of(constraint: Constraint) -> "DestinationPattern":
        """Returns the pattern that has this constraint.

        >>> str(DestinationPattern.of(DestinationPattern("a.>").constraint))
        'topic:a.>'
        """
        name = constraint.value if isinstance(constraint.value, str) else ""
        whole = constraint.op in (Op.EQ, Op.TOPIC)
        return DestinationPattern(name if whole else name + MORE_LEVELS, constraint.name == QUEUE_ATTRIBUTE)


def _moved(error: UsageError, offset: int) -> UsageError:
    position = None if error.position is None else error.position + offset
    return UsageError(error.code, error.reason, position=position)
