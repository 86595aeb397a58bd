"""A tree of boxes that finds those that may contain, lie within, or meet a given one, without looking at them all.

A conjunction is a box: for each attribute it names the *span* [low, high) of what it allows, the hull of its cuts. All
three questions bound the lows and the highs of the boxes they ask for (f contains g if f.low <= g.low and
f.high >= g.high), so boxes are points in the space of lows and highs, and the tree is a k-d tree over it (Bentley
1975): a branch divides by the low or the high of one attribute, whichever halves best. Two things differ from the
textbook. Boxes that do not name the attribute stand apart, since all of them agree with some questions and none with
others. And a branch knows the least and the greatest low and high on each of its sides: what is asked for one value
(`stock = 'XYZ'`, low and high next to each other) then goes down one path, though lows alone would exclude nothing.

Spans are hulls and may hold text tests besides, so answers are candidates: none is missing, some are too many.

>>> tree = BoxTree()
>>> for low in range(100): tree.add(low, {"x": ((1, low), (1, low + 10))})
>>> found = set(tree.containing({"x": ((1, 42), (1, 51))}))
>>> {41, 42} <= found, len(found) < 50
(True, True)
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from tidings.model.predicate import Conjunction
from tidings.model.value_set import FLOORS, Key

K = TypeVar("K")
Span: TypeAlias = tuple[Key, Key] | None  # None: loose, because text tests or several kinds say more than the hull does
Box: TypeAlias = Mapping[str, Span]

LEAF_MAX = 24
ABSENT, LOOSE, BELOW, ABOVE = range(4)


def box_of(conjunction: Conjunction) -> Box:
    """The box of a conjunction that can be satisfied."""
    sets = conjunction.normal.sets.items()
    return {name: None if one.tests or one.readings else (one.cuts[0], one.cuts[-1]) for name, one in sets}


class _Leaf(Generic[K]):
    __slots__ = ("boxes", "limit")

    def __init__(self, boxes: dict[K, Box], limit: int = LEAF_MAX) -> None:
        self.boxes = boxes
        self.limit = limit


class _Branch(Generic[K]):
    """`bounds[side]`: least low, greatest low, least high, greatest high of what is BELOW and ABOVE."""

    __slots__ = ("bounds", "children", "cut", "end", "name")

    def __init__(self, name: str, end: int, cut: Key) -> None:
        self.name, self.end, self.cut = name, end, cut
        self.children: list[_Leaf[K] | _Branch[K]] = [_Leaf({}) for _ in range(4)]
        self.bounds: list[list[Key]] = [[], [], [], []]

    def slot(self, box: Box) -> int:
        if self.name not in box:
            return ABSENT
        span = box[self.name]
        if span is None:
            return LOOSE
        return BELOW if span[self.end] < self.cut else ABOVE

    def widen(self, slot: int, box: Box) -> None:
        span = box.get(self.name)
        if span is None:
            return
        low, high = span
        bounds = self.bounds[slot]
        if not bounds:
            bounds[:] = (low, low, high, high)
        else:
            bounds[:] = (min(bounds[0], low), max(bounds[1], low), min(bounds[2], high), max(bounds[3], high))


class BoxTree(Generic[K]):
    """Boxes by key. Removed boxes leave empty places; once most are removed, the tree is rebuilt from the rest."""

    def __init__(self) -> None:
        self._root: _Leaf[K] | _Branch[K] = _Leaf({})
        self._leaves: dict[K, _Leaf[K]] = {}
        self._removed = 0

    def __len__(self) -> int:
        return len(self._leaves)

    def add(self, key: K, box: Box) -> None:
        parent: _Branch[K] | None = None
        slot = 0
        node = self._root
        while isinstance(node, _Branch):
            parent, slot = node, node.slot(box)
            node.widen(slot, box)
            node = node.children[slot]
        node.boxes[key] = box
        self._leaves[key] = node
        if len(node.boxes) > node.limit:
            branch = self._divide(node, parent)
            if parent is None:
                self._root = branch
            else:
                parent.children[slot] = branch

    def remove(self, key: K) -> None:
        del self._leaves.pop(key).boxes[key]
        self._removed += 1
        if self._removed > 2 * len(self._leaves) + LEAF_MAX:
            boxes = {key: leaf.boxes[key] for key, leaf in self._leaves.items()}
            self._root, self._leaves, self._removed = _Leaf({}), {}, 0
            for key, box in boxes.items():
                self.add(key, box)

    def _divide(self, leaf: _Leaf[K], parent: _Branch[K] | None) -> "_Leaf[K] | _Branch[K]":
        branch = _best_branch(leaf, parent)
        if branch is None:  # all alike: a longer list is all that helps
            leaf.limit *= 2
            return leaf
        for key, box in leaf.boxes.items():
            slot = branch.slot(box)
            branch.widen(slot, box)
            child = branch.children[slot]
            assert isinstance(child, _Leaf)
            child.boxes[key] = box
            self._leaves[key] = child
        return branch

    # The three questions differ in which children of a branch can hold an answer.

    def containing(self, box: Box) -> Iterator[K]:
        """Boxes that may contain this one: they name no attribute that it does not name."""
        stack = [self._root]
        while stack:
            node = stack.pop()
            if isinstance(node, _Leaf):
                yield from (key for key, one in node.boxes.items() if _may_contain(one, box))
                continue
            children = node.children
            stack.append(children[ABSENT])
            if node.name not in box:
                continue
            span = box[node.name]
            stack.append(children[LOOSE])
            for slot in (BELOW, ABOVE):
                bounds = node.bounds[slot]
                if bounds and (span is None or (bounds[0] <= span[0] and bounds[3] >= span[1])):
                    stack.append(children[slot])

    def within(self, box: Box) -> Iterator[K]:
        """Boxes that may lie within this one: they name every attribute that it names."""
        stack = [self._root]
        while stack:
            node = stack.pop()
            if isinstance(node, _Leaf):
                yield from (key for key, one in node.boxes.items() if _may_contain(box, one))
                continue
            if node.name not in box:
                stack += node.children
                continue
            span = box[node.name]
            stack.append(node.children[LOOSE])
            for slot in (BELOW, ABOVE):
                bounds = node.bounds[slot]
                if bounds and (span is None or (bounds[1] >= span[0] and bounds[2] <= span[1])):
                    stack.append(node.children[slot])

    def meeting(self, box: Box) -> Iterator[K]:
        """Boxes that may have something in common with this one."""
        stack = [self._root]
        while stack:
            node = stack.pop()
            if isinstance(node, _Leaf):
                yield from node.boxes
                continue
            span = box.get(node.name)
            if span is None:
                stack += node.children
                continue
            stack += node.children[:BELOW]
            for slot in (BELOW, ABOVE):
                bounds = node.bounds[slot]
                if bounds and ((bounds[0] < span[1] and bounds[3] > span[0]) or _of_several_kinds(bounds, span)):
                    stack.append(node.children[slot])


def _may_contain(wide: Box, narrow: Box) -> bool:
    """In a leaf: much cheaper than the exact answer, and mostly no."""
    for name, span in wide.items():
        if name not in narrow:
            return False
        own = narrow[name]
        if span is not None and own is not None and (span[0] > own[0] or span[1] < own[1]):
            return False
    return True


def _of_several_kinds(bounds: list[Key], span: tuple[Key, Key]) -> bool:
    """Reports whether these spans do not all lie in one kind of value: untyped text may still be in two kinds."""
    lows, highs = (bounds[0], bounds[1], span[0]), (bounds[2], bounds[3], span[1])
    kind = span[0][0]
    return any(low[0] != kind for low in lows) or any(high > FLOORS[kind + 1] for high in highs)


def _best_branch(leaf: _Leaf[K], parent: _Branch[K] | None) -> _Branch[K] | None:
    """The division whose largest part is the smallest; of equals one that differs from the parent's."""
    boxes = leaf.boxes.values()
    best: tuple[int, bool] = (len(boxes), False)
    found: _Branch[K] | None = None
    for name in {name: None for box in boxes for name in box}:
        spans = [span for box in boxes if (span := box.get(name)) is not None]
        apart = max(sum(name not in box for box in boxes), sum(name in box and box[name] is None for box in boxes))
        for end in (0, 1):
            ends = sorted(span[end] for span in spans)
            cut = next((one for one in ends[len(ends) // 2 :] if one != ends[0]), ends[0] if ends else (-1,))
            below = sum(one < cut for one in ends)
            again = parent is not None and (parent.name, parent.end) == (name, end)
            score = (max(apart, below, len(ends) - below), again)
            if score < best:
                best, found = score, _Branch(name, end, cut)
    return found
