"""Parts: what a router advertises, divided so that one message of bounded size changes a part, and none the whole.

Each part is a topic of the flood of its own, with differences and, every now and then, the whole of it. Rows stay in
the part they came to: a change costs what changed, and no row is ever between two parts. Encoded rows are in the first
part; exact filters fill one part after the other, and the room that removed ones leave.

>>> parts = Parts(bytes_max=20, parts_max=3)
>>> parts.change({b"filter 1.", b"filter 2.", b"filter 3."}, set()) == {0: Change((b"filter 1.",)),
...     1: Change((b"filter 2.",)), 2: Change((b"filter 3.",))}
True
>>> parts.change({b"filter 4."}, {b"filter 2."})
{1: Change(added=(b'filter 4.',), removed=(b'filter 2.',))}
"""

from collections.abc import Collection, Set

from tidings.routing.bdrp.advertisement import Change
from tidings.routing.bdrp.filter_rows import is_filter
from tidings.routing.control.messages import Topic

ROW_BYTES_MORE = 4  # of a row in an advertisement, beside the row itself
FIRST_FURTHER = 64  # topic of the second part
PARTS_MAX = 65


def topic_of(part: int) -> int:
    return int(Topic.PREDICATES) if part == 0 else FIRST_FURTHER + part - 1


def part_of(topic: int) -> int | None:
    """The part that is flooded under a topic; None: none is."""
    if topic == Topic.PREDICATES:
        return 0
    return topic - FIRST_FURTHER + 1 if FIRST_FURTHER <= topic < FIRST_FURTHER + PARTS_MAX - 1 else None


class Parts:
    """Rows of one router by part. The last part takes what has no room anywhere."""

    def __init__(self, bytes_max: int, parts_max: int = PARTS_MAX, first_bytes_max: int | None = None) -> None:
        self._sizes_max, self._parts_max = bytes_max, parts_max
        self._first_bytes_max = bytes_max if first_bytes_max is None else first_bytes_max
        self.rows: list[set[bytes]] = [set()]
        self._sizes = [0]
        self._places: dict[bytes, int] = {}
        self._open = 0  # no part before it has room

    @property
    def size(self) -> int:
        """Bytes of all rows."""
        return sum(self._sizes)

    @property
    def full(self) -> bool:
        """True if rows have no room: there are too many encoded ones, or filters in the last part."""
        last = self._sizes_max if len(self.rows) == self._parts_max > 1 else self._first_bytes_max
        return self._sizes[0] > self._first_bytes_max or (self._sizes[-1] > last and len(self.rows[-1]) > 1)

    def __len__(self) -> int:
        """The number of parts, empty ones included."""
        return len(self.rows)

    def change(self, added: Set[bytes], removed: Collection[bytes]) -> dict[int, Change]:
        """Take rows in and out; returns the change of each part that has one."""
        gone: dict[int, list[bytes]] = {}
        come: dict[int, list[bytes]] = {}
        for row in removed:
            part = self._places.pop(row)
            self.rows[part].remove(row)
            self._sizes[part] -= len(row) + ROW_BYTES_MORE
            self._open = min(self._open, part)
            gone.setdefault(part, []).append(row)
        for row in sorted(added):
            part = self._room(row) if is_filter(row) else 0
            self._places[row] = part
            self.rows[part].add(row)
            self._sizes[part] += len(row) + ROW_BYTES_MORE
            come.setdefault(part, []).append(row)
        return {
            part: Change(tuple(come.get(part, ())), tuple(gone.get(part, ())))
            for part in sorted(gone.keys() | come.keys())
        }

    def _room(self, row: bytes) -> int:
        while self._sizes[self._open] + len(row) + ROW_BYTES_MORE > self._sizes_max:
            if self._open + 1 == self._parts_max or not self.rows[self._open]:
                break
            self._open += 1
            if self._open == len(self.rows):
                self.rows.append(set())
                self._sizes.append(0)
        return self._open
