"""The home's side: consumers at other brokers are consumers of the mailbox here.

Each broker with consumers has one channel to this one. When that is silent for too long, or replaced by a later one,
its consumers are detached as those of a lost connection are: what they had waits again, marked.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from tidings.delivery.mailbox import Consumer, Mailbox, MailboxKind
from tidings.errors import CodecError, TidingsError
from tidings.model.destination import Destination
from tidings.model.selector import Selector
from tidings.node.completions import ActivateRemoteConsumer, AnswerSettled
from tidings.node.mailboxes.dead_letters import REJECTED
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.message_filter import accepts
from tidings.node.network_queues.channel import QueueChannel, QueueFrame, reset_frame
from tidings.node.network_queues.kept_subscriptions import KeptSubscriptions
from tidings.node.network_queues.records import (
    AdoptSubscription,
    AllowDeliveries,
    AttachConsumer,
    AttachmentRefused,
    AttachSubscriber,
    ConsumerAttached,
    ConsumerDrained,
    DetachConsumer,
    DrainConsumer,
    ForgetSubscription,
    HandOverMessage,
    HomeDelivery,
    RequestRefused,
    SettleDeliveries,
    Settlement,
    SettlementsSynced,
    SyncSettlements,
    ToHome,
)
from tidings.overlay.effects import Router

WINDOW_BYTES = 1 << 20  # that a broker of consumers has not confirmed, before it gets nothing more
MOVED = "E_QUEUE_MOVED"


@dataclass(slots=True, eq=False)
class ConsumerChannel:
    """The channel of a broker with consumers, and these by attachment."""

    router: Router
    channel: QueueChannel
    consumers: dict[int, "RemoteConsumer"] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class RemoteConsumer:
    """The output of a consumer at another broker."""

    peer: ConsumerChannel
    attachment: int
    mailbox: Mailbox
    consumer: Consumer
    everywhere: bool = False  # it is in force when all brokers know it
    sent: int = 0
    tokens: list[int] = field(default_factory=list)  # of drains

    def room(self) -> int:
        return WINDOW_BYTES - self.peer.channel.unconfirmed_bytes

    def deliver(self, now_ms: int, attempts: list[int], tags: list[int], messages: list[bytes]) -> None:
        del now_ms
        self.sent += len(tags)
        for attempt, tag, message in zip(attempts, tags, messages, strict=True):
            self.peer.channel.put(HomeDelivery(self.attachment, tag, attempt - 1, message))

    def drained(self) -> None:
        for token in self.tokens:
            self.peer.channel.put(ConsumerDrained(self.attachment, token))
        self.tokens.clear()

    def removed(self, code: str, reason: str) -> None:
        self.peer.consumers.pop(self.attachment, None)
        self.peer.channel.put(AttachmentRefused(self.attachment, code, reason))


class HomeSide:
    """`is_home`: this broker keeps the queue of this name. `post`: sends a datagram."""

    def __init__(
        self,
        service: MailboxService,
        journal: Journal,
        kept: KeptSubscriptions,
        is_home: Callable[[str], bool],
        post: Callable[[Router, bytes], object],
    ) -> None:
        self._service, self._journal, self._kept = service, journal, kept
        self._is_home, self._post = is_home, post
        self._peers: dict[Router, ConsumerChannel] = {}

    # --- from brokers of consumers --------------------------------------------------------------------------------

    def arrived(self, now: float, now_ms: int, router: Router, frame: QueueFrame) -> None:
        peer = self._peers.get(router)
        if frame.reset:
            if peer is not None and peer.channel.life == frame.life:
                self._lose(peer)
            return
        if peer is None or peer.channel.life != frame.life:
            if frame.number != 1 or (peer is not None and peer.channel.life > frame.life):
                self._post(router, reset_frame(frame))
                return
            if peer is not None:
                self._lose(peer)
            channel = QueueChannel(frame.life, opens=False, now=now)
            peer = self._peers[router] = ConsumerChannel(router, channel)
        before = peer.channel.unconfirmed_bytes
        try:
            for record in peer.channel.arrived(frame, now):
                self._take(now_ms, peer, record)  # type: ignore[arg-type]
        except TidingsError:
            self._lose(peer)
            self._post(router, reset_frame(frame))
            raise
        if peer.channel.unconfirmed_bytes < before:
            for remote in peer.consumers.values():
                if remote.mailbox.backlog:
                    self._service.touch(remote.mailbox)

    def _take(self, now_ms: int, peer: ConsumerChannel, record: ToHome) -> None:
        match record:
            case AttachConsumer() | AttachSubscriber():
                self._attach(peer, record)
            case AdoptSubscription() | HandOverMessage() | ForgetSubscription():
                self._asked(peer, record)
            case SyncSettlements(token):
                self._journal.then_changed(AnswerSettled(peer.router, peer.channel.life, token))
            case AllowDeliveries() | SettleDeliveries() | DrainConsumer() | DetachConsumer():
                if (remote := peer.consumers.get(record.attachment)) is not None:
                    self._take_of(now_ms, remote, record)
            case _:
                assert_never(record)

    def _take_of(
        self,
        now_ms: int,
        remote: RemoteConsumer,
        record: AllowDeliveries | SettleDeliveries | DrainConsumer | DetachConsumer,
    ) -> None:
        match record:
            case AllowDeliveries(total=total):
                remote.consumer.credit = max(0, total - remote.sent)
            case SettleDeliveries():
                self._settle(now_ms, remote, record)
            case DrainConsumer(token=token):
                remote.tokens.append(token)
                remote.consumer.draining = 1
            case DetachConsumer():
                del remote.peer.consumers[remote.attachment]
                self._service.detach(remote.mailbox, remote.consumer)
            case _:
                assert_never(record)
        self._service.touch(remote.mailbox)

    def _attach(self, peer: ConsumerChannel, record: AttachConsumer | AttachSubscriber) -> None:
        name = record.queue if isinstance(record, AttachConsumer) else record.name
        if not self._is_home(name):
            peer.channel.put(AttachmentRefused(record.attachment, MOVED, f"{name} is kept by another broker"))
            return
        try:
            if isinstance(record, AttachConsumer):
                mailbox = self._service.mailboxes.queue(Destination.parse(name))
            else:
                mailbox = self._kept.attach(record)
            selector = accepts(Selector(record.selector))
        except TidingsError as error:
            peer.channel.put(AttachmentRefused(record.attachment, error.code, error.reason))
            return
        consumer = Consumer(0, record.attachment, 0, accepts=selector, exclusive=record.exclusive)
        everywhere = isinstance(record, AttachSubscriber) and record.everywhere
        remote = RemoteConsumer(peer, record.attachment, mailbox, consumer, everywhere)
        consumer.output = remote
        peer.consumers[record.attachment] = remote
        self._service.attach(mailbox, consumer)
        self._journal.then_changed(ActivateRemoteConsumer(mailbox, consumer))

    def activate(self, completion: ActivateRemoteConsumer) -> None:
        """It is on disk, or cannot be, that somebody may have seen what waits here."""
        mailbox, consumer = completion.mailbox, completion.consumer
        if consumer not in mailbox.consumers:
            return
        self._service.activate(mailbox, consumer)
        remote = consumer.output
        if not isinstance(remote, RemoteConsumer) or mailbox.kind is MailboxKind.QUEUE:
            return
        if remote.everywhere:
            self._kept.spread.wait(lambda error: self._attached(remote, error))
        else:
            self._attached(remote, None)

    def _attached(self, remote: RemoteConsumer, error: TidingsError | None) -> None:
        """The subscription is in force, or (`error`) was not known everywhere in time."""
        if remote.consumer not in remote.mailbox.consumers:
            return
        if error is None:
            remote.peer.channel.put(ConsumerAttached(remote.attachment))
        else:
            remote.removed(error.code, error.reason)
            self._service.detach(remote.mailbox, remote.consumer)

    def _asked(self, peer: ConsumerChannel, record: AdoptSubscription | HandOverMessage | ForgetSubscription) -> None:
        answer = AnswerSettled(peer.router, peer.channel.life, record.token)
        try:
            if not self._is_home(record.name):
                raise TidingsError(MOVED, f"{record.name} is kept by another broker")
            match record:
                case AdoptSubscription():
                    self._kept.adopt(record, answer)
                case HandOverMessage():
                    self._kept.hand_over(record, answer)
                case ForgetSubscription():
                    self._kept.forget(record, answer)
                case _:
                    assert_never(record)
        except TidingsError as error:
            peer.channel.put(RequestRefused(record.token, error.code, error.reason))

    def settled(self, completion: AnswerSettled, error: TidingsError | None) -> None:
        """Say to a broker that all that its consumers have settled, or what it asked for, is on disk."""
        peer = self._peers.get(completion.router)
        if peer is None or peer.channel.life != completion.life:
            return
        if error is None:
            peer.channel.put(SettlementsSynced(completion.token))
        else:
            peer.channel.put(RequestRefused(completion.token, error.code, error.reason))

    def _settle(self, now_ms: int, remote: RemoteConsumer, record: SettleDeliveries) -> None:
        mailbox, consumer = remote.mailbox, remote.consumer
        mailbox.taken_ms = now_ms
        if record.settlement not in Settlement.__members__.values():
            raise CodecError("E_CONTROL_KIND", f"unknown settlement {record.settlement}", position=0)
        settlement = Settlement(record.settlement)
        if settlement is Settlement.DONE:
            self._service.finished(mailbox, mailbox.acknowledge(consumer, record.tags))
            return
        places = mailbox.reject(consumer, list(record.tags))
        if record.elsewhere:
            consumer.avoids.update(place.seq for place in places)
        match settlement:
            case Settlement.RETRY:
                self._service.retry(mailbox, places)
            case Settlement.SPARED:
                mailbox.spare(places)
                self._service.returned(mailbox, [])
            case Settlement.BACK:
                for place in places:
                    mailbox.put_back(place)
            case Settlement.DEAD:
                self._service.dead_letters.bury(mailbox, places, REJECTED)
            case _:
                assert_never(settlement)

    # --- the end of it --------------------------------------------------------------------------------------------

    def _lose(self, peer: ConsumerChannel) -> None:
        """Its consumers are gone, without a word."""
        del self._peers[peer.router]
        for remote in peer.consumers.values():
            if self._service.mailboxes.is_open(remote.mailbox):
                self._service.detach(remote.mailbox, remote.consumer)

    def dismiss(self, mailbox: Mailbox) -> None:
        """The queue has another home: its consumers go there."""
        for consumer in [one for one in mailbox.consumers if isinstance(one.output, RemoteConsumer)]:
            assert isinstance(consumer.output, RemoteConsumer)
            consumer.output.removed(MOVED, f"{mailbox.name} is kept by another broker")
            self._service.detach(mailbox, consumer)

    # --- to brokers of consumers ----------------------------------------------------------------------------------

    def consumers_of(self, mailbox: Mailbox) -> dict[Router, int]:
        """The numbers of consumers by broker."""
        counts: dict[Router, int] = {}
        for consumer in mailbox.consumers:
            if isinstance(consumer.output, RemoteConsumer):
                router = consumer.output.peer.router
                counts[router] = counts.get(router, 0) + 1
        return counts

    def send(self, now: float) -> None:
        """The end of a turn: what was put into channels leaves."""
        for peer in self._peers.values():
            for payload in peer.channel.take(now):
                self._post(peer.router, payload)

    def tick(self, now: float) -> None:
        for peer in list(self._peers.values()):
            if peer.channel.silent(now):
                self._lose(peer)
                continue
            for payload in peer.channel.tick(now):
                self._post(peer.router, payload)
