"""All mailboxes of a node: finding, making and removing them, and what happens to the messages in them.

The node tells it what came in and what consumers said; it keeps memory, mailboxes and journal in step:

- a persistent message for a durable mailbox is offered only once it is on disk, and its receipt follows then;
- anything else is offered at once, and kept in memory alone, unless memory already holds much of that kind: then
  what durable mailboxes want goes to disk too, so that a subscriber that is away for long cannot exhaust memory;
- an acknowledgement is effective at once and made durable with the next batch: lost with a crash, it only makes the
  message come again, marked as redelivered.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import assert_never

from tidings.delivery.backlog import Place
from tidings.delivery.depot import Depot
from tidings.delivery.mailbox import NEW, PERHAPS_SEEN, Consumer, Mailbox, MailboxKind, SlowPolicy, Tries
from tidings.delivery.retained import Retained, Retention
from tidings.delivery.store import (
    TARGETS_MAX,
    Acked,
    Attached,
    Counted,
    Detached,
    MailboxAdded,
    MailboxRemoved,
    Recovered,
    Stored,
    check_record,
)
from tidings.errors import LimitError, TidingsError, UsageError
from tidings.model.destination import Destination
from tidings.node.brakes import Brakes
from tidings.node.dead_letters import EXPIRED, TOO_OFTEN, DeadLetters
from tidings.node.encoded import ID, PERSISTENT, PRIORITY, QUEUE, destination_of, expires_ms_of
from tidings.node.journal import Journal
from tidings.node.outbox import Outbox
from tidings.node.plane import Plane
from tidings.node.repeats import Repeats
from tidings.node.settings import Settings
from tidings.node.subscribing import is_temporary, queue_predicate
from tidings.node.sweep import Sweep

DROPS = ("oldest", "newest", "stalled")


class PostOffice:
    def __init__(self, plane: Plane, journal: Journal, brakes: Brakes, settings: Settings, outbox: Outbox) -> None:
        self.depot = Depot(settings.messages_bytes_max)
        self.sweep = Sweep(self.depot)
        self.by_sink: dict[int, Mailbox] = {}
        self.by_name: dict[str, Mailbox] = {}
        self.retained: dict[int, Retained] = {}  # by number
        self.expired = 0
        self.dropped = dict.fromkeys(DROPS, 0)  # of all mailboxes, those that are gone too
        self.dead_letters = DeadLetters(self, settings.dead_letters, outbox)
        self.changes: list[tuple[bool, Mailbox]] = []  # (opened?, which), since they were last taken
        self.slow: set[int] = set()  # connections to be closed because they did not keep up
        self.repeats = Repeats(journal)
        self._plane = plane
        self._journal = journal
        self._brakes = brakes
        self._settings = settings
        self._next_seq = 1
        self._next_mailbox = 1
        self._open_sinks: dict[Mailbox, tuple[int, bytes]] = {}
        self._old_sinks: list[tuple[int, Mailbox]] = []  # of mailboxes that have another; events may still name them
        self._touched: dict[Mailbox, None] = {}
        self._attended: dict[Mailbox, None] = {}  # those with consumers
        self._full_since_ms: dict[Mailbox, int] = {}  # those that publishers wait for

    # --- mailboxes ------------------------------------------------------------------------------------------------

    def recover(self, recovered: Recovered) -> None:
        """Stand where the store says we stood."""
        kinds = {kind.value for kind in MailboxKind}
        for box in [box for box in recovered.mailboxes if box.kind in kinds]:  # others are not the post office's
            mailbox = self._recovered(box)
            waiting = recovered.waiting[box.mailbox]
            perhaps = box.mailbox in recovered.attached  # it had a consumer, who may have seen them
            mailbox.unsure_seq = recovered.last_seq if perhaps else 0
            if len(waiting):
                self.sweep.unknown(mailbox)
            for seq, priority in zip(waiting.seqs, waiting.priorities, strict=True):
                number = recovered.counted.get((box.mailbox, seq))
                tries = Tries.of(number) if number else PERHAPS_SEEN if perhaps else NEW
                mailbox.offer(Place(seq, priority), tries=tries)
        self._next_seq = recovered.last_seq + 1
        self._next_mailbox = recovered.last_mailbox + 1

    def queue(self, destination: Destination) -> Mailbox:
        """The queue of this name, made at first use."""
        name = str(destination)
        if (mailbox := self.by_name.get(name)) is not None:
            return mailbox
        if is_temporary(destination):
            raise UsageError("E_QUEUE_GONE", f"there is no temporary queue {destination.name!r}, or no longer")
        return self.make(name, MailboxKind.QUEUE, queue_predicate(destination))

    def make(self, name: str, kind: MailboxKind, predicate: bytes, asked: bytes = b"") -> Mailbox:
        if name != str(self._settings.dead_letters):  # dead letters are never too many
            self._check_room()
        number = self.take_mailbox()
        record = MailboxAdded(number, name, kind.value, predicate, asked)
        check_record(record)
        mailbox = self._open(number, name, kind, predicate)
        mailbox.asked = asked
        if mailbox.durable:
            self._journal.change(record)
        return mailbox

    def refit(self, mailbox: Mailbox, predicate: bytes, asked: bytes) -> None:
        """Fill it by another predicate from now on; what waits in it stays."""
        sink, before = self._open_sinks[mailbox]
        if (before, mailbox.asked) == (predicate, asked):
            return
        if predicate != before:
            new = self._plane.mailbox(predicate)
            self.by_sink[new] = mailbox
            self._open_sinks[mailbox] = (new, predicate)
            self._plane.unsubscribe(sink)
            self._old_sinks.append((sink, mailbox))
        mailbox.asked = asked
        self._journal.change(MailboxAdded(mailbox.number, mailbox.name, mailbox.kind.value, predicate, asked))

    def make_retained(self, name: str, predicate: bytes, retention: Retention) -> Retained:
        self._check_room()
        number = self.take_mailbox()
        mailbox = Retained(number, name, self.depot, retention)
        self._opened(mailbox, predicate)
        self.retained[number] = mailbox
        self._journal.change(MailboxAdded(number, name, mailbox.kind.value, predicate, retention.to_bytes()))
        return mailbox

    def take_mailbox(self) -> int:
        """A number under which the store can keep something."""
        self._next_mailbox += 1
        return self._next_mailbox - 1

    def take_seq(self) -> int:
        """The number of the next message to be stored."""
        self._next_seq += 1
        return self._next_seq - 1

    def remove(self, mailbox: Mailbox) -> None:
        """The mailbox and what waits in it are gone."""
        mailbox.purge()
        for consumer in list(mailbox.consumers):
            mailbox.consumers.remove(consumer)
            for place in mailbox.reject(consumer, list(consumer.unacknowledged)):
                mailbox.finish(place.seq)
        sink, _ = self._open_sinks.pop(mailbox)
        self._plane.unsubscribe(sink)
        del self.by_sink[sink]
        del self.by_name[mailbox.name]
        self.changes.append((False, mailbox))
        self._touched.pop(mailbox, None)
        self._attended.pop(mailbox, None)
        self.retained.pop(mailbox.number, None)
        self.sweep.forget(mailbox)
        if mailbox.durable:
            self._journal.change(MailboxRemoved(mailbox.number))

    @property
    def pushed_back(self) -> int:
        """How often a publisher had to wait for a mailbox."""
        return self._brakes.pushed_back

    def is_open(self, mailbox: Mailbox) -> bool:
        return mailbox in self._open_sinks

    def _has(self, mailbox: Mailbox, sink: int) -> bool:
        return self._open_sinks.get(mailbox, (None,))[0] == sink

    def predicate(self, mailbox: Mailbox) -> bytes:
        return self._open_sinks[mailbox][1]

    def attach(self, mailbox: Mailbox, consumer: Consumer) -> None:
        """Of a durable mailbox the consumer gets nothing before it is on disk that somebody may have seen it, as it is
        when there is another one."""
        if mailbox.durable and not any(one.active for one in mailbox.consumers):
            consumer.active = False
            self._journal.change(Attached(mailbox.number))
        mailbox.attach(consumer)
        self._attended[mailbox] = None
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
        self._attended.pop(mailbox, None)
        if not mailbox.durable:
            if mailbox.kind is not MailboxKind.TEMPORARY:
                self.remove(mailbox)
        elif not mailbox.unsure:  # otherwise the store had better go on taking all that waits for seen
            self._journal.change(Detached(mailbox.number))

    def returned(self, mailbox: Mailbox, dead: list[Place]) -> None:
        """Messages came back to the mailbox: note how often they were tried, and bury those that were too often."""
        tried = mailbox.take_tried()
        for seq, _ in tried:
            held = self.depot.get(seq)
            if held is None or held.expires_ms:  # the store may know more
                self.sweep.offered(mailbox, 0 if held is None else held.expires_ms)
        if mailbox.durable:
            for seq, tries in tried:
                self._journal.change(Counted(mailbox.number, seq, tries.number))
        self.dead_letters.bury(mailbox, dead, TOO_OFTEN)
        if self.is_open(mailbox):
            self.touch(mailbox)

    def retry(self, mailbox: Mailbox, places: list[Place]) -> None:
        """What a transaction had acknowledged is not done after all."""
        if self.is_open(mailbox):
            self.returned(mailbox, mailbox.retry(places))
        else:
            for place in places:
                mailbox.finish(place.seq)

    def touch(self, mailbox: Mailbox) -> None:
        """Something may be given out: look at it at the end of this turn."""
        self._touched[mailbox] = None

    def take_changes(self) -> list[tuple[bool, Mailbox]]:
        changes, self.changes = self.changes, []
        return changes

    def take_touched(self) -> list[Mailbox]:
        touched, self._touched = list(self._touched), {}
        return touched

    # --- messages -------------------------------------------------------------------------------------------------

    def accept(
        self,
        message: bytes,
        mailboxes: list[Mailbox],
        *,
        expires_ms: int = 0,
        publisher: int | None = None,
        perhaps_sent: bool = False,
        done: Callable[[], None] | None = None,
        failed: Callable[[TidingsError], None] | None = None,
    ) -> None:
        """A message for these mailboxes; `done` when it is safe, `failed` when it could not be made so."""
        message_id = message[ID]
        perhaps_sent = self.repeats.perhaps(message_id, perhaps_sent)
        if perhaps_sent and self.repeats.repeated(message_id, done, failed):
            return
        stored, offer = self.prepare(message, mailboxes, expires_ms, publisher, PERHAPS_SEEN if perhaps_sent else NEW)

        def finish() -> None:
            self.repeats.under_way.discard(message_id)
            offer()
            if done is not None:
                done()

        def fail(error: TidingsError) -> None:
            self.repeats.under_way.discard(message_id)
            if failed is not None:
                failed(error)

        if stored:
            self.repeats.under_way.add(message_id)
            self._journal.then(finish, fail)
        else:
            finish()

    def prepare(
        self,
        message: bytes,
        mailboxes: list[Mailbox],
        expires_ms: int = 0,
        publisher: int | None = None,
        tries: Tries = NEW,
    ) -> tuple[bool, Callable[[], None]]:
        """Put the message into the journal if it must be there; returns whether, and what then offers it."""
        if len(mailboxes) > TARGETS_MAX:  # more than one record can name: to each part of them a message of its own
            parts = [mailboxes[at : at + TARGETS_MAX] for at in range(0, len(mailboxes), TARGETS_MAX)]
            prepared = [self.prepare(message, part, expires_ms, publisher, tries) for part in parts]
            return any(stored for stored, _ in prepared), partial(_each, [offer for _, offer in prepared])
        seq = self.take_seq()
        durable = tuple([mailbox.number for mailbox in mailboxes if mailbox.durable])
        crowded = self.depot.pinned_bytes > self._settings.pinned_bytes_max
        kept = [mailbox for mailbox in mailboxes if mailbox.number in self.retained] if self.retained else []
        stored = bool(durable) and bool(message[1] & PERSISTENT or crowded or kept)
        if stored:
            self._journal.message(Stored(seq, message, durable), len(message))
            if tries.given:
                for number in durable:
                    self._journal.message(Counted(number, seq, tries.number), 0)

        offer = partial(self.offer, seq, message, mailboxes, stored=stored, expires_ms=expires_ms)
        return stored, partial(offer, publisher=publisher, tries=tries)

    def offer(
        self,
        seq: int,
        message: bytes,
        mailboxes: list[Mailbox],
        *,
        stored: bool,
        expires_ms: int = 0,
        publisher: int | None = None,
        tries: Tries = NEW,
    ) -> None:
        """A message, perhaps written before, is there for those of the mailboxes that were not removed meanwhile."""
        there = [mailbox for mailbox in mailboxes if mailbox in self._open_sinks]
        if there:
            # The store forgets a message when the durable mailboxes are done with it; the others need it longer.
            can_leave = stored and False not in [mailbox.durable for mailbox in there]
            holders = len(there)
            if stored and self.retained:  # readers get it from the store
                holders -= sum(mailbox.number in self.retained for mailbox in there)
            if holders:
                self.depot.add(seq, message, holders=holders, stored=can_leave, expires_ms=expires_ms)
        place = Place(seq, message[PRIORITY])
        for mailbox in there:
            if mailbox.durable or self._has_room(mailbox, len(message), publisher):
                mailbox.offer(place, size=len(message), tries=tries)
                if expires_ms:
                    self.sweep.offered(mailbox, expires_ms)
                self._touched[mailbox] = None
            else:
                mailbox.dropped += 1
                self.dropped["stalled" if mailbox.policy is SlowPolicy.PUSH_BACK else "newest"] += 1
                self.depot.release(seq)
        if stored:
            self.repeats.recent.add(message[ID])

    def _has_room(self, mailbox: Mailbox, size: int, publisher: int | None) -> bool:
        """Whether a mailbox without a disk takes one more; if it is full, its policy acts."""
        if mailbox.bytes + size <= self._settings.sink_bytes_max:
            if mailbox.bytes <= self._settings.sink_bytes_max // 2:
                mailbox.stalled = False
            return True
        match mailbox.policy:
            case SlowPolicy.PUSH_BACK:
                if mailbox.stalled or publisher is None:
                    return False
                self._brakes.hold(publisher, mailbox)
                return True
            case SlowPolicy.DROP_OLDEST:
                while mailbox.bytes + size > self._settings.sink_bytes_max:
                    if not mailbox.drop_oldest():
                        return False
                    self.dropped["oldest"] += 1
                return True
            case SlowPolicy.DISCONNECT:
                self.slow.update(consumer.connection for consumer in mailbox.consumers)
                return False
            case SlowPolicy.DROP_NEWEST:
                return False
            case _:
                assert_never(mailbox.policy)

    def relieve(self, now_ms: int) -> None:
        """Let publishers go whose mailbox has room again, or whose consumers take nothing at all."""
        for mailbox in self._brakes.mailboxes():
            since_ms = max(mailbox.taken_ms, self._full_since_ms.setdefault(mailbox, now_ms))
            roomy = mailbox.bytes <= self._settings.sink_bytes_max // 2
            if roomy or now_ms - since_ms >= self._settings.stall_ms or mailbox not in self._open_sinks:
                mailbox.stalled = not roomy
                del self._full_since_ms[mailbox]
                self._brakes.release(mailbox)

    def clear_stalled(self, now_ms: int, excess_bytes: int) -> None:
        """Memory is short, and those hold much of it who take nothing: their connections end, the greatest first."""
        idle = [m for m in self._attended if not m.durable and now_ms - m.taken_ms >= self._settings.stall_ms]
        for mailbox in sorted(idle, key=lambda one: one.bytes, reverse=True):
            if excess_bytes <= 0 or not mailbox.bytes:
                break
            excess_bytes -= mailbox.bytes
            self.slow.update(consumer.connection for consumer in mailbox.consumers)

    def known(self, message_id: bytes) -> bool:
        """Whether it was stored here lately."""
        return message_id in self.repeats.recent

    def mailboxes_for(self, message: bytes, sinks: Iterable[int], *, drops_late: bool = False) -> list[Mailbox]:
        """Where the message goes: the mailboxes it matched, or the queue it is the first to name; nowhere, if that is
        a temporary one that is gone, and `drops_late`."""
        mailboxes = [self.by_sink[sink] for sink in sinks if sink in self.by_sink]
        if not mailboxes and message[1] & QUEUE:
            queue = destination_of(message)
            if drops_late and is_temporary(queue) and str(queue) not in self.by_name:
                return []
            mailboxes = [self.queue(queue)]
        return mailboxes

    def finished(self, mailbox: Mailbox, seqs: list[int]) -> None:
        """These are done in this mailbox: see to it that they do not come back after a restart."""
        if mailbox.durable and seqs:
            self._journal.later(Acked(mailbox.number, tuple(seqs)))

    def finished_if_written(self, mailbox: Mailbox, seqs: list[int]) -> None:
        """The same as part of a batch that is refused as a whole if it cannot be written."""
        if mailbox.durable and seqs:
            self._journal.message(Acked(mailbox.number, tuple(seqs)), 0)

    def late(self, mailbox: Mailbox, places: list[Place]) -> None:
        """These have waited past their time and left the backlog."""
        self.expired += len(places)
        if self._settings.bury_expired and mailbox.durable:
            self.dead_letters.bury(mailbox, places, EXPIRED)
            return
        for place in places:
            mailbox.finish(place.seq)
        self.finished(mailbox, [place.seq for place in places])

    def tick(self, now_ms: int) -> None:
        """About once a second: take out what is late, and look at all mailboxes that have consumers."""
        for mailbox, places in self.sweep.tick(now_ms):
            self.late(mailbox, places)
        old, self._old_sinks = self._old_sinks, []
        for sink in [
            sink for sink, mailbox in old if self.by_sink.get(sink) is mailbox and not self._has(mailbox, sink)
        ]:
            del self.by_sink[sink]
        self._touched.update(self._attended)

    @property
    def at_rest(self) -> bool:
        return not (self._touched or self.dead_letters.unread or self.changes or self.slow or self.sweep.passes)

    def unread(self) -> list[int]:
        """What the store must bring for other reasons than to be given out."""
        dying = self.dead_letters.unread
        return [*dying, *self.sweep.wanted()] if dying or self.sweep.passes else []

    def loaded(self, now_ms: int, messages: dict[int, bytes]) -> None:
        """The store has brought the bytes of these messages."""
        self.dead_letters.loaded(messages)
        swept = {seq: expires_ms_of(messages[seq]) for seq in self.sweep.wanted() if seq in messages}
        for mailbox, places in self.sweep.loaded(now_ms, swept):
            self.late(mailbox, places)
        for seq, message in messages.items():
            if seq not in swept and self.depot.get(seq) is None:  # who also waits for it will ask again
                self.depot.add(seq, message, holders=1, stored=True, expires_ms=expires_ms_of(message))
        self._touched.update((mailbox, None) for mailbox in self._attended if mailbox.wanted)

    def lost(self, seqs: Iterable[int]) -> None:
        """The store cannot bring these back, now or later: what is behind them must not wait for them."""
        lost = set(seqs)
        self.sweep.lost(lost)
        for mailbox in list(self._attended):
            for place in [one for one in mailbox.backlog.scan() if one.seq in lost]:
                mailbox.backlog.remove(place)
                mailbox.finish(place.seq)
                self.finished(mailbox, [place.seq])
            self.touch(mailbox)
        self.dead_letters.lost(lost)

    def _open(self, number: int, name: str, kind: MailboxKind, predicate: bytes) -> Mailbox:
        mailbox = Mailbox(number, name, kind, self.depot, deliveries_max=self._settings.deliveries_max)
        self._opened(mailbox, predicate)
        return mailbox

    def _check_room(self) -> None:
        if len(self.by_name) >= self._settings.mailboxes_max:
            raise LimitError("E_MAILBOXES", f"at most {self._settings.mailboxes_max} queues and kept subscriptions")

    def _recovered(self, box: MailboxAdded) -> Mailbox:
        if box.kind != MailboxKind.RETAINED.value:
            opened = self._open(box.mailbox, box.name, MailboxKind(box.kind), box.predicate)
            opened.asked = box.options
            return opened
        mailbox = Retained(box.mailbox, box.name, self.depot, Retention.from_bytes(box.options))
        self._opened(mailbox, box.predicate)
        self.retained[box.mailbox] = mailbox
        return mailbox

    def _opened(self, mailbox: Mailbox, predicate: bytes) -> None:
        sink = self._plane.mailbox(predicate)
        self.by_sink[sink] = self.by_name[mailbox.name] = mailbox
        self._open_sinks[mailbox] = (sink, predicate)
        self.changes.append((True, mailbox))


def _each(actions: Iterable[Callable[[], None]]) -> None:
    for action in actions:
        action()
