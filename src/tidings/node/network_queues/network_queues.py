"""Queues and subscriptions of the network: one home keeps each, and whoever uses it at another broker does so through
that one.

    publisher ──► queue here ──forwarding──► home's queue ──dispatch──► home side ══channel══ consumer side ──► client

A message is stored where it enters, in a queue of the same name, and confirmed then; from there it is passed on to the
home, exactly once. So a queue whose home is another broker is only a way there, and two homes become one when one of
them passes on what it has. `_review` decides for each name what the queue here is: the home's, or a way to the home.

Durable and shared subscriptions are mailboxes with a home in the same way, which topics fill at the home alone. Another
broker has a mailbox of one only if it was made there too; then it hands that over (`hand_over`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from tidings.delivery.mailbox import Consumer, Mailbox, MailboxKind
from tidings.delivery.policy import QueueScope, policy_of
from tidings.delivery.store import Note, Recovered
from tidings.errors import TidingsError, UsageError
from tidings.model.destination import Destination
from tidings.model.selector import Selector
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.interest_spread import InterestSpread
from tidings.node.clients.session import Connection, MailboxSubscription
from tidings.node.clients.subscription_plan import SubscriptionPlan, destination_of, is_temporary, may_be_of_network
from tidings.node.completions import ActivateRemoteConsumer, AnswerRequest, AnswerSettled, ForwardQueued
from tidings.node.effects import Log
from tidings.node.mailboxes.durable_access import open_subscription
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.message_filter import accepts
from tidings.node.network.datagrams import QUEUE_KINDS
from tidings.node.network.network import Network
from tidings.node.network_queues.attached_mailbox import AttachedMailbox
from tidings.node.network_queues.channel import decode_frame
from tidings.node.network_queues.consumer_side import PATIENCE_MS, ConsumerSide, Then
from tidings.node.network_queues.forwarding import QueueForwarder
from tidings.node.network_queues.hand_over import SubscriptionHandOver
from tidings.node.network_queues.home_side import HomeSide
from tidings.node.network_queues.kept_subscriptions import KeptSubscriptions
from tidings.node.network_queues.records import ForgetSubscription
from tidings.node.requests import Forget, Subscribe, SubscribeWait
from tidings.overlay.effects import Router
from tidings.routing.control.messages import Topic

HANDED_OVER_NOTE = "subscription-handed-over"
ORPHAN_MS = 10_000.0  # after which a subscription without a home has ended: another home may be heard of until then
CLAIM_EMPTY_MS = 30_000.0  # a claim of an earlier run whose group nobody has joined since is withdrawn then


class NetworkQueues:
    def __init__(
        self,
        network: Network,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        connections: Mapping[int, Connection],
        spread: InterestSpread,
        scope: QueueScope,
    ) -> None:
        """`scope`: of durable and shared subscriptions."""
        self._network, self._router = network, network.settings.router
        self._service, self._journal, self._outbox, self._connections = service, journal, outbox, connections
        self.homes = network.queue_homes
        post = lambda router, payload: network.datagrams.post(router, payload)  # noqa: E731
        kept = KeptSubscriptions(service, journal, spread, network.store_and_forward)
        self.home_side = HomeSide(service, journal, kept, self._is_home, post)
        self.consumer_side = ConsumerSide(service, journal, outbox, network.clock, lambda: network.incarnation, post)
        self._common_subscriptions = scope is QueueScope.NETWORK
        self._hand_overs: dict[Mailbox, SubscriptionHandOver] = {}
        self._handed_over: dict[str, bool] = {}  # of durable ones, in the store: whether the home has adopted it
        self._orphans: dict[Mailbox, float] = {}  # handed over to a home that says no more that it is: since when
        self._brought: dict[Consumer, Then] = {}  # consumers that came from another home, and wait for the disk
        self._forwarders: dict[Mailbox, QueueForwarder] = {}
        self._blocked: set[QueueForwarder] = set()  # those that wait for room
        self._stale_claims: set[str] = set()  # of groups that an earlier run kept
        self._unclaimed: dict[str, None] = {}  # used here before it was known whether they have a home

    def recover(self, recovered: Recovered) -> None:
        self.homes.recover(recovered.notes)
        self.homes.take_changed()
        if self.homes.claimed:
            self._network.announce(Topic.QUEUES, self.homes.whole)
        self._stale_claims = self.homes.claimed - self._service.mailboxes.by_name.keys()
        for key, value in recovered.notes.items():
            kind, _, name = key.partition(":")
            if kind == HANDED_OVER_NOTE and value and (mailbox := self._service.mailboxes.by_name.get(name)):
                self._handed_over[name] = value == b"2"
                if self._handed_over[name]:
                    self._service.mailboxes.hide(mailbox)

    # --- whose queue it is ----------------------------------------------------------------------------------------

    def home(self, name: str) -> Router | None:
        """The broker that keeps a queue or subscription; None: no broker is known to."""
        if not name.startswith("queue:"):
            return self.homes.home(name) if self._is_of_network(name) else self._router
        destination = Destination.parse(name)
        policy = None if is_temporary(destination) else policy_of(self._service.mailboxes.policies, destination)
        if policy is None or policy.scope is QueueScope.BROKER:
            return self._router
        return policy.home or self.homes.home(name)

    def elsewhere(self, name: str) -> Router | None:
        """The other broker that keeps it; None: it is kept here, at least for now."""
        home = self.home(name)
        return None if home == self._router else home

    def _is_home(self, name: str) -> bool:
        """It is kept here, for the network."""
        return self._is_of_network(name) and self.elsewhere(name) is None

    def _is_of_network(self, name: str) -> bool:
        if not name.startswith("queue:"):
            return self._common_subscriptions and may_be_of_network(name)
        policy = policy_of(self._service.mailboxes.policies, Destination.parse(name))
        return policy is not None and policy.scope is QueueScope.NETWORK

    def describe(self, mailbox: Mailbox) -> dict[str, Any]:
        """The home of a queue (0: it is each broker's own), and how many of its consumers are at other brokers."""
        if not self._is_of_network(mailbox.name):
            return {"home": 0, "remote_consumers": {}}
        remote = {str(router): count for router, count in self.home_side.consumers_of(mailbox).items()}
        found = {"home": self.home(mailbox.name) or self._router, "remote_consumers": remote}
        passes_on = mailbox in self._forwarders or mailbox in self._hand_overs
        return found | {"consumers": 0} if passes_on else found

    def check_here(self, name: str) -> None:
        """Raises an error if what is asked for can only be done where the queue is kept."""
        if (home := self.elsewhere(name)) is not None:
            raise UsageError("E_QUEUE_ELSEWHERE", f"{name} is kept by broker {home}: ask there")

    def _review(self, name: str) -> None:
        """Its home may be another one now."""
        home = self.home(name)
        mailbox = self._service.mailboxes.by_name.get(name)
        if name in self.homes.claimed and (mailbox is None or not self._is_home(name)):
            self._say(name, self.homes.withdraw(name))
        if mailbox is not None and mailbox.kind is MailboxKind.QUEUE:
            self._review_mailbox(mailbox, home)
        elif mailbox is not None and home is None and name in self._handed_over:
            self._orphans.setdefault(mailbox, self._network.clock.now)
            return
        elif mailbox is not None and home not in (None, self._router):
            self._review_subscription(mailbox, home)
        self._unclaimed.pop(name, None)
        if home is None and mailbox is not None:
            self._unclaimed[name] = None
        for attached in list(self.consumer_side.by_name.get(name, ())):
            self._seat_again(attached, home)

    def _review_mailbox(self, mailbox: Mailbox, home: Router | None) -> None:
        forwarder = self._forwarders.get(mailbox)
        if forwarder is not None and forwarder.home != home:
            forwarder.end()
            del self._forwarders[mailbox]
            forwarder = None
        if home is None or home == self._router:
            return
        self.home_side.dismiss(mailbox)
        self._send_all_away(mailbox, home)
        if forwarder is None:
            self._forwarders[mailbox] = forwarder = QueueForwarder(
                mailbox, home, self._service, self._journal, self._network, self._blocked
            )
            forwarder.begin()

    def _review_subscription(self, mailbox: Mailbox, home: Router) -> None:
        """It is kept elsewhere: hand over what is here."""
        hand_over = self._hand_overs.get(mailbox)
        if hand_over is None or hand_over.home != home:
            if hand_over is not None:
                hand_over.end()
            hand_over = SubscriptionHandOver(mailbox, home, self._service, self.consumer_side)
            self._hand_overs[mailbox] = hand_over
            hand_over.begin()
            hand_over.go_on()
            for note in self.homes.take_notes():
                self._journal.change(note)
            self._note_hand_over(mailbox, adopted=self._handed_over.get(mailbox.name, False))
        self.home_side.dismiss(mailbox)
        self._send_all_away(mailbox, home)

    def _note_hand_over(self, mailbox: Mailbox, *, adopted: bool) -> None:
        self._handed_over[mailbox.name] = adopted
        if mailbox.durable:
            self._journal.change(Note(f"{HANDED_OVER_NOTE}:{mailbox.name}", b"2" if adopted else b"1"))

    def _go_on_handing_over(self) -> None:
        """About once a second."""
        for mailbox, since in list(self._orphans.items()):
            if self.home(mailbox.name) is not None:
                del self._orphans[mailbox]
            elif self._network.clock.now - since >= ORPHAN_MS:
                self._service.remove(mailbox)  # the home has ended it
        for mailbox, hand_over in list(self._hand_overs.items()):
            if hand_over.adopted and not self._handed_over[mailbox.name]:
                self._note_hand_over(mailbox, adopted=True)
                self._service.mailboxes.hide(mailbox)
            if hand_over.finished and not mailbox.durable:
                self._service.remove(mailbox)
            else:
                hand_over.go_on()

    def _removed(self, mailbox: Mailbox) -> None:
        """A mailbox is no longer there."""
        self._blocked.discard(self._forwarders.pop(mailbox, None))
        self._orphans.pop(mailbox, None)
        if self._hand_overs.pop(mailbox, None) is not None:
            del self._handed_over[mailbox.name]
            if mailbox.durable:
                self._journal.change(Note(f"{HANDED_OVER_NOTE}:{mailbox.name}", b""))

    def _claim(self) -> None:
        """Keep here whatever has no home, once this broker knows as much as its neighbours."""
        if not self._network.flood.caught_up:
            return
        for name in list(self._unclaimed):
            del self._unclaimed[name]
            if name in self._service.mailboxes.by_name and self.home(name) is None:
                self._say(name, self.homes.claim(name))

    def _say(self, name: str, difference: bytes) -> None:
        self._journal.change(self.homes.note(name))
        self._network.announce(Topic.QUEUES, self.homes.whole, difference)

    # --- consumers of clients here --------------------------------------------------------------------------------

    def seat(self, client: Connection, request: Subscribe, wanted: SubscriptionPlan) -> AttachedMailbox | None:
        """For a subscription that needs a mailbox; None: it is kept here."""
        home = self.elsewhere(wanted.name)
        if home is None:
            return None
        mailbox = self.consumer_side.make(wanted.name, wanted.filter, self._service.message_cache)
        mailbox.connection, mailbox.subscription = client.number, request.subscription
        mailbox.exclusive = request.exclusive
        if wanted.kind is not MailboxKind.QUEUE:
            mailbox.plan, mailbox.policy = wanted, request.policy
            mailbox.manages = client.principal.may("manage", wanted.destination)
            mailbox.everywhere = request.wait is SubscribeWait.NETWORK
        self.consumer_side.attach(mailbox, home)
        return mailbox

    def confirm(self, mailbox: AttachedMailbox, then: Then) -> None:
        """`then`: once the subscription is in force at its home."""
        mailbox.confirm, mailbox.confirm_until = then, self._network.clock.now + PATIENCE_MS

    def forget(self, client: Connection, request: Forget, name: str, then: Then) -> bool:
        """Delete a durable subscription that another broker keeps; False: it is kept here."""
        home = self.elsewhere(name)
        if home is None:
            return False
        manages = client.principal.may("manage", ">")
        record = lambda token: ForgetSubscription(token, name, request.look, manages)  # noqa: E731
        self.consumer_side.ask(home, record, then, patience_ms=PATIENCE_MS)
        return True

    def _send_all_away(self, mailbox: Mailbox, home: Router) -> None:
        for consumer in list(mailbox.consumers):
            if consumer.output is None:
                self._send_away(mailbox, consumer, home)

    def _send_away(self, mailbox: Mailbox, consumer: Consumer, home: Router) -> None:
        """A consumer of a queue here goes to the home; what it has comes again there, marked."""
        client = self._connections.get(consumer.connection)
        seat = None if client is None else client.subscriptions.get(consumer.subscription)
        if client is None or not isinstance(seat, MailboxSubscription) or seat.consumer is not consumer:
            return
        held = len(consumer.unacknowledged)
        self._service.detach(mailbox, consumer)
        attached = self.consumer_side.make(mailbox.name, seat.filter, self._service.message_cache)
        attached.connection, attached.subscription = client.number, consumer.subscription
        attached.exclusive, attached.policy = consumer.exclusive, mailbox.policy
        if mailbox.kind is not MailboxKind.QUEUE:
            attached.plan = self._plan_again(mailbox, seat.filter)
        attached.begin_tags(mailbox.given)
        new = _like(consumer, held)
        new.accepts = None
        client.subscriptions[consumer.subscription] = replace(seat, mailbox=attached, consumer=new)
        self.consumer_side.attach(attached, home)
        self._service.attach(attached, new)

    def _plan_again(self, mailbox: Mailbox, filter: str) -> SubscriptionPlan:
        predicate = self._service.mailboxes.predicate(mailbox)
        accepted, topic = accepts(Selector(filter)), destination_of(predicate)
        return SubscriptionPlan(topic, predicate, mailbox.kind, mailbox.name, accepted, mailbox.asked, filter)

    def _seat_again(self, attached: AttachedMailbox, home: Router | None) -> None:
        consumer = attached.consumer
        if attached.home == home and attached not in self.consumer_side.moved:
            return
        self.consumer_side.moved.discard(attached)
        if consumer is None:
            self.consumer_side.forget(attached)
        elif home is not None and home != self._router:
            self.consumer_side.attach(attached, home)
        else:
            self._bring_here(attached, consumer)

    def _bring_here(self, attached: AttachedMailbox, consumer: Consumer) -> None:
        """The queue is kept here from now on."""
        client = self._connections[consumer.connection]
        seat = client.subscriptions[consumer.subscription]
        assert isinstance(seat, MailboxSubscription)
        self.consumer_side.forget(attached)
        self._service.detach(attached, consumer)
        try:
            if attached.plan is None:
                mailbox = self._service.mailboxes.queue(Destination.parse(attached.name))
            else:
                mailbox = open_subscription(self._service, attached.plan, lambda _: attached.manages)
        except TidingsError as error:
            if attached.confirmed(error):
                return
            fields: dict[str, object] = {"queue": attached.name, "error": str(error)}
            self._outbox.add(Log("ERROR", "a queue that has lost its home cannot be kept here", fields))
            return
        mailbox.begin_tags(attached.given)
        new = _like(consumer, 0)
        new.accepts = accepts(Selector(attached.selector))
        mailbox.policy = attached.policy
        if attached.confirm is not None:
            self._brought[new], attached.confirm = attached.confirm, None
        client.subscriptions[consumer.subscription] = replace(seat, mailbox=mailbox, consumer=new)
        self._service.attach(mailbox, new)
        self._journal.then_changed(ActivateRemoteConsumer(mailbox, new))

    def sync(self, client: Connection, answer: AnswerRequest) -> bool:
        """Answer a client when all that it has settled is on disk; False: nothing of it is at other brokers."""
        if not self.consumer_side.attached:
            return False
        seats = [one.mailbox for one in client.subscriptions.values() if isinstance(one, MailboxSubscription)]
        return self.consumer_side.synced([one for one in seats if isinstance(one, AttachedMailbox)], answer)

    # --- turns ----------------------------------------------------------------------------------------------------

    def begin_turn(self, now_ms: int, opened: Iterable[tuple[bool, Mailbox]]) -> None:
        """Take in all that came from other brokers, and queues that were made or removed here."""
        now = self._network.clock.now
        for is_open, mailbox in opened:
            if self._is_of_network(mailbox.name):
                if not is_open:
                    self._removed(mailbox)
                self._review(mailbox.name)
        for name in self.homes.take_changed():
            self._review(name)
        if self._unclaimed:
            self._claim()
        for router, payload in self._network.datagrams.take(QUEUE_KINDS):
            self._arrived(now, now_ms, router, payload)
        for forwarder in list(self._blocked):
            forwarder.go_on()

    def _arrived(self, now: float, now_ms: int, router: Router, payload: bytes) -> None:
        try:
            frame = decode_frame(payload)
            if frame.opener:
                self.home_side.arrived(now, now_ms, router, frame)
            else:
                self.consumer_side.arrived(now, router, frame)
        except TidingsError as error:
            fields: dict[str, object] = {"broker": router, "error": str(error)}
            self._outbox.add(Log("ERROR", "another broker sent something invalid about a queue", fields))

    def end_turn(self) -> None:
        """Send all that was given out, settled and allowed."""
        now = self._network.clock.now
        self.home_side.send(now)
        self.consumer_side.send(now)

    def complete(
        self, completion: ForwardQueued | ActivateRemoteConsumer | AnswerSettled, error: TidingsError | None
    ) -> None:
        match completion:
            case ForwardQueued():
                self._forwarded(completion, error)
            case ActivateRemoteConsumer():
                self.home_side.activate(completion)
                if (then := self._brought.pop(completion.consumer, None)) is not None:
                    then(error)
            case AnswerSettled():
                self.home_side.settled(completion, error)
            case _:
                assert_never(completion)

    def _forwarded(self, completion: ForwardQueued, error: TidingsError | None) -> None:
        """A message is stored for the home, or waits again."""
        mailbox, place = completion.mailbox, completion.place
        if error is None:
            mailbox.finish(place.seq)
            self._network.store_and_forward.forward(completion.forward)
        elif self._service.mailboxes.is_open(mailbox):
            mailbox.put_back(place)
            if (forwarder := self._forwarders.get(mailbox)) is not None:
                forwarder.resting = True
        else:
            mailbox.finish(place.seq)

    def configure(self) -> None:
        """Policies are others from now on."""
        for name in {*self._service.mailboxes.by_name, *self.consumer_side.by_name}:
            if name.startswith("queue:"):
                self._review(name)

    def tick(self) -> None:
        """About once a second."""
        now = self._network.clock.now
        for note in self.homes.take_notes():
            self._journal.later(note)
        for attached in list(self.consumer_side.moved):
            self._review(attached.name)
        for forwarder in self._forwarders.values():
            forwarder.resting = False
        self._go_on_handing_over()
        if self._stale_claims and now - self._network.started_at >= CLAIM_EMPTY_MS:
            for name in self._stale_claims:
                self._review(name)
            self._stale_claims = set()
        self.home_side.tick(now)
        self.consumer_side.tick(now)


def _like(consumer: Consumer, held: int) -> Consumer:
    """The same consumer at another mailbox. What it held gives its credit back, if acknowledgements do that."""
    return Consumer(
        consumer.connection,
        consumer.subscription,
        consumer.credit + (held if consumer.window else 0),
        window=consumer.window,
        settles=consumer.settles,
        draining=consumer.draining,
    )
