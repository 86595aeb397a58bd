"""Messages that may have been sent before, as after a broken connection: those that were are not stored again."""

from collections.abc import Callable

from tidings.errors import StoreError, TidingsError
from tidings.kernel.recent import RecentIds
from tidings.node.journal import Journal


class Repeats:
    def __init__(self, journal: Journal) -> None:
        self.recent = RecentIds()  # of messages stored lately
        self.under_way: set[bytes] = set()  # ids of messages whose record is not written yet
        self.duplicates = 0
        self._journal = journal

    def repeated(
        self, message_id: bytes, done: Callable[[], None] | None, failed: Callable[[TidingsError], None] | None
    ) -> bool:
        """Whether a message that may have been sent before was. If that one is on its way to disk still, and perhaps
        refused there, this one shares its fate."""

        def decide(_: TidingsError | None = None) -> None:
            if message_id in self.recent:
                self.duplicates += 1
                if done is not None:
                    done()
            elif failed is not None:
                failed(StoreError("E_STORE_IO", "the copy before it could not be written"))

        if message_id in self.recent:
            decide()
        elif message_id in self.under_way:
            self._journal.then(decide, decide)
        else:
            return False
        return True
