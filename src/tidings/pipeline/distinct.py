"""The distinct values of a long array, by a hash table: quicker than a sort where there are few."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def distinct(values: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Indices, Indices]:
    """Each once, where it is first, and of every value which of them it is; as they come, not sorted.

    >>> [one.tolist() for one in distinct(np.array([7, 3, 7, 7], np.uint64))]
    [[7, 3], [0, 1], [0, 1, 0, 0]]
    """
    encoded = pa.array(values).dictionary_encode()
    indices = encoded.indices.to_numpy().astype(np.int64)
    firsts = np.empty(len(encoded.dictionary), np.int64)
    firsts[indices[::-1]] = np.arange(len(values) - 1, -1, -1)
    return encoded.dictionary.to_numpy(), firsts, indices
