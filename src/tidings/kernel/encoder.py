"""Messages to vectors and elements, a batch at a time. The reference is `tidings.matching.encoding`.

>>> from tidings.kernel.codec import encode_messages
>>> from tidings.model.destination import Destination
>>> from tidings.model.message import Message
>>> batch = MessageBatch.from_messages(encode_messages([Message(Destination("ticks"), {"price": 50})] * 3))
>>> MessageEncoder(bits=256, hashes=7).vectors(batch).shape
(3, 4)
"""

import numpy as np
from numpy.typing import NDArray

from tidings import _kernel
from tidings.kernel.codec import MessageBatch
from tidings.kernel.matrix import Vectors


class MessageEncoder:
    def __init__(self, bits: int = 256, hashes: int = 7, key: int = 0, *, graded: bool = False) -> None:
        self._encoder = _kernel.Encoder(bits, hashes, key, graded)

    def vectors(self, batch: MessageBatch) -> Vectors:
        """One vector an entry of the batch; zero for an entry that is not a message, all ones for a message that
        carries more elements than are encoded."""
        return self._encoder.vectors(batch.batch)

    def elements(self, batch: MessageBatch) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Offsets and elements: those of entry i are `elements[offsets[i] : offsets[i + 1]]`, ascending, each once.
        E_ENCODING_LIMIT if a message carries more than are encoded."""
        return self._encoder.elements(batch.batch)
