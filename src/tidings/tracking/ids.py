"""Batches of message ids as arrays: the parts of each id without a Python object for it.

>>> batch = as_ids(bytes(MessageId(publisher=7, broker=3, ms=1000)) + bytes(MessageId(8, 4, 2**40, 5)))
>>> id_times(batch).tolist(), id_origins(batch).tolist()
([1000, 1099511627776], [3, 4])
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings.kernel.bloom import Ids, as_ids
from tidings.model.message_id import MessageId

__all__ = ["IdArray", "Ids", "Times", "as_ids", "id_array", "id_origins", "id_times", "id_words"]

IdArray: TypeAlias = NDArray[np.uint8]
Times: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]


def id_array(*ids: MessageId) -> IdArray:
    return as_ids(b"".join(map(bytes, ids)))


def id_words(ids: IdArray) -> tuple[Words, Words]:
    """Each id as two numbers: publisher and broker, milliseconds and counter. Pairs sort as the ids do."""
    words = np.ascontiguousarray(ids).view(">u8")
    return words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)


def id_times(ids: IdArray) -> Times:
    """Milliseconds since 1970 of each id."""
    return (np.ascontiguousarray(ids).view(">u8")[:, 1] >> np.uint64(16)).astype(np.int64)


def id_origins(ids: IdArray) -> Times:
    """The broker in each id."""
    return np.ascontiguousarray(ids).view(">u4")[:, 1].astype(np.int64)
