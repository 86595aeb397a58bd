"""The tree of boxes in plain Python: looks at every box.

>>> boxes = ReferenceBoxTree()
>>> for low in range(3): boxes.add(low, [("x", bytes([2, low]), bytes([2, low + 2]))])
>>> boxes.containing([("x", b"\\2\\1", b"\\2\\2")])
[0, 1]
"""

from collections.abc import Callable

from tidings.errors import UsageError

Box = list[tuple[str, bytes | None, bytes | None]]


class ReferenceBoxTree:
    def __init__(self) -> None:
        self._boxes: dict[int, Box] = {}

    def __len__(self) -> int:
        return len(self._boxes)

    def add(self, id: int, box: Box) -> None:
        if id in self._boxes:
            raise UsageError("E_BOX_ID", f"box {id} is already in the tree")
        self._boxes[id] = box

    def remove(self, id: int) -> None:
        if id not in self._boxes:
            raise UsageError("E_BOX_ID", f"box {id} is not in the tree")
        del self._boxes[id]

    def containing(self, box: Box) -> list[int]:
        return self._where(lambda other: _may_contain(other, box))

    def within(self, box: Box) -> list[int]:
        return self._where(lambda other: _may_contain(box, other))

    def meeting(self, box: Box) -> list[int]:
        return self._where(lambda other: _may_meet(other, box))

    def _where(self, holds: Callable[[Box], bool]) -> list[int]:
        return [id for id, one in self._boxes.items() if holds(one)]


def _may_contain(wide: Box, narrow: Box) -> bool:
    own = {name: (low, high) for name, low, high in narrow}
    for name, low, high in wide:
        if name not in own:
            return False
        least, greatest = own[name]
        if low is None or high is None or least is None or greatest is None:
            continue
        if low > least or high < greatest:
            return False
    return True


def _may_meet(one: Box, other: Box) -> bool:
    own = {name: (low, high) for name, low, high in other}
    for name, low, high in one:
        least, greatest = own.get(name, (None, None))
        if low is None or high is None or least is None or greatest is None:
            continue
        apart = low >= greatest or high <= least
        beyond = bytes((low[0] + 1,))  # untyped text may be in two kinds, so only spans in one kind can be apart
        if apart and low[0] == least[0] and high <= beyond and greatest <= beyond:
            return False
    return True
