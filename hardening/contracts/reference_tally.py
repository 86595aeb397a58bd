"""The tally in plain Python."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class ReferenceTally:
    """Subscription i is attached to broker `router_of[i]`, an index of `marks`."""

    def __init__(self, router_of: NDArray[np.uint32], marks: NDArray[np.uint64]) -> None:
        self._router_of, self._marks = router_of.tolist(), marks.tolist()
        self.matched, self.alone = (np.zeros(len(router_of), np.int64) for _ in range(2))
        self.router_messages, self.router_matches = (np.zeros(len(marks), np.int64) for _ in range(2))

    def add(self, offsets: NDArray[np.uint32], found: NDArray[np.uint32]) -> tuple[Numbers, NDArray[np.uint64]]:
        """Of each message the number of brokers, and the xor of their marks."""
        counts, sets = [], []
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            own = found[start:end].tolist()
            for one in own:
                self.matched[one] += 1
                self.alone[one] += len(own) == 1
                self.router_matches[self._router_of[one]] += 1
            routers, mark = {self._router_of[one] for one in own}, 0
            for router in routers:
                self.router_messages[router] += 1
                mark ^= self._marks[router]
            counts.append(len(routers))
            sets.append(mark)
        return np.array(counts, np.int64), np.array(sets, np.uint64)
