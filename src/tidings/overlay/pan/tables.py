"""Tables of the other nodes that a Pan node knows: its leaf set and its routing table.

The leaf set has the nearest nodes on either side of the ring. It alone decides which is the closest to a key; the
routing table only makes the way there short. Of several nodes that fit into a slot of the table the one with the least
measured latency stays.

>>> from tidings.overlay.pan.ids import EXPERIMENT_IDS
>>> leaves = LeafSet(EXPERIMENT_IDS, 0x1000, size=2)
>>> [leaves.offer(Contact(id, 1)) for id in (0x1100, 0x0F00, 0x1080)], [f"{one.id:04x}" for one in leaves]
([True, True, True], ['1080', '0f00'])
>>> leaves.covers(0x1050), leaves.covers(0x2000), leaves.closest(0x1050).id == 0x1080
(True, False, True)
"""

from bisect import insort
from collections.abc import Iterator
from math import inf

from tidings.overlay.pan.ids import Contact, IdSpace


class LeafSet:
    def __init__(self, space: IdSpace, own: int, size: int) -> None:
        self._space, self._own, self._half = space, own, size // 2
        self._up: list[tuple[int, Contact]] = []  # distance clockwise, the nearest first
        self._down: list[tuple[int, Contact]] = []
        self.version = 0  # grows with every change

    def __iter__(self) -> Iterator[Contact]:
        """Each once, though in a small network a node may be on both sides."""
        return iter({one.id: one for _, one in (*self._up, *self._down)}.values())

    def __contains__(self, id: int) -> bool:
        return any(one.id == id for _, one in self._up) or any(one.id == id for _, one in self._down)

    def wants(self, id: int) -> bool:
        """Reports whether this id would be taken in."""
        if id == self._own or id in self:
            return False
        up = (id - self._own) % self._space.size
        full = len(self._up) >= self._half and len(self._down) >= self._half
        return not full or up < self._up[-1][0] or self._space.size - up < self._down[-1][0]

    def offer(self, contact: Contact) -> bool:
        if not self.wants(contact.id):
            return False
        up = (contact.id - self._own) % self._space.size
        for side, far in ((self._up, up), (self._down, self._space.size - up)):
            insort(side, (far, contact))
            del side[self._half :]
        self.version += 1
        return True

    def remove(self, id: int) -> None:
        self.version += id in self
        for side in (self._up, self._down):
            side[:] = [(far, one) for far, one in side if one.id != id]

    def ends(self) -> list[Contact]:
        """The farthest on each side."""
        return [side[-1][1] for side in (self._up, self._down) if side]

    def lacking(self) -> bool:
        return len(self._up) < self._half or len(self._down) < self._half

    def reach(self) -> float:
        """Returns how far leaves go to either side, on average; other nodes' will go about as far."""
        return (self._up[-1][0] + self._down[-1][0]) / 2 if self._up and self._down else 0

    def covers(self, key: int) -> bool:
        """Reports whether the closest node to the key must be in here, or be this one."""
        if len(self._up) < self._half or len(self._down) < self._half:
            return True  # so few nodes that all are in here
        up, down, size = self._up[-1][0], self._down[-1][0], self._space.size
        if up + down >= size:
            return True
        far = (key - self._own) % size
        return far <= up or size - far <= down

    def closest(self, key: int, but: int | None = None) -> Contact | None:
        """The one nearest to the key, if not `but`; None: this node. Of two as near, the one with the smaller id."""
        distance = self._space.distance
        best, found = (distance(self._own, key), self._own), None
        for side in (self._up, self._down):
            for _, one in side:
                rank = (distance(one.id, key), one.id)
                if rank < best and one.id != but:
                    best, found = rank, one
        return found


class RoutingTable:
    """Row r has nodes that share r digits with this one, column d those whose next digit is d."""

    def __init__(self, space: IdSpace, own: int) -> None:
        self._space, self._own = space, own
        self._slots: dict[tuple[int, int], Contact] = {}
        self._latency_ms: dict[tuple[int, int], float] = {}
        self.version = 0

    def __iter__(self) -> Iterator[Contact]:
        return iter(self._slots.values())

    def slot(self, id: int) -> tuple[int, int]:
        row = self._space.shared(id, self._own)
        return row, self._space.digit(id, row)

    def towards(self, key: int) -> Contact | None:
        return self._slots.get(self.slot(key))

    def row(self, number: int) -> list[Contact]:
        return [one for (row, _), one in self._slots.items() if row == number]

    def wants(self, id: int) -> bool:
        """Reports whether this id could get a place if its node is near: it is neither in here nor the own id."""
        if id == self._own:
            return False
        held = self._slots.get(self.slot(id))
        return held is None or held.id != id

    def offer(self, contact: Contact, latency_ms: float = inf) -> bool:
        """True if it is in the table now and was not before; a known one's latency is brought up to date."""
        if contact.id == self._own:
            return False
        slot = self.slot(contact.id)
        held = self._slots.get(slot)
        if held is not None and held.id == contact.id:
            if latency_ms < inf:
                self._latency_ms[slot] = latency_ms
            return False
        if held is not None and latency_ms >= self._latency_ms[slot]:
            return False
        self._slots[slot], self._latency_ms[slot] = contact, latency_ms
        self.version += 1
        return True

    def remove(self, id: int) -> tuple[int, int] | None:
        """The slot that is empty now."""
        slot = self.slot(id) if id != self._own else (0, 0)
        if slot in self._slots and self._slots[slot].id == id:
            del self._slots[slot], self._latency_ms[slot]
            self.version += 1
            return slot
        return None
