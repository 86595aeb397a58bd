"""Immediate dominators of a graph, seen from one of its nodes.

A node's dominators lie on every way from the root to it; the nearest of them is its immediate one.

>>> dominators(1, {1: [2], 2: [3, 4], 3: [5], 4: [5], 5: []})
{1: 1, 2: 1, 4: 2, 3: 2, 5: 2}

After Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", 2001: each is the nearest common ancestor of
those before it in what is known of the tree so far, until nothing changes.
"""

from collections.abc import Collection, Mapping


def dominators(root: int, following: Mapping[int, Collection[int]]) -> dict[int, int]:
    """The immediate dominator of each node that can be reached; the root is its own."""
    order = _postorder(root, following)
    number = {node: place for place, node in enumerate(order)}
    before: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for other in following.get(node, ()):
            before[other].append(node)
    above = {root: root}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):  # the root is the last
            found, *others = [one for one in before[node] if one in above]
            for other in others:
                found = _common(found, other, above, number)
            changed = changed or above.get(node) != found
            above[node] = found
    return above


def is_behind(node: int, other: int, above: Mapping[int, int]) -> bool:
    """Reports whether every path to a node leads through the other one."""
    while node != other and above.get(node, node) != node:
        node = above[node]
    return node == other


def _common(a: int, b: int, above: Mapping[int, int], number: Mapping[int, int]) -> int:
    while a != b:
        if number[a] < number[b]:
            a = above[a]
        else:
            b = above[b]
    return a


def _postorder(root: int, following: Mapping[int, Collection[int]]) -> list[int]:
    order: list[int] = []
    seen = {root}
    stack = [(root, iter(following.get(root, ())))]
    while stack:
        node, left = stack[-1]
        fresh = next((one for one in left if one not in seen), None)
        if fresh is None:
            stack.pop()
            order.append(node)
        else:
            seen.add(fresh)
            stack.append((fresh, iter(following.get(fresh, ()))))
    return order
