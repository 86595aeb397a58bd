"""Message groups: all messages of a queue with one `JMSXGroupID` go to one consumer, as long as that is there.

Groups are kept by a hash of their id, so a queue needs a bounded memory for any number of them; groups with the same
hash go to the same consumer. A group is given to the next consumer in turn with its first message, and to another one
when its consumer leaves, or has returned a message for another consumer.
"""

from typing import Generic, TypeVar
from zlib import crc32

from tidings.kernel.codec import decode_message

GROUP_ID = "JMSXGroupID"
BUCKETS = 4096
_NAME = bytes((len(GROUP_ID),)) + GROUP_ID.encode()  # as it stands in a message
Owner = TypeVar("Owner")
_FIRST, _NEAR = 28, 2048  # where attributes begin at the earliest, and mostly end


def group_of(message: bytes) -> int | None:
    """The group of a message, as the number of its bucket; None: it has none."""
    if message.find(_NAME, _FIRST, _NEAR) < 0:
        if len(message) <= _NEAR:
            return None
        attributes = _FIRST + int.from_bytes(message[22:24], "little") + int.from_bytes(message[24:28], "little")
        if message.find(_NAME, _FIRST, attributes) < 0:
            return None
    group = decode_message(message).properties.get(GROUP_ID)
    return crc32(group.encode()) % BUCKETS if isinstance(group, str) and group else None


class MessageGroups(Generic[Owner]):
    """Owners are consumers, compared by identity."""

    def __init__(self) -> None:
        self._owners: dict[int, Owner] = {}

    def owner(self, group: int) -> Owner | None:
        return self._owners.get(group)

    def bind(self, group: int, consumer: Owner) -> bool:
        """The group is this consumer's from now on; True if it was another one's."""
        before = self._owners.get(group)
        self._owners[group] = consumer
        return before is not None and before is not consumer

    def leave(self, consumer: Owner) -> bool:
        """The consumer is gone; True if it had groups."""
        owned = [group for group, owner in self._owners.items() if owner is consumer]
        for group in owned:
            del self._owners[group]
        return bool(owned)
