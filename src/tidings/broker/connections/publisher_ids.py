"""Numbers of publishers: unique, and not predictable from other numbers.

Repeated messages are recognized by their id, which begins with the publisher's number. A client that could guess the
number of another could use its ids first and so have its messages discarded as repetitions. So the numbers are a
counter permuted under a random key of this process. Histories have the key, and store the count, which is smaller.
"""

import secrets
from collections.abc import Iterator

from tidings.kernel.exact_lists import PublisherNumbering

PUBLISHER_MAX = (1 << 29) - 1  # the first three bits tell what came by AMQP, and how (docs/wire.md)


def new_numbering() -> int:
    """A key: never 0."""
    return secrets.randbelow(2**64 - 1) + 1


def publisher_numbers(numbering: int) -> Iterator[int]:
    """An endless sequence; each number from 1 to PUBLISHER_MAX occurs once before any of them is repeated."""
    numbers = PublisherNumbering(numbering)
    while True:
        for count in range(PUBLISHER_MAX + 1):
            if number := numbers.number_of(count):
                yield number
