"""A message that is written by itself, at once.

Mostly it pays to wait for others: messages are gathered, leave as one batch, and what follows from that comes with the
batch's answer (`journal`). A publisher that waits for each receipt, with nobody beside it, gains nothing: whatever it
takes to gather stands between it and its next message. So the driver may write its message between `begin` and `end`,
together with the changes that nobody waits for, and confirm it before it goes on to those who want it.
"""

from collections.abc import Sequence

from tidings.delivery.mailbox import Mailbox
from tidings.delivery.store import Record, Stored
from tidings.node.encoded import PERSISTENT
from tidings.node.journal import Journal
from tidings.node.post_office import PostOffice


class Alone:
    def __init__(self, journal: Journal, office: PostOffice) -> None:
        self._journal = journal
        self._office = office
        self._begun: tuple[Stored, list[Mailbox], int] | None = None

    def begin(self, message: bytes, sinks: Sequence[int], expires_ms: int) -> list[Record] | None:
        """What is to be written; None: the message must go the usual way, as it may in any case."""
        changes, by_sink = self._journal.changes_alone(), self._office.by_sink
        if changes is None or not message[1] & PERSISTENT or self._office.retained:
            return None
        mailboxes = [by_sink[sink] for sink in sinks if sink in by_sink and by_sink[sink].durable]
        if not mailboxes or len(mailboxes) != len(sinks):
            return None
        stored = Stored(self._office.take_seq(), message, tuple([mailbox.number for mailbox in mailboxes]))
        self._begun = stored, mailboxes, expires_ms
        return [*changes, stored]

    def end(self) -> None:
        """It is written. To be called before anything else happens; `Node.turn` then gives it out."""
        assert self._begun is not None
        stored, mailboxes, expires_ms = self._begun
        self._begun = None
        self._journal.wrote_alone()
        self._office.offer(stored.seq, stored.message_bytes, mailboxes, stored=True, expires_ms=expires_ms)
