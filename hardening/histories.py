"""The judge of what clients saw: order, once, nothing lost, marks. The simulator's clients and real ones have the same.

A reader is a subscription or a queue with all its consumers, one after the other. Its history is what it was given, in
that order; a publisher's, what it sent. Each function returns what breaks one promise (docs/networks.md); none: it was
kept.

>>> given = [Delivery(n, 1, n, 1, id) for n, id in enumerate("acb")] + [Delivery(3, 2, 1, 2, "c")]
>>> unmarked(given), unmarked([*given, Delivery(4, 2, 2, 1, "b")])
([], ['b'])
>>> overtaken(first_given(given), {"a": ("p", 1), "b": ("p", 2), "c": ("p", 3)}.get)
[('b', 'c')]
>>> given_again(given, [Acknowledgement(1, 1, "c", True)])
['c']
>>> lost({"a", "b", "d"}, {"a", "b", "c"})
['d']
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from typing import Any, NamedTuple, TypeVar

Id = TypeVar("Id", bound=Any)  # of a message


class Delivery(NamedTuple):
    """A message that a reader was given; they sort in the order in which they were given."""

    at: float  # when, by any clock, or the place among all
    life: int  # of the broker, or of the connection: a later one is larger
    tag: int  # in the order in which one life gives
    attempt: int  # above 1: it is marked as redelivered
    id: Any


class Acknowledgement(NamedTuple):
    life: int
    tag: int
    id: Any
    confirmed: bool  # the broker has said that it is on disk


def first_given(given: Iterable[Delivery]) -> list[Any]:
    """In the order in which each message came for the first time."""
    return list(dict.fromkeys(one.id for one in sorted(given)))


def unmarked(given: Iterable[Delivery]) -> list[Any]:
    """Messages that came again without a mark."""
    seen: set[Any] = set()
    wrong = []
    for one in sorted(given):
        if one.id in seen and one.attempt <= 1:
            wrong.append(one.id)
        seen.add(one.id)
    return wrong


def given_again(given: Iterable[Delivery], acknowledged: Sequence[Acknowledgement]) -> list[Any]:
    """Messages that came once more although they were acknowledged: in the same life, or in a later one although the
    broker had said that this is on disk."""
    tags = {(one.life, one.id): one.tag for one in reversed(acknowledged)}
    lives = {one.id: one.life for one in reversed(acknowledged) if one.confirmed}
    return [one.id for one in given if one.tag > tags.get((one.life, one.id), inf) or one.life > lives.get(one.id, inf)]


def overtaken(order: Iterable[Id], place: Callable[[Id], tuple[Hashable, int] | None]) -> list[tuple[Id, Id]]:
    """Messages that came for the first time behind a later one that was sent the same way: each with that one.
    `place`: the way, such as a publisher, and the place on it; None: its order is not promised."""
    last: dict[Hashable, tuple[int, Id]] = {}
    wrong = []
    for id in order:
        if (there := place(id)) is None:
            continue
        way, number = there
        before = last.get(way)
        if before is not None and number < before[0]:
            wrong.append((id, before[1]))
        else:
            last[way] = number, id
    return wrong


def lost(promised: AbstractSet[Id], got: AbstractSet[Id]) -> list[Id]:
    return sorted(promised - got)
