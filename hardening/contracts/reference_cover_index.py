"""The index of filters in plain Python: tests every filter."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from tidings.model.covering import covers, intersects
from tidings.model.predicate import Predicate

K = TypeVar("K", bound=Hashable)


class ReferenceCoverIndex(Generic[K]):
    def __init__(self) -> None:
        self._filters: dict[K, Predicate] = {}

    def add(self, key: K, filter: Predicate) -> None:
        self._filters[key] = filter

    def remove(self, key: K) -> None:
        del self._filters[key]

    def covering(self, filter: Predicate) -> Iterator[K]:
        return (key for key, one in self._filters.items() if covers(one, filter))

    def covered_by(self, filter: Predicate) -> Iterator[K]:
        return (key for key, one in self._filters.items() if covers(filter, one))

    def intersecting(self, filter: Predicate) -> Iterator[K]:
        return (key for key, one in self._filters.items() if intersects(one, filter))
