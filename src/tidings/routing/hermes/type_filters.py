"""Filters of one type, and those of them that a message matches: a few are evaluated one by one, many by the kernel's
matcher.

>>> from tidings.kernel.codec import encode_message
>>> from tidings.model.constraint import Constraint, Op
>>> from tidings.model.destination import Destination
>>> from tidings.model.message import Message
>>> index = TypeFilters()
>>> for low in range(100):
...     index.add(Predicate.of(Constraint("price", Op.GT, low)))
>>> len(index.matching(encode_message(Message(Destination("a"), {"price": 3}))))
3
"""

from tidings.errors import TidingsError
from tidings.matching.indexed import IndexedMatcher
from tidings.model.predicate import Predicate
from tidings.model.selector.program import run
from tidings.model.values import Value
from tidings.routing.message_views import batch_of, kept_of_short

FEW = 16


@kept_of_short(4096)
def attributes_of(message: bytes) -> dict[str, Value]:
    return dict(batch_of(message).attributes(0))


class TypeFilters:
    def __init__(self) -> None:
        self._numbers: dict[Predicate, int] = {}
        self._filters: dict[int, Predicate] = {}
        self._single: set[Predicate] = set()  # evaluated one by one: beyond the matcher's limits
        self._matcher: IndexedMatcher | None = None  # once there are more than a few
        self._next = 0

    def add(self, filter: Predicate) -> None:
        self._numbers[filter] = self._next
        self._filters[self._next] = filter
        self._next += 1
        if self._matcher is not None:
            self._put(self._matcher, filter)
        elif len(self._numbers) > FEW:
            self._matcher = IndexedMatcher(in_doubt=True)
            for one in self._numbers:
                self._put(self._matcher, one)

    def remove(self, filter: Predicate) -> None:
        number = self._numbers.pop(filter)
        del self._filters[number]
        if self._matcher is None:
            return
        if filter in self._single:
            self._single.remove(filter)
        else:
            self._matcher.remove(number)
        if not self._numbers:
            self._matcher = None

    def matching(self, message: bytes) -> list[Predicate]:
        if self._matcher is None:
            return [one for one in self._numbers if one.matches(attributes_of(message), run)]
        _, found = self._matcher.match(batch_of(message))
        single = [one for one in self._single if one.matches(attributes_of(message), run)]
        return [*(self._filters[number] for number in found.tolist()), *single]

    def _put(self, matcher: IndexedMatcher, filter: Predicate) -> None:
        try:
            matcher.add(self._numbers[filter], filter)
        except TidingsError:
            self._single.add(filter)
