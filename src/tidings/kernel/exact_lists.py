"""Lists of message ids that are stored: run lists, which are exact, and line filters, where these would be larger.

>>> ids = b"".join(bytes((0, 0, 0, 7, 0, 0, 0, 1, *number.to_bytes(8, "big"))) for number in range(1000, 2000))
>>> runs = RunIds.of(ids)
>>> (runs.count, runs.runs, len(runs.to_bytes())), runs.contains(ids[:16] + bytes(16)).tolist()
((1000, 1, 17), [True, False])
>>> lines = LineFilter.of(ids, seed=5)
>>> len(lines.to_bytes()), bool(lines.contains(ids).all()), lines.fpp() < 5e-6
(3616, True, True)
"""

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tidings import _kernel
from tidings._kernel import PublisherNumbering
from tidings.kernel.bloom import Ids, as_ids

__all__ = ["LineFilter", "PublisherNumbering", "RunIds", "filter_bytes"]


class RunIds:
    """An exact list of ids, each once, in the order of brokers, publishers and times."""

    def __init__(self, runs: _kernel.RunList) -> None:
        self._runs = runs

    @classmethod
    def of(cls, ids: Ids) -> Self:
        return cls(_kernel.RunList.of(as_ids(ids)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; anything else is a CodecError."""
        return cls(_kernel.RunList.from_bytes(bytes(data)))

    @property
    def count(self) -> int:
        return self._runs.count

    @property
    def runs(self) -> int:
        return self._runs.runs

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        array = as_ids(ids)
        found = np.empty(len(array), dtype=np.uint8)
        self._runs.contains(array, found)
        return found.view(np.bool_)

    def fpp(self) -> float:
        return 0.0

    @classmethod
    def united(cls, parts: Iterable[bytes]) -> Self:
        """The ids of several lists, which `to_bytes` wrote."""
        return cls(_kernel.RunList.united(list(parts)))

    def ids(self) -> NDArray[np.uint8]:
        return as_ids(self._runs.ids())

    def to_bytes(self) -> bytes:
        return self._runs.to_bytes()


class LineFilter:
    """A Bloom filter of cache lines with room for as many ids as it has; its error is 4e-6."""

    def __init__(self, lines: _kernel.LineFilter) -> None:
        self._lines = lines

    @classmethod
    def of(cls, ids: Ids, seed: int) -> Self:
        return cls(_kernel.LineFilter.of(as_ids(ids), seed))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote; anything else is a CodecError."""
        return cls(_kernel.LineFilter.from_bytes(bytes(data)))

    @property
    def count(self) -> int:
        return self._lines.count

    @property
    def seed(self) -> int:
        return self._lines.seed

    def contains(self, ids: Ids) -> NDArray[np.bool_]:
        """For each id: False if it was certainly not added, True if it was or (with probability `fpp`) was not."""
        array = as_ids(ids)
        found = np.empty(len(array), dtype=np.uint8)
        self._lines.contains(array, found)
        return found.view(np.bool_)

    def fpp(self) -> float:
        return self._lines.fpp()

    def to_bytes(self) -> bytes:
        return self._lines.to_bytes()


def filter_bytes(ids: int) -> int:
    """The size of a line filter of that many ids."""
    return _kernel.LineFilter.bytes_for(ids)
