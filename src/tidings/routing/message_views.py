"""Common parts of schemes that carry messages: a message as a batch of one, and what a neighbour said, checked before
the machine hears it."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

from tidings.errors import CodecError
from tidings.kernel.codec import MessageBatch
from tidings.model.codec import ID
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.effects import Effect, Passed, Report, Router

T = TypeVar("T")

SHORT_BYTES_MAX = 4096


def kept_of_short(count: int) -> Callable[[Callable[[bytes], T]], Callable[[bytes], T]]:
    """Keeps what is read from the last `count` messages. Long ones are read again: they would fill the memory."""

    def keeping(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
        keep = lru_cache(maxsize=count)(read)

        @wraps(read)
        def reading(message: bytes) -> T:
            return keep(message) if len(message) <= SHORT_BYTES_MAX else read(message)

        return reading

    return keeping


@kept_of_short(1024)
def batch_of(message: bytes) -> MessageBatch:
    """An encoded message as the batch of one that matchers take."""
    batch = MessageBatch.from_messages(len(message).to_bytes(4, "little") + message)
    if len(batch) != 1 or not batch.is_message(0):
        error = (batch.error(0) if len(batch) else None) or batch.fatal
        raise error or CodecError("E_CODEC_TRUNCATED", "not a message", position=0)
    return batch


def heard(
    neighbour: Router,
    said: SchemeMessage,
    scheme: int,
    decode: Callable[[bytes], T],
    carried: Callable[[object], bytes | None],
) -> tuple[T | None, list[Effect]]:
    """Returns what a neighbour said, or None and a report if it is invalid; and that a message passed, if it has one.

    `carried`: the message in it, if it is a publication. A message that cannot be read is refused here: the machine
    takes for granted that it can be.
    """
    try:
        if said.scheme != scheme:
            raise CodecError("E_SCHEME_MESSAGE", f"scheme {said.scheme} is not scheme {scheme} of this broker")
        found = decode(said.payload)
        message = carried(found)
        if message is not None:
            batch_of(message)
    except CodecError as error:
        return None, [Report("E_SCHEME_MESSAGE", f"invalid message from router {neighbour}: {error}")]
    return found, [] if message is None else [Passed(message[ID])]
