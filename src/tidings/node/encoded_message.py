"""Reads the fields of an encoded message that the node needs, without decoding the rest (docs/wire.md)."""

from tidings.kernel.codec import decode_message
from tidings.model.destination import Destination

PERSISTENT, QUEUE, EXPIRES, DELAYED = 1, 2, 4, 8  # flags, in the second byte
PRIORITY = 2  # where it stands
ID = slice(4, 20)


def expires_ms_of(message: bytes) -> int:
    return (decode_message(message).expiration_ms or 0) if message[1] & EXPIRES else 0


def destination_of(message: bytes) -> Destination:
    length = int.from_bytes(message[22:24], "little")
    return Destination(message[28 : 28 + length].decode(), bool(message[1] & QUEUE))
