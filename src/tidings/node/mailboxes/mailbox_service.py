"""Manages the messages in a node's mailboxes.

The node passes on new messages and the verdicts of consumers; the service keeps memory, mailboxes and journal in step:

- a persistent message for a durable mailbox is offered only once it is on disk, and its receipt follows then;
- anything else is offered at once, and kept in memory alone, unless memory already holds much of that kind: then
  what durable mailboxes want goes to disk too, so that a subscriber that is away for long cannot exhaust memory;
- an acknowledgement is effective at once and made durable with the next batch: lost with a crash, it only makes the
  message come again, marked as redelivered.
"""

from collections.abc import Iterable
from typing import assert_never

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.last_values import LastValues
from tidings.delivery.mailbox import NEW, PERHAPS_SEEN, Consumer, Mailbox, MailboxKind, Tries
from tidings.delivery.message_cache import MessageCache
from tidings.delivery.redelivery_delay import RedeliveryTimes
from tidings.delivery.store import TARGETS_MAX, Acked, Attached, Counted, Detached, Recovered, Stored
from tidings.errors import TidingsError
from tidings.kernel.codec import decode_message
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.publish_dedup import PublishDedup, copy_refused
from tidings.node.completions import ConfirmPublication, ConfirmRepeat, FinishMove, Offer, OfferMessage, Outcome
from tidings.node.encoded_message import ID, PERSISTENT, PRIORITY, expires_ms_of
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.mailboxes.dead_letters import EXPIRED, TOO_OFTEN, DeadLetters
from tidings.node.mailboxes.expiry import Expiry
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_table import MailboxTable
from tidings.node.mailboxes.memory_limits import MemoryLimits
from tidings.node.mailboxes.queue_limits import QueueLimits
from tidings.node.plane import Plane
from tidings.node.settings import NodeSettings
from tidings.tracking.recording.losses import LossCause


class MailboxService:
    def __init__(
        self, plane: Plane, journal: Journal, backpressure: Backpressure, settings: NodeSettings, outbox: AnswerBatch
    ) -> None:
        self.message_cache = MessageCache(settings.messages_bytes_max)
        self.mailboxes = MailboxTable(plane, journal, self.message_cache, settings)
        self.overflow = MemoryLimits(plane, self.mailboxes, backpressure, settings, outbox, self.lose)
        self.expiry = Expiry(self.message_cache, settings.pieces.expiry_messages, settings.pieces.expiry_page)
        self.dead_letters = DeadLetters(self, self.mailboxes, settings.dead_letters, outbox)
        self.limits = QueueLimits(self, self.mailboxes, journal)
        self.publish_dedup = PublishDedup()
        self.redelivery = RedeliveryTimes[Mailbox]()
        self.attended: dict[Mailbox, None] = {}  # those with consumers
        self.expired = 0
        self.records_losses = False
        self.losses: list[tuple[Mailbox, LossCause, bytes]] = []  # since tracking took them: ids of messages
        self._journal, self._outbox = journal, outbox
        self._settings = settings
        self._next_seq = 1
        self._found_seq = 0  # the last one that an earlier run stored
        self._touched: dict[Mailbox, None] = {}

    def recover(self, recovered: Recovered) -> None:
        """Stand where the store says we stood."""
        for mailbox in self.mailboxes.recover(recovered):
            waiting = recovered.waiting[mailbox.number]
            perhaps = mailbox.number in recovered.attached  # it had a consumer that may have seen them
            mailbox.unsure_seq = recovered.last_seq if perhaps else 0
            if len(waiting):
                self.expiry.unknown(mailbox)
            if mailbox.quota is not None:
                for seq, size in zip(waiting.seqs, waiting.sizes, strict=True):
                    mailbox.quota.holds(seq, size)
            dead = []
            for seq, priority in zip(waiting.seqs, waiting.priorities, strict=True):
                number = recovered.counted.get((mailbox.number, seq))
                tries = Tries.of(number) if number else PERHAPS_SEEN if perhaps else NEW
                place = BacklogPosition(seq, priority)
                if mailbox.offer_stored(place, tries):
                    dead.append(place)
            self.dead_letters.bury(mailbox, dead, TOO_OFTEN)
            self.limits.recovered(mailbox)
            if mailbox.resting:
                self.touch(mailbox)  # their delays begin
        self._found_seq = recovered.last_seq
        self._next_seq = recovered.last_seq + 1

    @property
    def last_seq(self) -> int:
        """Of all messages so far."""
        return self._next_seq - 1

    def doubt(self) -> None:
        """The store is older than what was given out of it: messages that an earlier run stored may have been seen."""
        for mailbox in self.mailboxes.sinks:
            if mailbox.durable:
                mailbox.doubt(self._found_seq)

    # --- consumers ------------------------------------------------------------------------------------------------

    def attach(self, mailbox: Mailbox, consumer: Consumer) -> None:
        """A consumer of a durable mailbox gets nothing until the store has recorded that messages may have been seen
        (already so if there is another consumer). If the broker crashed with the first message before, one more attempt
        is recorded with that, so that it can crash the broker at most `deliveries_max` times."""
        if mailbox.durable and not any(one.active for one in mailbox.consumers):
            consumer.active = False
            self._journal.change(Attached(mailbox.number))
            if consumer.accepts is None:
                for seq, tries in mailbox.mark_first():
                    self._journal.change(Counted(mailbox.number, seq, tries.number))
        mailbox.attach(consumer)
        self.attended[mailbox] = None
        self.touch(mailbox)

    def activate(self, mailbox: Mailbox, consumer: Consumer) -> None:
        consumer.active = True
        self.touch(mailbox)

    def detach(self, mailbox: Mailbox, consumer: Consumer) -> None:
        if consumer not in mailbox.consumers:
            return
        self.returned(mailbox, mailbox.detach(consumer))
        if mailbox.consumers:
            return
        self.attended.pop(mailbox, None)
        if mailbox.kind is MailboxKind.ATTACHED:
            return
        if not mailbox.durable:
            if mailbox.kind is not MailboxKind.TEMPORARY:
                self.remove(mailbox)
        elif not mailbox.unsure:  # otherwise the store had better go on taking all that waits for seen
            self._journal.change(Detached(mailbox.number))

    def remove(self, mailbox: Mailbox) -> None:
        """The mailbox and what waits in it are gone."""
        mailbox.purge()
        for consumer in list(mailbox.consumers):
            mailbox.consumers.remove(consumer)
            for place in mailbox.reject(consumer, list(consumer.unacknowledged)):
                mailbox.finish(place.seq)
            if consumer.output is not None:
                consumer.output.removed("E_QUEUE_DELETED", f"{mailbox.name} was deleted")
        self._touched.pop(mailbox, None)
        self.attended.pop(mailbox, None)
        self.expiry.forget(mailbox)
        self.redelivery.note(mailbox, None)
        self.mailboxes.close(mailbox)

    def returned(self, mailbox: Mailbox, dead: list[BacklogPosition]) -> None:
        """Messages came back to the mailbox: note how often they were tried, and bury those that were too often."""
        tried = mailbox.take_tried()
        for seq, _ in tried:
            held = self.message_cache.get(seq)
            if held is None or held.expires_ms:  # the store may know more
                self.expiry.offered(mailbox, 0 if held is None else held.expires_ms)
        if mailbox.durable:
            for seq, tries in tried:
                self._journal.change(Counted(mailbox.number, seq, tries.number))
        self.dead_letters.bury(mailbox, dead, TOO_OFTEN)
        if self.mailboxes.is_open(mailbox):
            self.touch(mailbox)

    def retry(self, mailbox: Mailbox, places: list[BacklogPosition]) -> None:
        """Undo the acknowledgements of a transaction that did not commit."""
        if self.mailboxes.is_open(mailbox):
            self.returned(mailbox, mailbox.retry(places))
        else:
            for place in places:
                mailbox.finish(place.seq)

    def touch(self, mailbox: Mailbox) -> None:
        """Something may be given out: look at it at the end of this turn."""
        self._touched[mailbox] = None

    def touch_all(self) -> None:
        self._touched.update(self.attended)

    def wake(self, now_ms: int) -> None:
        """At the end of each step: touch the mailboxes in which something has rested long enough."""
        if self.redelivery.earliest_ms <= now_ms:
            for mailbox in self.redelivery.due(now_ms):
                self.touch(mailbox)

    def take_touched(self) -> list[Mailbox]:
        touched, self._touched = list(self._touched), {}
        return touched

    # --- messages -------------------------------------------------------------------------------------------------

    def take_seq(self) -> int:
        """The number of the next message to be stored."""
        self._next_seq += 1
        return self._next_seq - 1

    def accept(
        self,
        message: bytes,
        mailboxes: list[Mailbox],
        *,
        expires_ms: int = 0,
        publisher: int | None = None,
        perhaps_sent: bool = False,
        marked: bool = False,
        outcome: Outcome | None = None,
    ) -> bool:
        """A message for these mailboxes. Its outcome follows when it is safe, or could not be made so; True: it shares
        the fate of the same message, which was sent before and is on its way to disk. `marked`: somebody may have seen
        it in one of them."""
        message_id, dedup = message[ID], self.publish_dedup
        perhaps_sent = dedup.perhaps(message_id, perhaps_sent)
        if perhaps_sent:
            if dedup.is_safe(message_id):
                self._settle(outcome, None)
                return False
            if message_id in dedup.under_way:
                self._journal.then(ConfirmRepeat(message_id, outcome))
                return True
        tries = PERHAPS_SEEN if perhaps_sent or marked else NEW
        offer = self.prepare(message, mailboxes, expires_ms, publisher, tries)
        self._follow(offer, outcome)
        return False

    def relocate(self, message: bytes, mailbox: Mailbox, expires_ms: int, outcome: Outcome) -> None:
        """A message that leaves another mailbox for this one: its id is known, and it is no repetition all the same."""
        self._follow(self.prepare(message, [mailbox], expires_ms), outcome)

    def _follow(self, offer: Offer, outcome: Outcome | None) -> None:
        """Offer it once it is on disk, if it must be there."""
        if offer.stored or (offer.more and any(part.stored for part in offer.more)):
            self.publish_dedup.under_way.add(offer.message[ID])
            self._journal.then(OfferMessage(offer, outcome))
        else:
            self.offer(*offer)
            self._settle(outcome, None)

    def prepare(
        self,
        message: bytes,
        mailboxes: list[Mailbox],
        expires_ms: int = 0,
        publisher: int | None = None,
        tries: Tries = NEW,
    ) -> Offer:
        """Put the message into the journal if it must be there; returns what is to be offered then."""
        if len(mailboxes) > TARGETS_MAX:  # more than one record can name: to each part of them a message of its own
            parts = [mailboxes[at : at + TARGETS_MAX] for at in range(0, len(mailboxes), TARGETS_MAX)]
            first, *more = [self.prepare(message, part, expires_ms, publisher, tries) for part in parts]
            return first._replace(more=tuple(more))
        seq = self.take_seq()
        durable = tuple([mailbox.number for mailbox in mailboxes if mailbox.durable])
        crowded = self.message_cache.pinned_bytes + len(message) > self._settings.pinned_bytes_max
        retained = self.mailboxes.retained
        kept = [mailbox for mailbox in mailboxes if mailbox.number in retained] if retained else []
        stored = bool(durable) and bool(message[1] & PERSISTENT or crowded or kept)
        if stored:
            self._journal.message(Stored(seq, message, durable), len(message))
            if tries.given:
                for number in durable:
                    self._journal.message(Counted(number, seq, tries.number), 0)
            for mailbox in mailboxes:
                if mailbox.quota is not None:
                    mailbox.quota.coming(seq, len(message))
        return Offer(seq, message, mailboxes, stored, expires_ms, publisher, tries)

    def written(self, completion: OfferMessage, error: TidingsError | None) -> None:
        offer, outcome = completion
        self.publish_dedup.under_way.discard(offer.message[ID])
        if error is None:
            self.offer(*offer)
        else:
            self.abandon(offer)
        self._settle(outcome, error)

    def abandon(self, offer: Offer) -> None:
        """It could not be written, and comes no more."""
        for mailbox in offer.mailboxes:
            if mailbox.quota is not None:
                mailbox.quota.arrived(offer.seq)
        for part in offer.more:
            self.abandon(part)

    def decide_repeat(self, completion: ConfirmRepeat) -> None:
        """The fate of the copy before it is known."""
        message_id, outcome = completion
        self._settle(outcome, None if self.publish_dedup.is_safe(message_id) else copy_refused())

    def _settle(self, outcome: Outcome | None, error: TidingsError | None) -> None:
        """A message is safe, or (`error`) was refused."""
        match outcome:
            case ConfirmPublication():  # the most frequent one
                connection, receipt = outcome
                if error is None:
                    self._outbox.accepted(connection, receipt)
                else:
                    self._outbox.refused(connection, receipt, error)
            case FinishMove():
                self.dead_letters.finish_move(outcome, error)
            case None:
                pass
            case _:
                assert_never(outcome)

    def offer(
        self,
        seq: int,
        message: bytes,
        mailboxes: list[Mailbox],
        stored: bool,
        expires_ms: int = 0,
        publisher: int | None = None,
        tries: Tries = NEW,
        more: Iterable[Offer] = (),
    ) -> None:
        """A message, perhaps written before, is there for those of the mailboxes that were not removed meanwhile."""
        open, retained = self.mailboxes.sinks, self.mailboxes.retained
        there = [mailbox for mailbox in mailboxes if mailbox in open]
        if there:
            # The store forgets a message when the durable mailboxes are done with it; the others need it longer.
            can_leave = stored and False not in [mailbox.durable for mailbox in there]
            holders = len(there)
            if stored and retained:  # readers get it from the store
                holders -= sum(mailbox.number in retained for mailbox in there)
            if holders:
                self.message_cache.add(seq, message, holders=holders, stored=can_leave, expires_ms=expires_ms)
        place = BacklogPosition(seq, message[PRIORITY])
        for mailbox in there:
            if mailbox.durable or self.overflow.admits(mailbox, len(message), publisher):
                mailbox.offer(place, size=len(message), tries=tries)
                if expires_ms:
                    self.expiry.offered(mailbox, expires_ms)
                self._touched[mailbox] = None
                if retained and isinstance(mailbox, LastValues):
                    self.learn(mailbox, seq, message)
                if mailbox.quota is not None:
                    mailbox.quota.arrived(seq)
                    self.limits.offered(mailbox, place, len(message))
            else:
                self.lose(mailbox, seq, LossCause.DROPPED)
                self.message_cache.release(seq)
        if stored:
            self.publish_dedup.recent.add(message[ID])
        for part in more:
            self.offer(*part)

    def learn(self, mailbox: LastValues, seq: int, message: bytes) -> None:
        """The topic of a message among last values; what it replaces ends."""
        decoded = decode_message(message)
        self.finished(mailbox, mailbox.learn(seq, decoded.destination.name, empty=not decoded.body))

    def finished(self, mailbox: Mailbox, seqs: list[int]) -> None:
        """These are done in this mailbox: see to it that they do not come back after a restart."""
        if mailbox.durable and seqs:
            self._journal.later(Acked(mailbox.number, tuple(seqs)))

    def finished_if_written(self, mailbox: Mailbox, seqs: list[int]) -> None:
        """The same as part of a batch that is refused as a whole if it cannot be written."""
        if mailbox.durable and seqs:
            self._journal.message(Acked(mailbox.number, tuple(seqs)), 0)

    def late(self, mailbox: Mailbox, places: list[BacklogPosition]) -> None:
        """These have waited past their time and left the backlog."""
        self.expired += len(places)
        if self._settings.bury_expired and mailbox.durable:
            self.dead_letters.bury(mailbox, places, EXPIRED)
            return
        for place in places:
            self.lose(mailbox, place.seq, LossCause.EXPIRED)
            mailbox.finish(place.seq)
        self.finished(mailbox, [place.seq for place in places])

    def lose(self, mailbox: Mailbox, seq: int, cause: LossCause) -> None:
        """Nobody will get this from the mailbox; before it is finished there."""
        if self.records_losses and (held := self.message_cache.get(seq)) is not None:
            self.losses.append((mailbox, cause, held.message[ID]))

    def tick(self, now_ms: int) -> None:
        """About once a second: take out what is late, and look at all mailboxes that have consumers."""
        for mailbox, places in self.expiry.tick(now_ms):
            self.late(mailbox, places)
        self.overflow.tick()
        self.limits.tick(now_ms)
        self.mailboxes.forget_old_sinks()
        for mailbox in self.attended:
            if mailbox.durable:
                for seq, tries in mailbox.mark_oldest():
                    self._journal.later(Counted(mailbox.number, seq, tries.number))
        self.touch_all()

    @property
    def at_rest(self) -> bool:
        waits = self._touched or self.dead_letters.unread or self.expiry.passes
        return not (waits or self.mailboxes.changes or self.overflow.slow)

    def unread(self) -> list[int]:
        """Messages to be loaded from the store for other reasons than delivery."""
        dying = self.dead_letters.unread
        return [*dying, *self.expiry.wanted()] if dying or self.expiry.passes else []

    def loaded(self, now_ms: int, messages: dict[int, bytes]) -> None:
        """The store has brought the bytes of these messages."""
        self.dead_letters.loaded(messages)
        swept = {seq: expires_ms_of(messages[seq]) for seq in self.expiry.wanted() if seq in messages}
        for mailbox, places in self.expiry.loaded(now_ms, swept):
            self.late(mailbox, places)
        for seq, message in messages.items():
            if seq not in swept and self.message_cache.get(seq) is None:  # who also waits for it will ask again
                self.message_cache.add(seq, message, holders=1, stored=True, expires_ms=expires_ms_of(message))
        self._touched.update((mailbox, None) for mailbox in self.attended if mailbox.wanted)

    def lost(self, seqs: Iterable[int]) -> None:
        """The store cannot bring these back, now or later: what is behind them must not wait for them."""
        lost = set(seqs)
        self.expiry.lost(lost)
        for mailbox in list(self.attended):
            for place in [one for one in mailbox.backlog.scan() if one.seq in lost]:
                mailbox.backlog.remove(place)
                mailbox.finish(place.seq)
                self.finished(mailbox, [place.seq])
            self.touch(mailbox)
        self.dead_letters.lost(lost)
