"""Applies policies to queues: refuses publishers, takes out what is too much, deletes queues that nobody uses.

Dead letters and messages that are moved are never refused: what a queue cannot hold then is more than its limit until
consumers have taken it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, assert_never

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Mailbox
from tidings.delivery.policy import Overflow, QueuePolicy
from tidings.errors import LimitError
from tidings.kernel.codec import altered, decode_message, encode_message
from tidings.node.encoded_message import expires_ms_of
from tidings.node.mailboxes.dead_letters import OVERFLOWED, DeadLetters
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_table import MailboxTable
from tidings.tracking.recording.losses import LossCause


class QueueOwner(Protocol):
    """The part of the mailbox service that limits need."""

    dead_letters: DeadLetters

    def finished(self, mailbox: Mailbox, seqs: list[int]) -> None: ...
    def lose(self, mailbox: Mailbox, seq: int, cause: LossCause) -> None: ...
    def remove(self, mailbox: Mailbox) -> None: ...
    def touch_all(self) -> None: ...


class QueueLimits:
    def __init__(self, service: QueueOwner, mailboxes: MailboxTable, journal: Journal) -> None:
        self._service, self._mailboxes, self._journal = service, mailboxes, journal

    def configure(self, policies: Sequence[QueuePolicy]) -> None:
        """Other policies from now on, for the queues that exist too."""
        self._mailboxes.apply(policies)
        for mailbox in list(self._mailboxes.limited):
            self.trim(mailbox)
        self._service.touch_all()  # others may be served now

    def admit(self, publications: Iterable[tuple[int, Sequence[Mailbox]]]) -> None:
        """Raises a LimitError if one of the queues has no room for these messages, given with their sizes."""
        more: dict[Mailbox, tuple[int, int]] = {}
        of_users: Counter[str] = Counter()
        for size, mailboxes in publications:
            for mailbox in mailboxes:
                if (quota := mailbox.quota) is None:
                    continue
                count, total = more.get(mailbox, (0, 0))
                more[mailbox] = count, total = count + 1, total + size
                if quota.refuses(mailbox.messages, count, total):
                    raise LimitError("E_QUEUE_FULL", f"{mailbox.name} is full; try again when messages were taken")
                if (stored := quota.stored) is not None:
                    of_users[stored.user] += size
                    if stored.bytes + of_users[stored.user] > stored.bytes_max:
                        reason = (
                            f"the queues of {stored.user} are at its storage quota; consume or purge messages first"
                        )
                        raise LimitError("E_QUOTA_BYTES", reason)

    def shortened(
        self, now_ms: int, message: bytes, expires_ms: int, mailboxes: Sequence[Mailbox]
    ) -> tuple[bytes, int]:
        """A message and its expiry, with the lifetime that its queue allows it at most."""
        for mailbox in mailboxes:
            if mailbox.quota is not None and (lifetime_ms := mailbox.quota.policy.lifetime_ms):
                latest_ms = now_ms + lifetime_ms
                if not 0 < expires_ms <= latest_ms:
                    return encode_message(altered(decode_message(message), expiration_ms=latest_ms)), latest_ms
        return message, expires_ms

    def dated(self, now_ms: int, message: bytes, mailboxes: Sequence[Mailbox]) -> bytes:
        """The same where the expiry is not known yet."""
        if not any(mailbox.quota is not None for mailbox in mailboxes):
            return message
        return self.shortened(now_ms, message, expires_ms_of(message), mailboxes)[0]

    def offered(self, mailbox: Mailbox, place: BacklogPosition, size: int) -> None:
        """A message has come to a queue with a policy."""
        assert mailbox.quota is not None
        mailbox.quota.holds(place.seq, size)
        if mailbox.quota.policy.overflow is Overflow.DROP_NEWEST and mailbox.quota.full(mailbox.messages):
            mailbox.backlog.remove(place)
            self._drop(mailbox, place, Overflow.DROP_NEWEST)
        else:
            self.trim(mailbox)

    def trim(self, mailbox: Mailbox) -> None:
        """Take out what is too much, as far as it waits."""
        quota = mailbox.quota
        while quota is not None and quota.full(mailbox.messages):
            match quota.policy.overflow:
                case Overflow.REFUSE | Overflow.DROP_NEWEST:  # what is there may stay
                    return
                case Overflow.DROP_OLDEST | Overflow.DEAD_LETTER:
                    place = mailbox.backlog.first()
                case _:
                    assert_never(quota.policy.overflow)
            if place is None:
                return
            mailbox.backlog.remove(place)
            self._drop(mailbox, place, quota.policy.overflow)

    def recovered(self, mailbox: Mailbox) -> None:
        """Takes out what a crash has brought back: that it had left was not on disk yet."""
        quota = mailbox.quota
        if quota is not None and quota.policy.overflow is Overflow.DROP_NEWEST and quota.full(mailbox.messages):
            oldest_first = sorted(mailbox.backlog.scan())
            while oldest_first and quota.full(mailbox.messages):
                place = oldest_first.pop()
                mailbox.backlog.remove(place)
                self._drop(mailbox, place, Overflow.DROP_NEWEST)
        self.trim(mailbox)

    def _drop(self, mailbox: Mailbox, place: BacklogPosition, overflow: Overflow) -> None:
        assert mailbox.quota is not None
        mailbox.quota.count(overflow)
        if overflow is Overflow.DEAD_LETTER:
            mailbox.quota.leaving(place.seq)
            self._service.dead_letters.bury(mailbox, [place], OVERFLOWED)
            return
        mailbox.dropped += 1
        self._service.lose(mailbox, place.seq, LossCause.DROPPED)
        mailbox.finish(place.seq)
        self._service.finished(mailbox, [place.seq])

    def tick(self, now_ms: int) -> None:
        """About once a second: delete queues that were empty and without consumers for as long as their policy says."""
        for mailbox in list(self._mailboxes.limited):
            quota = mailbox.quota
            assert quota is not None
            if not quota.policy.idle_ms:
                continue
            if mailbox.consumers or mailbox.messages or self._journal.is_storing(mailbox.number):
                quota.idle_since_ms = None
            elif quota.idle_since_ms is None:
                quota.idle_since_ms = now_ms
            elif now_ms - quota.idle_since_ms >= quota.policy.idle_ms:
                self._service.remove(mailbox)
