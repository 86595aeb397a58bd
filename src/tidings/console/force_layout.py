"""Places brokers on the map: springs along links, repulsion between all brokers, a fixed start.

The same network always gives the same picture, and one that is drawn already is not computed again.

>>> places = layout((1, 2, 3), ((1, 2), (2, 3)))
>>> sorted(places) == [1, 2, 3] and all(0 <= x <= 1 and 0 <= y <= 1 for x, y in places.values())
True
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

ROUNDS = 300
Place = tuple[float, float]


@lru_cache(maxsize=32)
def layout(nodes: tuple[int, ...], links: tuple[tuple[int, int], ...]) -> dict[int, Place]:
    """Places in the unit square."""
    count = len(nodes)
    if count == 0:
        return {}
    if count == 1:
        return {nodes[0]: (0.5, 0.5)}
    angles = 2 * np.pi * np.arange(count) / count - np.pi / 2
    # A little off the circle, or equal forces would keep a line of brokers bent for ever.
    places = (
        np.column_stack((np.cos(angles), np.sin(angles) * 0.9)) * (1 + 0.05 * np.sin(7 * np.arange(count)))[:, None]
    )
    index = {node: number for number, node in enumerate(nodes)}
    pairs = np.array([(index[a], index[b]) for a, b in links if a in index and b in index], dtype=int).reshape(-1, 2)
    distance = 1.6 / np.sqrt(count)
    for step in range(ROUNDS):
        places += _pull(places, pairs, distance, 0.25 * (1 - step / ROUNDS) ** 1.5 + 0.002)
    low, high = places.min(axis=0), places.max(axis=0)
    scaled = (places - low) / np.maximum(high - low, 1e-9)
    scaled[:, (high - low) < 1e-6] = 0.5
    return {node: (float(x), float(y)) for node, (x, y) in zip(nodes, scaled, strict=True)}


def _pull(places: NDArray[np.float64], pairs: NDArray[np.int_], distance: float, step: float) -> NDArray[np.float64]:
    """One round of Fruchterman and Reingold, nobody further than `step`."""
    apart = places[:, None, :] - places[None, :, :]
    squares = np.maximum((apart**2).sum(axis=2), 1e-6)
    force = (apart * (distance**2 / squares)[:, :, None]).sum(axis=1)
    force -= places * 0.05  # parts that nothing links stay on the page
    if len(pairs):
        along = places[pairs[:, 0]] - places[pairs[:, 1]]
        pull = along * (np.sqrt((along**2).sum(axis=1)) / distance)[:, None]
        np.subtract.at(force, pairs[:, 0], pull)
        np.add.at(force, pairs[:, 1], pull)
    length = np.maximum(np.sqrt((force**2).sum(axis=1)), 1e-9)
    return np.asarray(force * (np.minimum(length, step) / length)[:, None])
