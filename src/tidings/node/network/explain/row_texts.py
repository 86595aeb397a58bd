"""Compares the rows of interests with messages, one by one, and says what they ask for.

The kernel answers which brokers want a message; this tells why, for explanations.
"""

from contextlib import suppress

from tidings.errors import UsageError
from tidings.model.codec import decode_predicate
from tidings.model.predicate_text import abridged
from tidings.model.selector.program import run
from tidings.routing.bdrp.filter_rows import is_filter, predicate_of
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.message_views import batch_of


class MatchingRows:
    """Rows compared with one message."""

    def __init__(self, encoding: InterestEncoding, message: bytes) -> None:
        self._encoding = encoding
        self._attributes = batch_of(message).attributes(0)
        self._carried: frozenset[int] | None = None
        with suppress(UsageError):  # too large to be encoded: it is sent to every broker with an encoded row
            self._carried = encoding.carried(encoding.encoding.message_elements(self._attributes))

    def lets_through(self, row: bytes) -> bool:
        if is_filter(row):
            return decode_predicate(predicate_of(self._encoding.opened(row))).matches(self._attributes, run)
        return self._carried is None or self._encoding.members(row) <= self._carried

    def text(self, row: bytes) -> str:
        """The text of a row that lets the message through; empty: it does not."""
        return row_text(self._encoding, row) if self.lets_through(row) else ""


def row_text(encoding: InterestEncoding, row: bytes) -> str:
    if is_filter(row):
        return abridged(decode_predicate(predicate_of(encoding.opened(row))))
    asked, unit = encoding.members(row), "bits" if encoding.vectors else "elements"
    return f"an encoded row of {len(asked)} {unit}" if asked else "a row that asks for everything"
