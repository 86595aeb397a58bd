"""Exact lists of message ids, small: sorted, as differences, byte planes apart, deflated.

Ids of one publisher are mostly the same bytes, and their times grow slowly. Sorted, an id differs from its
predecessor in few low bytes; putting the first bytes of all differences together, then the second and so on, gives long
runs of zeros for deflate. The order of arrival is lost, which a set of ids does not need.

    count u32 | deflate( bytes 0 of the upper words' differences … bytes 7, then the same of the lower words )

>>> from tidings.model.message_id import MessageId
>>> ids = id_array(*(MessageId(7, 1, 10**12 + 3 * i) for i in range(1000)))
>>> len(ids.tobytes()), len(encode_ids(ids)) < 100, (decode_ids(encode_ids(ids[::-1])) == ids).all()
(16000, True, np.True_)
"""

import struct
import zlib

import numpy as np

from tidings.errors import CodecError
from tidings.tracking.ids import IdArray, Words, id_array, id_words

__all__ = ["decode_ids", "encode_ids", "id_array"]

_COUNT = struct.Struct("<I")


def encode_ids(ids: IdArray) -> bytes:
    upper, lower = id_words(ids)
    order = np.lexsort((lower, upper))
    planes = b"".join(_planes(np.diff(words[order], prepend=np.uint64(0))) for words in (upper, lower))
    return _COUNT.pack(len(ids)) + zlib.compress(planes, 6)


def decode_ids(data: bytes) -> IdArray:
    """The ids in ascending order; a CodecError if the bytes are not what `encode_ids` writes."""
    if len(data) < _COUNT.size:
        raise CodecError("E_LOG_SHORT", "truncated list of ids: its count is missing", position=len(data))
    (count,) = _COUNT.unpack_from(data)
    inflater = zlib.decompressobj()
    try:
        planes = inflater.decompress(data[_COUNT.size :], 16 * count + 1)
    except zlib.error as error:
        raise CodecError("E_LOG_DEFLATE", str(error), position=_COUNT.size) from None
    if len(planes) != 16 * count or not inflater.eof or inflater.unused_data:
        raise CodecError("E_LOG_LENGTH", f"not the bytes of {count} ids", position=len(data))
    halves = (planes[: 8 * count], planes[8 * count :])
    words = np.stack([np.cumsum(_unplane(half), dtype=np.uint64) for half in halves], axis=1)
    return words.astype(">u8").view(np.uint8).reshape(-1, 16)


def _planes(words: Words) -> bytes:
    return words.view(np.uint8).reshape(-1, 8).T.tobytes()


def _unplane(planes: bytes) -> Words:
    return np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(8, -1).T).view(np.uint64).ravel()
