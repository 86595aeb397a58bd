"""Messages that may have been sent before, as after a broken connection: those that were are not stored again.

The broken connection may not have ended here yet, and what was sent by it may be read later than what is sent again. So
from the first message that is sent again on, whatever else comes from that publisher, by whichever connection, may
have been sent before.
"""

from tidings.errors import StoreError
from tidings.kernel.recent import RecentIds

PUBLISHER = slice(0, 4)  # of an id
PUBLISHERS_MAX = 4096  # whose messages were sent again, lately


class Repeats:
    def __init__(self) -> None:
        self.recent = RecentIds()  # of messages stored lately
        self.under_way: set[bytes] = set()  # ids of messages whose record is not written yet
        self.duplicates = 0
        self._moved: dict[bytes, None] = {}  # publishers that have gone on by another connection, the oldest first

    def perhaps(self, message_id: bytes, said: bool) -> bool:
        """Whether a message may have been sent before; `said`: its frame says so."""
        publisher = message_id[PUBLISHER]
        if said and publisher not in self._moved:
            self._moved[publisher] = None
            if len(self._moved) > PUBLISHERS_MAX:
                del self._moved[next(iter(self._moved))]
        return said or (bool(self._moved) and publisher in self._moved)

    def is_safe(self, message_id: bytes) -> bool:
        """Whether a message that may have been sent before was, and is stored."""
        safe = message_id in self.recent
        self.duplicates += safe
        return safe


def copy_refused() -> StoreError:
    """The answer to a message that was sent again, if the first one could not be written."""
    return StoreError("E_STORE_IO", "the copy before it could not be written")
