"""One consumer's part of a queue or subscription that another broker keeps: what its home has delivered, until the
consumer settles it.

It is a mailbox in memory with one consumer, so that credit, acknowledgements, transactions and output are those of all
mailboxes. What ends in it is reported to the home as a settlement, with the tag of the home's delivery. What was
delivered by a home that has lost this consumer since (`reset`) is *stale*: the home gives it out again, and settlements
mean nothing.
"""

from collections.abc import Callable, Iterable

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Consumer, Mailbox, MailboxDelivery, MailboxKind, Tries
from tidings.delivery.message_cache import MessageCache
from tidings.errors import TidingsError
from tidings.node.clients.subscription_plan import SubscriptionPlan
from tidings.node.completions import AnswerRequest
from tidings.node.network_queues.records import Settlement
from tidings.overlay.effects import Router

PRIORITY = 4  # of all: the home has put them into order


class SyncBarrier:
    """An answer to a client that waits until homes have on disk what it settled."""

    def __init__(self, answer: AnswerRequest, left: int) -> None:
        self.answer, self.left, self.lost = answer, left, False


class AttachedMailbox(Mailbox):
    def __init__(
        self,
        name: str,
        selector: str,
        message_cache: MessageCache,
        news: "dict[AttachedMailbox, None]",
    ) -> None:
        """`news`: takes note of this mailbox when there is something to tell its home."""
        super().__init__(0, name, MailboxKind.ATTACHED, message_cache)
        self.selector = selector
        self.plan: SubscriptionPlan | None = None  # of a durable or shared subscription; None: a queue
        self.exclusive = self.manages = self.everywhere = False  # as in `AttachSubscriber`
        self.confirm: Callable[[TidingsError | None], None] | None = None  # once it is in force; None: it is, or was
        self.confirm_until = 0.0
        self.attachment = 0  # its number at its home
        self.home: Router | None = None
        self.consumer: Consumer | None = None  # None: it has left
        self.connection = self.subscription = 0  # the client's
        self.allowed = 0  # deliveries that the home may make, as it was told last
        self.received = 0  # those that came
        self.settled: list[tuple[Settlement, bool, int]] = []  # not told yet; with whether it is to go elsewhere, tag
        self.settlements = self.synced = 0  # made in all, and those that the home has on disk
        self.syncs: list[SyncBarrier] = []  # not told yet
        self.drains: list[int] = []  # the same: receipts
        self._news = news
        self._tags: dict[int, int] = {}  # the home's, by number of the message here

    # --- from the home --------------------------------------------------------------------------------------------

    def arrive(self, seq: int, tag: int, given: int, message: bytes) -> None:
        """A delivery of the home."""
        self.received += 1
        self._tags[seq] = tag
        self._message_cache.add(seq, message, holders=1, stored=False)
        self.offer(BacklogPosition(seq, PRIORITY), size=len(message), tries=Tries(spared=given))
        if self.consumer is None:  # it left while this was on its way
            self.purge()

    def confirmed(self, error: TidingsError | None) -> bool:
        """Answer the client, if it waits; False: it has an answer."""
        confirm, self.confirm = self.confirm, None
        if confirm is not None:
            confirm(error)
        return confirm is not None

    def reset(self) -> None:
        """The home has lost this consumer, or is another one from now on: all that is here is stale."""
        self._tags.clear()
        self.settled.clear()
        self.drains.clear()
        self.synced = self.settlements
        self.allowed = self.received = 0
        Mailbox.purge(self)
        if self.consumer is not None:
            stale = self.reject(self.consumer, list(self.consumer.unacknowledged))
            for place in stale:
                Mailbox.finish(self, place.seq)
            if self.consumer.window:
                self.consumer.credit += len(stale)
        self._tell()

    def has_stale(self, places: Iterable[BacklogPosition]) -> bool:
        """True if the home gives out one of these again, whatever becomes of it here."""
        return any(place.seq not in self._tags for place in places)

    @property
    def unsynced(self) -> bool:
        """The home may not have on disk what was settled."""
        return self.settlements > self.synced

    @property
    def busy(self) -> bool:
        """Something waits for the consumer, or for the end of a transaction."""
        return bool(self._tags)

    # --- to the home ----------------------------------------------------------------------------------------------

    def sync(self, barrier: SyncBarrier) -> None:
        self.syncs.append(barrier)
        self._tell()

    def drain(self, receipt: int) -> None:
        self.drains.append(receipt)
        self._tell()

    def wants(self) -> int:
        """The number of deliveries that the home may make in all."""
        consumer = self.consumer
        if consumer is None or not consumer.active:
            return self.received
        return self.received + max(0, consumer.credit - len(self.backlog))

    def _tell(self) -> None:
        self._news[self] = None

    def _settle(self, seq: int, settlement: Settlement) -> None:
        """It ends here."""
        tag = self._tags.pop(seq, None)
        if tag is not None:
            elsewhere = self.consumer is not None and seq in self.consumer.avoids
            self.settled.append((settlement, elsewhere, tag))
            self.settlements += 1
        super().finish(seq)
        self._tell()

    # --- as a mailbox ---------------------------------------------------------------------------------------------

    def attach(self, consumer: Consumer) -> None:
        super().attach(consumer)
        self.consumer = consumer
        self._tell()

    def detach(self, consumer: Consumer) -> list[BacklogPosition]:
        """As the loss of a consumer at the home: the first counts as tried."""
        self.consumers.remove(consumer)
        self.purge()
        for number, place in enumerate(self.reject(consumer, list(consumer.unacknowledged))):
            self._settle(place.seq, Settlement.SPARED if number else Settlement.RETRY)
        self.consumer = None
        self._tell()
        return []

    def dispatch(self, now_ms: int) -> list[MailboxDelivery]:
        self._tell()
        return super().dispatch(now_ms)

    def finish(self, seq: int) -> None:
        self._settle(seq, Settlement.DONE)

    def retry(self, places: list[BacklogPosition]) -> list[BacklogPosition]:
        for place in places:
            self._settle(place.seq, Settlement.RETRY)
        return []

    def put_back(self, place: BacklogPosition) -> None:
        self._settle(place.seq, Settlement.BACK)

    def purge(self) -> list[int]:
        while (place := self.backlog.take()) is not None:
            self._settle(place.seq, Settlement.BACK)
        return []

    def bury(self, places: Iterable[BacklogPosition]) -> None:
        """Dead letters are made by the home."""
        for place in places:
            self._settle(place.seq, Settlement.DEAD)
