"""Messages that schemes carry, as they read them."""

from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.routing.hermes.type_filters import attributes_of
from tidings.routing.message_views import SHORT_BYTES_MAX, batch_of


def message(size: int) -> bytes:
    return encode_message(Message(Destination("a"), {"n": size}, body=bytes(size)))


def test_a_message_of_any_length_can_be_read() -> None:
    for size in (0, 1 << 20, 17 << 20):
        assert batch_of(message(size)).attributes(0)["n"] == size


def test_only_short_ones_are_kept() -> None:
    short, long = message(10), message(SHORT_BYTES_MAX)
    assert batch_of(short) is batch_of(short)
    assert attributes_of(short) is attributes_of(short)
    assert batch_of(long) is not batch_of(long)
    assert attributes_of(long) is not attributes_of(long)
