"""The batch that was read last, so that messages read in order are read once."""

from collections.abc import Callable

import numpy as np

from tidings.delivery.batch_codec import Ints, layout
from tidings.errors import CodecError


class BatchPage:
    def __init__(self, read: Callable[[int], bytes | None]) -> None:
        self._read = read
        self._number, self._blob = -1, b""
        self._ends: Ints = np.empty(0, np.int64)  # of the records that passed their checksum

    def message(self, number: int, start: int, size: int) -> bytes | None:
        """Bytes of a batch that end with a record; None: they are not what they were."""
        if self._number != number:
            blob = self._read(number) or b""
            try:
                where = layout(blob)
                self._ends = where.ends[where.good]
            except CodecError:
                self._ends = np.empty(0, np.int64)
            self._number, self._blob = number, blob
        at = int(np.searchsorted(self._ends, start + size))
        sound = at < len(self._ends) and self._ends[at] == start + size
        return self._blob[start : start + size] if sound else None
