"""PREDICATES: what other routers advertise, kept as it came.

Of each part (parts.py) the advertisements are kept: the last whole one and the differences since. They are the bytes
that the flood keeps too, compressed, so that knowing a filter takes some 20 bytes beside what the kernel needs to match
by it. Rows are read from them when someone asks: to compare a new whole with the old one, or to explain.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from tidings.routing.bdrp.advertisement import Change, decode_advertisement
from tidings.routing.bdrp.filter_rows import is_filter
from tidings.routing.effects import Router


@dataclass(slots=True)
class KnownPart:
    payloads: list[bytes] = field(default_factory=list)  # the whole, and the differences since
    life: int = 0
    instead: frozenset[bytes] | None = None  # rows that stand for those that this router cannot judge
    rows: int = 0
    filters: int = 0

    def read(self) -> Set[bytes]:
        if self.instead is not None:
            return self.instead
        rows: set[bytes] = set()
        for payload in self.payloads:
            change = decode_advertisement(payload).change
            rows.difference_update(change.removed)
            rows.update(change.added)
        return rows

    def count(self, added: int, removed: int, filters: int) -> None:
        self.rows += added - removed
        self.filters += filters


class RouterRows(Set[bytes]):
    """The rows of a router, read part by part."""

    def __init__(self, parts: Mapping[int, KnownPart]) -> None:
        self._parts = parts

    @classmethod
    def _from_iterable(cls, rows: Iterator[bytes]) -> set[bytes]:  # type: ignore[override]
        return set(rows)

    def __contains__(self, row: object) -> bool:
        return any(row in part.read() for part in self._parts.values())

    def __iter__(self) -> Iterator[bytes]:
        for part in list(self._parts.values()):
            yield from part.read()

    def __len__(self) -> int:
        return sum(part.rows for part in self._parts.values())

    def __repr__(self) -> str:
        return repr(set(self))


class KnownInterests(Mapping[Router, Set[bytes]]):
    """The rows of every known router, and how they came."""

    def __init__(self) -> None:
        self._parts: dict[Router, dict[int, KnownPart]] = {}

    def __getitem__(self, router: Router) -> Set[bytes]:
        return RouterRows(self._parts[router])

    def __iter__(self) -> Iterator[Router]:
        return iter(list(self._parts))

    def __len__(self) -> int:
        return len(self._parts)

    def counts(self) -> tuple[int, int]:
        """Rows, and how many of them are filters."""
        parts = [part for some in self._parts.values() for part in some.values()]
        return sum(one.rows for one in parts), sum(one.filters for one in parts)

    def payloads(self, router: Router) -> Mapping[int, Sequence[bytes]]:
        """Returns what a router has advertised, by part; nothing if it is not known."""
        return {number: part.payloads for number, part in self._parts.get(router, {}).items()}

    def foreign(self, router: Router) -> bool:
        return any(one.instead is not None for one in self._parts.get(router, {}).values())

    def part(self, router: Router, number: int) -> KnownPart | None:
        return self._parts.get(router, {}).get(number)

    def void(self, router: Router, life: int, parts: int) -> list[int]:
        """Parts that a router had in an earlier life and has no more."""
        return [number for number, one in self._parts.get(router, {}).items() if number >= parts and one.life < life]

    def put(self, router: Router, number: int, part: KnownPart) -> None:
        self._parts.setdefault(router, {})[number] = part

    def drop(self, router: Router, number: int) -> None:
        del self._parts[router][number]

    def forget(self, router: Router) -> bool:
        return self._parts.pop(router, None) is not None


def change_of(before: Set[bytes], rows: Sequence[bytes]) -> Change:
    """From the rows before to these."""
    now = set(rows)
    return Change(tuple(now - before), tuple(before - now))


def filter_change(change: Change) -> int:
    """By how many the filters become more."""
    return sum(map(is_filter, change.added)) - sum(map(is_filter, change.removed))
