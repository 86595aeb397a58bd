"""Access rules: which user may carry out which operation on which destination.

A rule names a user (or `*`, or a group), operations, a destination pattern, and whether it allows or denies. **The
first rule that fits decides; if none fits, the answer is no.** Order is easy to read and to reason about; "the most
specific rule" is not, once groups and two kinds of wildcard meet.

A subscription's pattern is a set of destinations, and the answer must hold for all of them. So going down the list

- a denying rule that *overlaps* the pattern refuses it,
- an allowing rule that *covers* it accepts it,
- an allowing rule that covers only a part goes on to the next rule.

An event type is such a pattern too: its events' topics and those of its subtypes (tidings.model.event_type_topics).

A rule for receivers may carry a selector, which is ANDed to what they ask for. If a pattern spans parts with different
selectors it is refused: a subscriber should know which restriction applies.

>>> rules = AccessRules((Rule("*", DestinationPattern.parse("secret.>"), frozenset({"subscribe"}), allow=False),
...                      Rule("*", DestinationPattern.parse(">"), frozenset({"subscribe"}))))
>>> alice = GroupMember("alice", rules)
>>> [alice.may("subscribe", pattern) for pattern in ("open.>", "secret.plans", ">", "*.plans")]
[True, False, False, False]
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidings.broker.config.tables import AccessTable
from tidings.model.destination import DestinationPattern
from tidings.model.event_type_topics import pattern_of

EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    user: str
    pattern: DestinationPattern
    operations: frozenset[str]
    allow: bool = True
    selector: str = ""
    group: str = ""

    def concerns(self, user: str, groups: Iterable[str]) -> bool:
        return self.group in groups if self.group else self.user in (EVERYBODY, user)


def pattern_of_rule(table: AccessTable) -> DestinationPattern:
    """The destinations that a rule applies to. Events of a type have topics of their own, subtypes below them."""
    return DestinationPattern.parse(pattern_of(tuple(table.type.split("."))) if table.type else table.destination)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """In order."""

    rules: tuple[Rule, ...] = ()

    @staticmethod
    def of(tables: Iterable[AccessTable]) -> "AccessRules":
        return AccessRules(
            tuple(
                Rule(
                    table.user,
                    pattern_of_rule(table),
                    frozenset(table.operations),
                    table.allow,
                    table.selector,
                    table.group,
                )
                for table in tables
            )
        )

    def concerning(self, user: str, groups: Iterable[str]) -> "AccessRules":
        """The rules that apply to this user."""
        there = tuple(groups)
        return AccessRules(tuple(rule for rule in self.rules if rule.concerns(user, there)))

    def decide(self, operation: str, destination: str) -> Rule | None:
        """The rule that allows it, or None."""
        asked = DestinationPattern.parse(destination)
        partly: set[str] = set()  # selectors of rules that allow a part of it
        for rule in self.rules:
            if operation not in rule.operations or not overlap(rule.pattern, asked):
                continue
            if not rule.allow:
                return None
            if covers(rule.pattern, asked):
                return rule if partly <= {rule.selector} else None
            partly.add(rule.selector)
        return None


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A logged-in user; the node's Principal. Rules of other users are left out."""

    name: str
    rules: AccessRules = field(repr=False)
    entry: object = field(default=None, repr=False, compare=False)  # of the users, as it was when this one logged in
    expires_s: float = 0.0  # of its token, by the wall clock; 0: never

    def may(self, operation: str, destination: str) -> bool:
        return self.rules.decide(operation, destination) is not None

    def restriction(self, destination: str, operation: str = "subscribe") -> str:
        """The selector that what this user receives from there must fulfil; empty: none."""
        rule = self.rules.decide(operation, destination)
        return "" if rule is None else rule.selector


def covers(wide: DestinationPattern, narrow: DestinationPattern) -> bool:
    """True if `wide` contains every destination of `narrow`."""
    if wide.queue != narrow.queue:
        return False
    left, right = wide.name.split("."), narrow.name.split(".")
    for number, level in enumerate(left):
        if number >= len(right):
            return False
        if level == ">":
            return True
        if right[number] == ">" or level not in ("*", right[number]):
            return False
    return len(left) == len(right)


def overlap(one: DestinationPattern, other: DestinationPattern) -> bool:
    """True if some destination belongs to both."""
    if one.queue != other.queue:
        return False
    left, right = one.name.split("."), other.name.split(".")
    for mine, yours in zip(left, right, strict=False):
        if ">" in (mine, yours):
            return True
        if mine != yours and "*" not in (mine, yours):
            return False
    return len(left) == len(right)
