"""Interface of all matchers: finds the subscribers whose predicates match each message of a batch.

A subscriber is a number below 2**32 that the caller chooses, with one predicate. Adding a number that is there, or
removing one that is not, is an E_MATCHER_ID. A match gives offsets and ids: the subscribers of entry i are
`ids[offsets[i]:offsets[i + 1]]`, each once, in no particular order; entries that are no messages have none.
"""

from itertools import pairwise
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch
from tidings.model.predicate import Predicate

Matches: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint32]]  # offsets, ids

ID_MAX = 2**32 - 1


class Matcher(Protocol):
    def add(self, id: int, predicate: Predicate) -> None: ...

    def remove(self, id: int) -> None: ...

    def match(self, batch: MessageBatch) -> Matches: ...

    def __len__(self) -> int:
        """Returns the number of subscribers."""
        ...

    @property
    def derived_mask(self) -> int:
        """Derived attributes that a batch must show for the answers to be right (bits of kernel.codec.DERIVED_*)."""
        ...


def check_id(id: int) -> None:
    if not 0 <= id <= ID_MAX:
        raise UsageError("E_MATCHER_ID", f"subscriber id {id} must be from 0 to {ID_MAX}")


def per_message(matches: Matches) -> list[list[int]]:
    """The matches as sorted lists, one a message.

    >>> per_message((np.array([0, 2, 2], np.uint32), np.array([9, 4], np.uint32)))
    [[4, 9], []]
    """
    offsets, ids = matches
    return [sorted(ids[start:end].tolist()) for start, end in pairwise(offsets)]
