"""Messages that may have been sent before, as after a broken connection: those that were are not stored again.

The broken connection may not have ended here yet, and what was sent by it may be read later than what is sent again. So
from the first message that is sent again on, whatever else comes from that publisher, by whichever connection, may
have been sent before.

A broker may crash between the write and the receipt. So the messages that it stored last count as recent when it
starts, those included that its consumers have acknowledged: the store keeps them for a while. What was stored before
those is not known: sent again, it is stored again, marked as perhaps seen.
"""

from collections.abc import Iterable

from tidings.delivery.mailbox import DURABLE
from tidings.delivery.store import Recovered, Store
from tidings.errors import StoreError
from tidings.kernel.recent_ids import RecentIds
from tidings.node.encoded_message import ID

PUBLISHER = slice(0, 4)  # of an id
PUBLISHERS_MAX = 4096  # whose messages were sent again, lately
RECENT_MAX = 16_384  # messages that are looked at when a broker starts
DELAYED_KIND = "delayed"  # of what waits for its time (`delayed_messages`)
_KINDS = {kind.value for kind in DURABLE} | {DELAYED_KIND}


class PublishDedup:
    def __init__(self) -> None:
        self.recent = RecentIds()  # of messages stored lately
        self.under_way: set[bytes] = set()  # ids of messages whose record is not written yet
        self.duplicates = 0
        self._moved: dict[bytes, None] = {}  # publishers that have gone on by another connection, the oldest first

    def recover(self, message_ids: Iterable[bytes]) -> None:
        """These were stored by an earlier process."""
        for message_id in message_ids:
            self.recent.add(message_id)

    def perhaps(self, message_id: bytes, said: bool) -> bool:
        """True if a message may have been sent before; `said`: its frame says so."""
        publisher = message_id[PUBLISHER]
        if said and publisher not in self._moved:
            self._moved[publisher] = None
            if len(self._moved) > PUBLISHERS_MAX:
                del self._moved[next(iter(self._moved))]
        return said or (bool(self._moved) and publisher in self._moved)

    def is_copy(self, message_id: bytes, said: bool) -> bool:
        """True if a message was sent before, and is stored or on its way to the disk."""
        return self.perhaps(message_id, said) and (message_id in self.recent or message_id in self.under_way)

    def is_safe(self, message_id: bytes) -> bool:
        """True if a message that may have been sent before was, and is stored."""
        safe = message_id in self.recent
        self.duplicates += safe
        return safe


def recent_ids(store: Store, recovered: Recovered) -> list[bytes]:
    """Of the messages for clients that were stored last. A mailbox that is gone was one of theirs."""
    others = {box.mailbox for box in recovered.mailboxes if box.kind not in _KINDS}
    found = store.recent(RECENT_MAX, ID.stop)
    return [one.head[ID] for one in found if len(one.head) == ID.stop and not others.issuperset(one.mailboxes)]


def copy_refused() -> StoreError:
    """The answer to a message that was sent again, if the first one could not be written."""
    return StoreError("E_STORE_IO", "the copy before it could not be written")
