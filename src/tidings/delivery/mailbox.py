"""A mailbox: messages that wait for a consumer to take and acknowledge them.

Queues, durable subscriptions, shared subscriptions and subscriptions with client acknowledgement are all mailboxes;
they differ in what fills them (a predicate in the forwarding plane) and in how long they live. A message in a
mailbox is in exactly one of two places, in the backlog or with one consumer, until it is acknowledged, expires or
goes to the dead letters.

    offer ──► backlog ──dispatch──► consumer.unacknowledged ──acknowledge──► gone
                 ▲                        │
                 └───────return───────────┘  (refused, consumer lost; tries counted, at the limit: dead letter)

Consumers are served in turn, each up to its credit. With selectors (queues only) a message goes to the next
consumer in turn that accepts it, and each consumer remembers how far it has looked, so that nothing is tested twice.

All that a lost consumer had comes again marked, but only the first of it counts as tried: that is what it was at work
on, the rest most likely waited in its buffer. So a message that kills its consumers becomes a dead letter, and a
connection that breaks again and again takes nobody's messages to the dead letters.

With a `backoff` what is tried again rests for a while first (`redelivery`). A mailbox that is `single_active`, or has
a consumer that asked to be the only one, serves one consumer; the next one takes over when it leaves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import NamedTuple

from tidings.delivery.backlog import PRIORITIES, Backlog, BacklogPosition, behind
from tidings.delivery.consumer_output import ConsumerOutput
from tidings.delivery.groups import MessageGroups, group_of
from tidings.delivery.message_cache import CachedMessage, MessageCache
from tidings.delivery.policy import Quota
from tidings.delivery.redelivery_delay import Backoff, RestingMessages

PAGE_MESSAGES = 256  # how many to fetch from the store at a time, unless told otherwise


class MailboxKind(Enum):
    QUEUE = "queue"
    DURABLE = "durable"
    SHARED = "shared"
    SHARED_DURABLE = "shared-durable"
    RETAINED = "retained"  # kept to be read again (`retained`)
    PRIVATE = "private"  # client acknowledgement without durability: lives as long as its consumer
    TEMPORARY = "temporary"  # a queue in memory: lives as long as the connection that made it
    ATTACHED = "attached"  # one consumer's part of a queue that another broker keeps (node/network_queues)


QUEUES = {MailboxKind.QUEUE, MailboxKind.TEMPORARY}
DURABLE = {MailboxKind.QUEUE, MailboxKind.DURABLE, MailboxKind.SHARED_DURABLE, MailboxKind.RETAINED}


class SlowPolicy(Enum):
    """The action taken when consumers cannot keep up."""

    PUSH_BACK = "push-back"
    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    DISCONNECT = "disconnect"


@dataclass(slots=True, eq=False)
class Consumer:
    connection: int
    subscription: int
    credit: int
    room_bytes: int = 1 << 20  # what its connection can take now; the node keeps it up to date
    accepts: Callable[[bytes], bool] | None = None  # a selector: its own, on queues, or its rule's
    window: bool = False  # what is acknowledged gives credit back
    settles: bool = False  # what is given to it is done with: it acknowledges nothing
    exclusive: bool = False  # others stand by while it is there
    active: bool = True  # False: it must first be on disk that somebody may see these messages
    unacknowledged: dict[int, BacklogPosition] = field(default_factory=dict)  # by tag, in delivery order
    looked: list[int] = field(default_factory=lambda: [0] * PRIORITIES)  # `accepts` refused all waiting up to here
    avoids: set[int] = field(default_factory=set)  # what it has sent elsewhere
    draining: int = 0  # the receipt of a `Drain` to be answered when nothing more can be delivered; 0: none
    output: ConsumerOutput | None = None  # None: its connection

    @property
    def ready(self) -> bool:
        return self.active and self.credit > 0 and self.room_bytes > 0

    def up_to(self, last: int) -> list[int]:
        """The unacknowledged deliveries of this consumer up to this tag."""
        tags = []
        for tag in self.unacknowledged:  # they rise
            if tag > last:
                break
            tags.append(tag)
        return tags


class Tries(NamedTuple):
    """The number of times a message was delivered before."""

    counted: int = 0  # towards the limit
    spared: int = 0  # it was given to somebody, who most likely never came to it

    @property
    def given(self) -> int:
        return self.counted + self.spared

    @property
    def number(self) -> int:
        """As the store keeps it, in 32 bits; what exceeds them is not worth more."""
        return min(self.counted, _COUNTED_MAX) + (min(self.spared, _SPARED_MAX) << _SPARED_SHIFT)

    @classmethod
    def of(cls, number: int) -> "Tries":
        return cls(number & _COUNTED_MAX, number >> _SPARED_SHIFT)


_SPARED_SHIFT = 20
_COUNTED_MAX, _SPARED_MAX = (1 << _SPARED_SHIFT) - 1, (1 << 32 - _SPARED_SHIFT) - 1
NEW, PERHAPS_SEEN = Tries(), Tries(spared=1)


class MailboxDelivery(NamedTuple):
    consumer: Consumer
    tag: int
    attempt: int  # 1 for the first; above that the message is redelivered
    message: bytes


class Mailbox:
    def __init__(
        self,
        number: int,
        name: str,
        kind: MailboxKind,
        message_cache: MessageCache,
        *,
        deliveries_max: int = 6,
        page_messages: int = PAGE_MESSAGES,
    ) -> None:
        self.number = number
        self.name = name
        self.kind = kind
        self.owner = ""  # of a queue: the user who made it; empty: nobody that is known
        self.durable = kind in DURABLE
        self.asked = b""  # of a durable subscription: the predicate that was asked for, without what a rule adds
        self.deliveries_max = deliveries_max
        self.quota: Quota | None = None  # of a queue with a policy
        self.backoff: Backoff | None = None
        self.single_active = False
        self.resting = RestingMessages()  # they wait in the backlog, and are passed over
        self._page_messages = page_messages
        self.consumers: list[Consumer] = []
        self.backlog = Backlog()
        self.wanted: list[int] = []  # of the last dispatch: bytes to be fetched from the store first
        self.expired: list[
            BacklogPosition
        ] = []  # of the last dispatch: found to be too late, with nobody until finished
        self.messages = 0  # held: waiting, with a consumer, in a transaction or on their way elsewhere
        self.bytes = 0  # of what it holds in memory, if it is not durable
        self.taken_ms = 0  # when a consumer last acknowledged, or something came to an empty mailbox
        self.stalled = False  # nobody takes anything: it loses messages instead of holding up publishers
        self.policy = SlowPolicy.PUSH_BACK
        self.dropped = 0
        self.tried: list[tuple[int, Tries]] = []
        self.unsure_seq = 0  # up to here a crash has left it open whether messages were seen
        self._message_cache = message_cache
        self._marked: set[int] = set()  # the store counts one delivery more: it counts if the broker crashes now
        self._oldest: set[int] = set()  # of what each consumer had when `mark_oldest` was last called
        self._tries: dict[int, Tries] = {}  # only of messages given out at least once before
        self._newest = 0  # of all offered: what had to be written first may come later than its number says
        self._next_tag = 1
        self._turn = 0
        self._groups = MessageGroups[Consumer]() if kind in QUEUES else None

    @property
    def unacknowledged(self) -> int:
        return sum(len(consumer.unacknowledged) for consumer in self.consumers)

    @property
    def given(self) -> int:
        """The number of deliveries, repeated ones of the same message included."""
        return self._next_tag - 1

    def begin_tags(self, after: int) -> None:
        """Deliveries from now on have tags above this one."""
        self._next_tag = max(self._next_tag, after + 1)

    def offer(self, place: BacklogPosition, *, size: int = 0, tries: Tries = NEW) -> None:
        """A message to be given out; after a crash `tries` says how often that may have happened before."""
        self.backlog.add(place)
        self.messages += 1
        if place.seq > self._newest:
            self._newest = place.seq
        else:
            self._look_again(place)
        if not self.durable:
            self.bytes += size
        if tries.given:
            self._tries[place.seq] = tries

    def hand_on(self, place: BacklogPosition, message: bytes) -> MailboxDelivery | None:
        """Give a message that the store has to the only consumer, past the backlog; None: it is to be offered."""
        if len(self.consumers) != 1 or self.backlog:
            return None
        (consumer,) = self.consumers
        picky = consumer.accepts is not None or consumer.avoids
        if picky or consumer.settles or consumer.draining or consumer.output is not None or not consumer.ready:
            return None
        self.messages += 1
        if self._groups is not None and (group := group_of(message)) is not None:
            self._groups.bind(group, consumer)
        return self._give(consumer, place, message)

    def deliveries(self, seq: int) -> int:
        """The number of times this message was delivered before."""
        return self._tries.get(seq, NEW).given

    def served(self) -> Consumer | None:
        """The only consumer that is given messages; None: all are."""
        if (exclusive := next((one for one in self.consumers if one.exclusive), None)) is not None:
            return exclusive
        return self.consumers[0] if self.single_active and self.consumers else None

    def attach(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def detach(self, consumer: Consumer) -> list[BacklogPosition]:
        """The consumer is gone; what it had goes back. Returns what became a dead letter."""
        self.consumers.remove(consumer)
        if self._groups is not None and self._groups.leave(consumer):
            self._look_at_all()
        places = self.reject(consumer, list(consumer.unacknowledged))
        self.spare(places[1:])
        return self.retry(places[:1])

    def spare(self, places: list[BacklogPosition]) -> None:
        """These go back, marked, and do not count as tried."""
        for place in places:
            self._note(place, spared=1)
            self.put_back(place)

    def dispatch(self, now_ms: int) -> list[MailboxDelivery]:
        """Give out what consumers have credit for.

        What turns out to be too late is noted in `expired`; a message whose bytes are only in the store is noted in
        `wanted`, and those behind it wait for it.
        """
        self.wanted, self.expired = [], []
        if not self.backlog:
            return []
        if self.resting:
            for rested in self.resting.pass_time(now_ms):
                self._look_again(rested)
        ready = [consumer for consumer in self.consumers if consumer.ready]
        if not ready:
            return []
        if (served := self.served()) is not None:
            if not served.ready:
                return []
            ready = [served]
        for consumer in ready:
            if consumer.accepts is not None or consumer.avoids or self.resting:
                return self._dispatch_selective(now_ms, ready)
        given: list[MailboxDelivery] = []
        while ready and self.backlog and (place := self.backlog.first()) is not None:
            message = self._load(place, now_ms)
            if message is None:
                if self.wanted:
                    break
                continue
            if self._groups is not None and group_of(message) is not None:
                return given + self._dispatch_selective(now_ms, ready)
            self.backlog.remove(place)
            self._turn = (self._turn + 1) % len(ready)
            given.append(self._give(ready[self._turn], place, message))
            if not ready[self._turn].ready:
                del ready[self._turn]
        return given

    def acknowledge(self, consumer: Consumer, tags: Sequence[int]) -> list[int]:
        """Done with these; unknown tags are ignored (acknowledged twice). Returns the numbers now finished."""
        given = consumer.unacknowledged
        done = [given.pop(tag).seq for tag in tags if tag in given]
        for seq in done:
            self.finish(seq)
        return done

    def refuse(self, consumer: Consumer, tags: list[int]) -> list[BacklogPosition]:
        """Give these back for another try. Returns what became a dead letter instead."""
        return self.retry(self.reject(consumer, tags))

    def retry(self, places: list[BacklogPosition]) -> list[BacklogPosition]:
        """One more try for messages that are with nobody now. Returns what became a dead letter instead."""
        dead = []
        for place in places:
            tries = self._note(place, counted=1)
            if tries.counted >= self.deliveries_max:
                dead.append(place)
            else:
                self._rest(place, tries)
                self.put_back(place)
        return dead

    def put_back_tried(self, place: BacklogPosition) -> None:
        """One more try, even if there were too many: it should be a dead letter and cannot."""
        self._rest(place, self._note(place, counted=1))
        self.put_back(place)

    def _rest(self, place: BacklogPosition, tries: Tries) -> None:
        if self.backoff is not None and tries.counted:
            self.resting.add(place, self.backoff.delay_ms(tries.counted, place.seq))

    def rest_no_more(self) -> None:
        """Let resting messages be given out at once."""
        if self.resting:
            self.resting.release()
            self._look_at_all()

    def _note(self, place: BacklogPosition, *, counted: int = 0, spared: int = 0) -> Tries:
        before = self._tries.get(place.seq, NEW)
        tries = self._tries[place.seq] = Tries(before.counted + counted, before.spared + spared)
        self._marked.discard(place.seq)
        self.tried.append((place.seq, tries))
        return tries

    def mark_oldest(self) -> list[tuple[int, Tries]]:
        """About once a second: the attempts that the store must record so that a crash of the broker counts like the
        loss of every consumer: one for each consumer's oldest message, if it held that a second ago, too."""
        oldest = {next(iter(one.unacknowledged.values())).seq for one in self.consumers if one.unacknowledged}
        still, self._oldest = oldest & self._oldest, oldest
        new, over = sorted(still - self._marked), sorted(self._marked - oldest)
        self._marked = (self._marked & oldest) | still
        return [(seq, self._next_try(seq)) for seq in new] + [(seq, self._tries.get(seq, NEW)) for seq in over]

    def mark_first(self) -> list[tuple[int, Tries]]:
        """The same for the next message to be delivered, if it may have caused a crash: a consumer that attaches gets
        it only after the count is on disk."""
        first = self.backlog.first()
        if first is None or first.seq > self.unsure_seq or first.seq in self._marked or first.seq in self.resting:
            return []
        self._marked.add(first.seq)
        return [(first.seq, self._next_try(first.seq))]

    def _next_try(self, seq: int) -> Tries:
        before = self._tries.get(seq, NEW)
        return Tries(before.counted + 1, before.spared)

    def offer_stored(self, place: BacklogPosition, tries: Tries) -> bool:
        """A message that the store has; True: it was delivered too often, and is with nobody now."""
        self.offer(place, tries=tries)
        if tries.counted < self.deliveries_max:
            self._rest(place, tries)
            return False
        self.backlog.remove(place)
        return True

    def doubt(self, last_seq: int) -> None:
        """Messages that wait, up to this one, may have been given out before."""
        for place in self.backlog.scan():
            if place.seq <= last_seq:
                self._tries.setdefault(place.seq, PERHAPS_SEEN)

    @property
    def unsure(self) -> bool:
        """Some message waits that may have been seen before a crash, which only memory knows of each."""
        oldest = self.backlog.oldest()
        return oldest is not None and oldest <= self.unsure_seq

    def take_tried(self) -> list[tuple[int, Tries]]:
        """Numbers and counts of what came back since the last call: a crash must not make it look new."""
        tried, self.tried = self.tried, []
        return tried

    def reject(self, consumer: Consumer, tags: list[int]) -> list[BacklogPosition]:
        """Take these from the consumer: with nobody now, until they are finished, retried or put back."""
        given = consumer.unacknowledged
        return [given.pop(tag) for tag in tags if tag in given]

    def put_back(self, place: BacklogPosition) -> None:
        self.backlog.put_back(place)
        if self.quota is not None:
            self.quota.stays(place.seq)
        self._look_again(place)

    def _look_again(self, place: BacklogPosition) -> None:
        """It waits behind where consumers have looked already."""
        for consumer in self.consumers:
            consumer.looked[place.priority] = min(consumer.looked[place.priority], place.seq - 1)

    def _look_at_all(self) -> None:
        """Let all consumers look again at what was another one's."""
        for consumer in self.consumers:
            consumer.looked = [0] * PRIORITIES

    def finish(self, seq: int) -> None:
        """This mailbox is done with the message."""
        self.messages -= 1
        if self.quota is not None:
            self.quota.left(seq)
        self._tries.pop(seq, None)
        self.resting.forget(seq)
        self._marked.discard(seq)
        for consumer in self.consumers:
            consumer.avoids.discard(seq)
        if not self.durable and (held := self._message_cache.get(seq)) is not None:
            self.bytes -= len(held.message)
        self._message_cache.release(seq)

    def drop_oldest(self) -> bool:
        """Lose the message that has waited longest; False if none waits."""
        place = self.backlog.take()
        if place is not None:
            self.finish(place.seq)
        return place is not None

    def purge(self) -> list[int]:
        """Take out all that waits."""
        taken = []
        while (place := self.backlog.take()) is not None:
            taken.append(place.seq)
            self.finish(place.seq)
        return taken

    def _dispatch_selective(self, now_ms: int, ready: list[Consumer]) -> list[MailboxDelivery]:
        given = []
        start = [min(looked) for looked in zip(*(consumer.looked for consumer in ready), strict=True)]
        leaving: list[BacklogPosition] = []  # only once the scan is over
        late: list[BacklogPosition] = []
        for place in self.backlog.scan(start):
            if place.seq in self.resting:
                for consumer in ready:
                    consumer.looked[place.priority] = max(consumer.looked[place.priority], place.seq)
                continue
            held = self._held(place)
            if held is None:
                break
            if 0 < held.expires_ms <= now_ms:
                late.append(place)
                continue
            taker = self._taker(place, held.message, ready)
            if taker is not None:
                leaving.append(place)
                given.append(self._give(taker, place, held.message))
                if not taker.ready:
                    ready.remove(taker)
                    if not ready:
                        break
        for place in leaving:
            self.backlog.remove(place)
        for place in late:
            self._expire(place)
        return given

    def _taker(self, place: BacklogPosition, message: bytes, ready: list[Consumer]) -> Consumer | None:
        """The next consumer in turn, or the group's, that accepts the message and has not refused it before."""
        group = None if self._groups is None else group_of(message)
        owner = None if self._groups is None or group is None else self._groups.owner(group)
        if owner is not None and (place.seq in owner.avoids or self.served() not in (None, owner)):
            owner = None
        for step in range(1, len(ready) + 1):
            consumer = ready[(self._turn + step) % len(ready)]
            if place.seq <= consumer.looked[place.priority]:
                continue
            mine = (owner is None or owner is consumer) and place.seq not in consumer.avoids
            if mine and (consumer.accepts is None or consumer.accepts(message)):
                self._turn += step if owner is None else 0
                if self._groups is not None and group is not None and self._groups.bind(group, consumer):
                    self._look_at_all()
                return consumer
            consumer.looked[place.priority] = place.seq
        return None

    def _load(self, place: BacklogPosition, now_ms: int) -> bytes | None:
        held = self._held(place)
        if held is None:
            return None
        if 0 < held.expires_ms <= now_ms:
            self._expire(place)
            return None
        return held.message

    def _held(self, place: BacklogPosition) -> CachedMessage | None:
        """The message, if memory has it; otherwise it and those behind it are wanted."""
        held = self._message_cache.get(place.seq)
        if held is None:
            before = behind(BacklogPosition(place.seq - 1, place.priority))
            waiting = islice(self.backlog.scan(before), self._page_messages)
            absent = [one.seq for one in waiting if self._message_cache.get(one.seq) is None]
            self.wanted = [seq for seq in absent if seq not in self.resting]
        return held

    def _expire(self, place: BacklogPosition) -> None:
        self.backlog.remove(place)
        self.expired.append(place)

    def _give(self, consumer: Consumer, place: BacklogPosition, message: bytes) -> MailboxDelivery:
        tag = self._next_tag
        self._next_tag += 1
        consumer.credit -= 1
        consumer.room_bytes -= len(message)
        consumer.unacknowledged[tag] = place
        before = self._tries.get(place.seq)
        return MailboxDelivery(consumer, tag, 1 if before is None else before.given + 1, message)
