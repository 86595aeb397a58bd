"""Recognises a single publisher that waits for each receipt and has the broker almost to itself.

Its messages are written at once (`PersistNow`), each alone: gathering them with others would gain nothing.
"""

MESSAGES_MIN = 16  # of the same publisher in a row
READS_MAX = 4  # of all sockets from one message to the next: the message, its acknowledgement, and little else


class SoloPublisher:
    def __init__(self, messages_min: int = MESSAGES_MIN) -> None:
        self._messages_min = messages_min
        self._publisher = -1
        self._in_a_row = 0
        self._reads = 0

    def published(self, connection: int, reads: int) -> bool:
        """To be asked at each message for the store; `reads` of all sockets so far."""
        few = reads - self._reads <= READS_MAX
        self._in_a_row = self._in_a_row + 1 if connection == self._publisher else 0
        self._publisher, self._reads = connection, reads
        return few and self._in_a_row >= self._messages_min
