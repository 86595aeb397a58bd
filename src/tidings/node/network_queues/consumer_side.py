"""The consumers' side: clients here whose queues and subscriptions other brokers keep.

There is one channel to each home that is used. When the home does not know it (it has restarted, or given up this
broker), all consumers are attached again by a new one, and what they hold is stale: the home gives it out again,
marked.
"""

from collections.abc import Callable
from math import inf
from typing import TypeAlias, assert_never

from tidings.delivery.message_cache import MessageCache
from tidings.errors import TidingsError
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.completions import AnswerRequest
from tidings.node.effects import Close
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.link_channels import LinkClock
from tidings.node.network_queues.attached_mailbox import AttachedMailbox, SyncBarrier
from tidings.node.network_queues.channel import QueueChannel, QueueFrame, reset_frame
from tidings.node.network_queues.home_side import MOVED
from tidings.node.network_queues.records import (
    AllowDeliveries,
    AttachConsumer,
    AttachmentRefused,
    AttachSubscriber,
    ConsumerAttached,
    ConsumerDrained,
    DetachConsumer,
    DrainConsumer,
    FromHome,
    HomeDelivery,
    RequestRefused,
    SettleDeliveries,
    Settlement,
    SettlementsSynced,
    SyncSettlements,
    ToHome,
)
from tidings.node.requests import Failed
from tidings.overlay.effects import Router

BUSY = "E_DURABLE_BUSY"
BUSY_MS = 3_000.0  # that a durable subscription may still have a subscriber that has left another broker
PATIENCE_MS = 10_000.0  # that a client waits for the home of its subscription
Then: TypeAlias = Callable[[TidingsError | None], None]
LIFE_BITS = 16  # of a channel's life that count channels of one incarnation


class _Home:
    """The channel to a home, and what answers are waited for."""

    def __init__(self, channel: QueueChannel) -> None:
        self.channel = channel
        self.syncs: dict[int, tuple[AttachedMailbox, int, SyncBarrier]] = {}  # by token: up to which settlement
        self.drains: dict[int, tuple[AttachedMailbox, int]] = {}  # by token: with the client's receipt
        self.asked: dict[int, tuple[Then, float]] = {}  # by token: other requests, and how long they wait


class ConsumerSide:
    """`incarnation`: of this broker. `post`: sends a datagram."""

    def __init__(
        self,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        clock: LinkClock,
        incarnation: Callable[[], int],
        post: Callable[[Router, bytes], object],
    ) -> None:
        self.attached: dict[int, AttachedMailbox] = {}  # by attachment
        self.by_name: dict[str, dict[AttachedMailbox, None]] = {}  # the same, by queue
        self.moved: set[AttachedMailbox] = set()  # whose home refused them, to be attached again
        self._service, self._journal, self._outbox = service, journal, outbox
        self._clock, self._incarnation, self._post = clock, incarnation, post
        self._homes: dict[Router, _Home] = {}
        self._news: dict[AttachedMailbox, None] = {}
        self._opened = self._made = self._tokens = 0

    # --- subscriptions --------------------------------------------------------------------------------------------

    def make(self, name: str, selector: str, cache: MessageCache) -> AttachedMailbox:
        """For a consumer that is attached next."""
        return AttachedMailbox(name, selector, cache, self._news)

    def attach(self, mailbox: AttachedMailbox, home: Router) -> None:
        """From now on its messages come from this home. It has another number each time, so that what a home still says
        of an earlier one means nothing."""
        if mailbox.home is not None:
            self.leave(mailbox)
        self.attached.pop(mailbox.attachment, None)
        self._made += 1
        mailbox.home, mailbox.attachment = home, self._made
        self.attached[mailbox.attachment] = mailbox
        self.by_name.setdefault(mailbox.name, {})[mailbox] = None
        self._place(home).channel.put(_attaching(mailbox))
        self._news[mailbox] = None

    def _place(self, home: Router) -> _Home:
        place = self._homes.get(home)
        if place is None:
            self._opened += 1
            life = (self._incarnation() << LIFE_BITS) + self._opened
            place = self._homes[home] = _Home(QueueChannel(life, opens=True, now=self._clock.now))
        return place

    def ask(self, home: Router, record: Callable[[int], ToHome], then: Then, *, patience_ms: float = inf) -> None:
        """Ask a home for something; `record` takes the token. `then`: once it is done, or an error says why not."""
        place = self._place(home)
        place.asked[self._token()] = (then, self._clock.now + patience_ms)
        place.channel.put(record(self._tokens))

    def leave(self, mailbox: AttachedMailbox) -> None:
        """Leave its home, where all that it has given out waits again; here that is stale."""
        place = None if mailbox.home is None else self._homes.get(mailbox.home)
        if place is not None:
            place.channel.put(DetachConsumer(mailbox.attachment))
            self._fail(place, mailbox)
        mailbox.home = None
        mailbox.reset()

    def forget(self, mailbox: AttachedMailbox) -> None:
        """It is attached to nothing from now on."""
        self.leave(mailbox)
        self._drop(mailbox)
        self._news.pop(mailbox, None)

    def _drop(self, mailbox: AttachedMailbox) -> None:
        self.attached.pop(mailbox.attachment, None)
        self.moved.discard(mailbox)
        if (of_queue := self.by_name.get(mailbox.name)) is not None:
            of_queue.pop(mailbox, None)
            if not of_queue:
                del self.by_name[mailbox.name]

    # --- from homes -----------------------------------------------------------------------------------------------

    def arrived(self, now: float, router: Router, frame: QueueFrame) -> None:
        place = self._homes.get(router)
        if place is None or place.channel.life != frame.life:
            if not frame.reset:
                self._post(router, reset_frame(frame))
            return
        if frame.reset or place.channel.lapsed(now, frame):
            self._begin_again(router)
            return
        for record in place.channel.arrived(frame, now):
            self._take(place, record)  # type: ignore[arg-type]

    def _take(self, place: _Home, record: FromHome) -> None:
        match record:
            case HomeDelivery(attachment, tag, given, message):
                if (mailbox := self.attached.get(attachment)) is not None:
                    mailbox.arrive(self._service.take_seq(), tag, given, message)
                    self._service.touch(mailbox)
            case ConsumerDrained(token=token):
                mailbox, receipt = place.drains.pop(token, (None, 0))
                if mailbox is not None and mailbox.consumer is not None:
                    mailbox.consumer.draining = receipt
                    self._service.touch(mailbox)
            case SettlementsSynced(token):
                if token in place.asked:
                    place.asked.pop(token)[0](None)
                elif token in place.syncs:
                    mailbox, count, barrier = place.syncs.pop(token)
                    mailbox.synced = max(mailbox.synced, count)
                    self._passed(barrier, lost=False)
            case RequestRefused(token, code, reason):
                if token in place.asked:
                    place.asked.pop(token)[0](TidingsError(code, reason))
            case ConsumerAttached(attachment):
                if (mailbox := self.attached.get(attachment)) is not None:
                    mailbox.confirmed(None)
            case AttachmentRefused(attachment, code, reason):
                if (mailbox := self.attached.get(attachment)) is not None:
                    self._refused(place, mailbox, code, reason)
            case _:
                assert_never(record)

    def _refused(self, place: _Home, mailbox: AttachedMailbox, code: str, reason: str) -> None:
        self._fail(place, mailbox)
        mailbox.home = None
        mailbox.reset()
        if code == MOVED or (code == BUSY and self._waits_for_others(mailbox)):
            self.moved.add(mailbox)
        elif mailbox.confirmed(TidingsError(code, reason)):
            self._drop(mailbox)
        elif mailbox.consumer is not None and mailbox.connection in self._outbox.connected:
            self._outbox.add(Close(mailbox.connection, code, reason))

    def _waits_for_others(self, mailbox: AttachedMailbox) -> bool:
        began = mailbox.confirm_until - PATIENCE_MS
        return mailbox.confirm is not None and self._clock.now < began + BUSY_MS

    def _begin_again(self, router: Router) -> None:
        """The home does not know the channel."""
        place = self._homes.pop(router)
        for _, _, barrier in place.syncs.values():
            self._passed(barrier, lost=True)
        for then, _ in place.asked.values():
            then(home_lost())
        drains = list(place.drains.values())
        for mailbox in [one for one in self.attached.values() if one.home == router]:
            for barrier in mailbox.syncs:
                self._passed(barrier, lost=mailbox.unsynced)
            mailbox.syncs.clear()
            mailbox.home = None
            mailbox.reset()
            if mailbox.consumer is None:
                self._drop(mailbox)
                continue
            self.attach(mailbox, router)
            for one, receipt in drains:
                if one is mailbox:
                    mailbox.drain(receipt)

    def _fail(self, place: _Home, mailbox: AttachedMailbox) -> None:
        """Answer whatever waits for the home to say something about this mailbox."""
        for barrier in mailbox.syncs:
            self._passed(barrier, lost=True)
        mailbox.syncs.clear()
        for token in [token for token, (one, _, _) in place.syncs.items() if one is mailbox]:
            self._passed(place.syncs.pop(token)[2], lost=True)
        for token in [token for token, (one, _) in place.drains.items() if one is mailbox]:
            _, receipt = place.drains.pop(token)
            if mailbox.consumer is not None:
                mailbox.consumer.draining = receipt
                self._service.touch(mailbox)

    # --- answers that wait for homes ------------------------------------------------------------------------------

    def synced(self, mailboxes: list[AttachedMailbox], answer: AnswerRequest) -> bool:
        """Answer a client when what these have settled is on disk at their homes, and all before here. False: they have
        settled nothing that is not."""
        waiting = [one for one in mailboxes if one.unsynced]
        if not waiting:
            return False
        barrier = SyncBarrier(answer, len(waiting))
        for mailbox in waiting:
            mailbox.sync(barrier)
        return True

    def _passed(self, barrier: SyncBarrier, *, lost: bool) -> None:
        barrier.left -= 1
        barrier.lost |= lost
        if barrier.left:
            return
        if barrier.lost:
            self._outbox.answer(barrier.answer.connection, Failed(barrier.answer.done.receipt, home_lost()))
        else:
            self._journal.then(barrier.answer)

    # --- to homes -------------------------------------------------------------------------------------------------

    def send(self, now: float) -> None:
        """The end of a turn: credit, and what was settled."""
        if self._news:
            news = list(self._news)
            self._news.clear()
            for mailbox in news:
                if mailbox.home is not None and mailbox.attachment in self.attached:
                    self._say(self._homes[mailbox.home], mailbox)
                elif mailbox.consumer is None and not mailbox.busy:
                    self._drop(mailbox)
        for router, place in self._homes.items():
            for payload in place.channel.take(now):
                self._post(router, payload)

    def _say(self, place: _Home, mailbox: AttachedMailbox) -> None:
        runs: dict[tuple[Settlement, bool], list[int]] = {}
        for settlement, elsewhere, tag in mailbox.settled:
            runs.setdefault((settlement, elsewhere), []).append(tag)
        mailbox.settled.clear()
        for (settlement, elsewhere), tags in runs.items():
            place.channel.put(SettleDeliveries(mailbox.attachment, settlement, elsewhere, tuple(tags)))
        for barrier in mailbox.syncs:
            place.syncs[self._token()] = (mailbox, mailbox.settlements, barrier)
            place.channel.put(SyncSettlements(self._tokens))
        mailbox.syncs.clear()
        if (total := mailbox.wants()) != mailbox.allowed:
            mailbox.allowed = total
            place.channel.put(AllowDeliveries(mailbox.attachment, total))
        for receipt in mailbox.drains:
            place.drains[self._token()] = (mailbox, receipt)
            place.channel.put(DrainConsumer(mailbox.attachment, self._tokens))
        mailbox.drains.clear()
        if mailbox.consumer is None and not mailbox.busy:
            place.channel.put(DetachConsumer(mailbox.attachment))
            self._drop(mailbox)

    def _token(self) -> int:
        self._tokens += 1
        return self._tokens

    def tick(self, now: float) -> None:
        for mailbox in [one for one in self.attached.values() if one.confirm is not None and one.confirm_until <= now]:
            mailbox.confirmed(home_away(mailbox.name))
        used = {mailbox.home for mailbox in self.attached.values()}
        for router, place in list(self._homes.items()):
            for token in [token for token, (_, until) in place.asked.items() if until <= now]:
                place.asked.pop(token)[0](home_away("it"))
            if router not in used and not place.syncs and not place.asked and not place.channel.unconfirmed_bytes:
                del self._homes[router]
                continue
            if place.channel.lapsed(now):
                self._begin_again(router)
                continue
            for payload in place.channel.tick(now):
                self._post(router, payload)


def _attaching(mailbox: AttachedMailbox) -> AttachConsumer | AttachSubscriber:
    if (wanted := mailbox.plan) is None:
        return AttachConsumer(mailbox.attachment, mailbox.name, mailbox.selector, mailbox.exclusive)
    return AttachSubscriber(
        mailbox.attachment,
        mailbox.name,
        mailbox.selector,
        wanted.predicate,
        wanted.asked,
        wanted.formerly,
        mailbox.policy.value,
        mailbox.exclusive,
        mailbox.manages,
        mailbox.everywhere,
    )


def home_away(name: str) -> TidingsError:
    reason = f"the broker that keeps {name} did not answer within {PATIENCE_MS / 1000:g} s; try again later"
    return TidingsError("E_HOME_AWAY", reason)


def home_lost() -> TidingsError:
    reason = "the broker that keeps the queue was lost meanwhile; what was not confirmed is delivered again, marked"
    return TidingsError("E_QUEUE_HOME_LOST", reason)
