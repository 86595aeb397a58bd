"""Every completion at its three endings: the batch is durable, it is refused, or the broker ends after the write."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any, get_args

import pytest
from hardening.support.node_driver import DrivenClient, NodeDriver

from tidings.delivery.policy import QueuePolicy, QueueScope
from tidings.errors import StoreError
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import PERHAPS_SENT
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node import completions as records
from tidings.node.clients.client_sessions import ClientOptions
from tidings.node.completions import Completion, Copy
from tidings.node.engine import Engine
from tidings.node.inputs import ForgetBroker, Turn
from tidings.node.network.copy_numbers import CopyNumbers
from tidings.node.network.pan_links import PanSettings
from tidings.node.network.settings import NetworkSettings
from tidings.node.network_queues.channel import QueueChannel
from tidings.node.network_queues.records import AttachConsumer, SyncSettlements
from tidings.node.requests import (
    Accepted,
    AckMode,
    Begin,
    Commit,
    Done,
    Failed,
    Forget,
    Move,
    Recall,
    Refused,
    Retain,
    Unsubscribe,
)
from tidings.routing.control.codec import decode
from tidings.routing.control.messages import Datagram, Taken
from tidings.routing.effects import HandOver

FULL = StoreError("E_STORE_FULL", "no space")
LINK = 9
COPY = "refused E_STORE_IO"  # what rests on a copy that was refused


POLICIES = tuple(
    QueuePolicy(DestinationPattern.parse(name), scope=QueueScope.NETWORK, home=home)
    for name, home in (("queue:here", 1), ("queue:away", 2))
)


def persistent(destination: str = "t") -> bytes:
    return encode_message(Message(Destination.parse(destination), {}, id=MessageId(1, 1, 1, 9), persistent=True))


class Driver(NodeDriver):
    """A node in a network of event types, whose writes wait; it notes which completions its journal was given."""

    def make_engine(self) -> Engine:
        settings = NetworkSettings(1, scheme="hermes", pan=PanSettings(""))
        own = replace(self.settings, policies=POLICIES)
        return Engine(self.plane, own, ClientOptions(count(1)), settings, rng=Random(1))

    def start(self) -> None:
        super().start()
        self.given: list[Completion] = []
        journal: Any = self.node._journal
        for name in ("then", "then_changed"):
            setattr(journal, name, self._noting(getattr(journal, name)))

    def _noting(self, then: Callable[[Completion], None]) -> Callable[[Completion], None]:
        def note(completion: Completion) -> None:
            self.given.append(completion)
            then(completion)

        return note

    crash = start

    def prepare(self) -> None:
        """Something durable is there; two clients; what follows waits for the disk."""
        one = self.connect("one")
        one.subscribe(1, "t", durable="d", ack=AckMode.CLIENT)
        one.subscribe(2, "queue:a", ack=AckMode.CLIENT)
        one.ask(Unsubscribe(one.next_receipt(), 2))
        one.publish(self.message("queue:a"))
        self.one, self.two, self.told = one, self.connect("two"), list[str]()
        plane: Any = self.plane
        plane.send = self._sent
        events: Any = self.network.scheme_forwarding.events
        events.handed = lambda now, type, tag: self._scheme_told("safe")
        events.refused = lambda now, type, tag: self._scheme_told("refused")
        for client in self.clients.values():
            client.answers.clear()
        self.given.clear()
        self.hold_writes = True

    def _sent(self, connection: int, frame: bytes) -> None:
        if connection != LINK:
            type(self.plane).send(self.plane, connection, frame)
            return
        match decode(frame[8:]):
            case Taken(tags):
                self.told += [f"taken {tag}" for tag in tags]

    def _scheme_told(self, what: str) -> list[Any]:
        self.told.append(what)
        return []

    @property
    def network(self) -> Any:
        return self.node.network

    def end(self, ending: str) -> None:
        """Of the batch that waits; those behind it are written."""
        self.failure = FULL if ending == "refused" else None
        if ending == "restarted":
            self.store.append(self.writes[0].records)
            self.crash()
            return
        self.write()
        self.failure = None
        while self.writes:
            self.write()

    def said(self, client: DrivenClient) -> list[str]:
        """The answers to this client."""
        said = []
        for answer in client.answers:
            match answer:
                case Accepted(receipts):
                    said += ["accepted"] * len(receipts)
                case Done():
                    said.append("done")
                case Refused(_, error):
                    said.append(f"refused {error.code}")
                case Failed(_, error):
                    said.append(f"failed {error.code}")
        return said

    def waiting(self, name: str = "durable:one:d") -> int | None:
        mailbox = self.node.mailbox_service.mailboxes.by_name.get(name)
        return None if mailbox is None else len(mailbox.backlog) + sum(len(c.unacknowledged) for c in mailbox.consumers)

    def relay(self, *tags: int) -> None:
        for tag in tags:
            copy = Copy(5, tag, CopyNumbers(2, 1, False, {1: 1}), 0, persistent())
            self.network.relay_inbox.relayed(self.now_ms, LINK, copy)
            self.step(Turn())

    def event(self, client: DrivenClient) -> None:
        self.node.publishing.event(self.now_ms, client.number, client.next_receipt(), persistent("@type.Trade.event"))
        self.step(Turn())


# --- what is done -------------------------------------------------------------------------------------------------


def publish(driver: Driver) -> None:
    driver.one.publish(persistent())


def move(driver: Driver) -> None:
    driver.one.ask(Move(driver.one.next_receipt(), "queue:a", "queue:b"))


def publish_twice(driver: Driver) -> None:
    driver.one.publish(persistent())
    driver.two.publish(persistent(), flags=PERHAPS_SENT)


def publish_event(driver: Driver) -> None:
    driver.event(driver.one)


def publish_event_twice(driver: Driver) -> None:
    driver.event(driver.one)
    driver.event(driver.two)


def commit(driver: Driver) -> None:
    driver.one.ask(Begin(driver.one.next_receipt(), 1))
    driver.one.publish(persistent(), session=1)
    driver.one.answers.clear()
    driver.one.ask(Commit(driver.one.next_receipt(), 1))


def keep_delayed(driver: Driver) -> None:
    driver.one.publish(driver.message("queue:a", deliver_at_ms=driver.now_ms + 5_000))


def publish_delayed(driver: Driver) -> None:
    keep_delayed(driver)
    driver.write()
    driver.one.answers.clear()
    driver.now_ms += 5_000
    driver.step(Turn())


def delayed(driver: Driver) -> tuple[list[str], int, int | None]:
    return driver.said(driver.one), len(driver.node.delayed), driver.waiting("queue:a")


def forget(driver: Driver) -> None:
    driver.one.ask(Unsubscribe(driver.one.next_receipt(), 1))
    driver.write()
    driver.one.answers.clear()
    driver.one.ask(Forget(driver.one.next_receipt(), "d"))


def subscribe(driver: Driver) -> None:
    driver.one.subscribe(3, "t", durable="new", ack=AckMode.CLIENT)


def unsubscribe(driver: Driver) -> None:
    driver.one.ask(Unsubscribe(driver.one.next_receipt(), 1))


def retain(driver: Driver) -> None:
    driver.one.ask(Retain(driver.one.next_receipt(), "r", "t"))


def recall(driver: Driver) -> None:
    driver.one.ask(Recall(driver.one.next_receipt(), "r"))
    driver.one.publish(persistent())


def forward(driver: Driver) -> None:
    driver.network.store_and_forward.accept(persistent(), [3], 0)
    driver.step(Turn())


def keep_event(driver: Driver) -> None:
    """For a broker that is away, once all others have it."""
    event, network = persistent("@type.Trade.event"), driver.network
    network.event_custody.accept(event)
    driver.step(Turn())
    driver.write()
    driver.step(Turn())
    network.store_and_forward.accept(event, [3], 0)
    network.event_custody.safe(event[4:20], kept=True)
    driver.step(Turn())


def relay(driver: Driver) -> None:
    driver.relay(1)


def relay_to_empty_store(driver: Driver) -> None:
    driver.network.held_copies._fresh = True
    driver.relay(1)


def release(driver: Driver) -> None:
    relay_to_empty_store(driver)
    driver.write()
    driver.told.clear()
    for now in (0, 60_000):
        driver.network.held_copies.tick(now)
    driver.step(Turn())


def divert(driver: Driver) -> None:
    """A message waits for a broker that is then forgotten."""
    queue = Destination.parse("queue:kept")
    driver.node.mailbox_service.mailboxes.queue(queue, may_make=True)
    driver.network.store_and_forward.accept(persistent(), [8], 0)
    driver.step(Turn())
    driver.write()
    driver.step(ForgetBroker(8, queue))


def relay_twice(driver: Driver) -> None:
    driver.relay(1, 2)


def hand_over(driver: Driver) -> None:
    driver.network.scheme_forwarding.handed.append(HandOver(persistent(), b"tag", "Trade"))
    driver.step(Turn())
    driver.step(Turn())


def forward_queued(driver: Driver) -> None:
    """A message whose queue another broker keeps, which can be reached."""
    driver.network.unicast.reachable = lambda: {2: 1}
    driver.one.publish(persistent("queue:away"))
    driver.write()
    driver.step(Turn())


def attach_remotely(driver: Driver) -> None:
    """A consumer at broker 2, which asks whether all is on disk."""
    channel = QueueChannel(1, opens=True, now=0.0)
    channel.put(AttachConsumer(1, "queue:here", "", False))
    channel.put(SyncSettlements(7))
    for frame in channel.take(0.0):
        driver.network.datagrams.arrived(Datagram(1, 2, 3, frame))
    driver.step(Turn())


# --- what is seen then --------------------------------------------------------------------------------------------


def answers(driver: Driver) -> object:
    return driver.said(driver.one), driver.waiting()


def answers_of_both(driver: Driver) -> object:
    return driver.said(driver.one), driver.said(driver.two), driver.waiting()


def queues(driver: Driver) -> object:
    return driver.said(driver.one), driver.waiting("queue:a"), driver.waiting("queue:b")


def new_mailbox(driver: Driver) -> object:
    return driver.said(driver.one), driver.waiting("durable:one:new")


def retained(driver: Driver) -> object:
    return driver.said(driver.one), driver.waiting("retained:r")


def consumers(driver: Driver) -> object:
    mailbox = driver.node.mailbox_service.mailboxes.by_name["durable:one:d"]
    return driver.said(driver.one), len(mailbox.consumers)


def events(driver: Driver) -> object:
    known = driver.network.store_and_forward.missing(persistent()[4:20]) is None
    return driver.said(driver.one), driver.said(driver.two), len(driver.network.event_custody), known


def in_custody(driver: Driver) -> object:
    return len(driver.network.event_custody), len(driver.network.store_and_forward)


def in_transit(driver: Driver) -> object:
    return len(driver.network.store_and_forward)


def diverted(driver: Driver) -> object:
    return len(driver.network.store_and_forward), driver.waiting("queue:kept")


def queued_for_others(driver: Driver) -> object:
    return len(driver.network.store_and_forward), driver.waiting("queue:away")


def active_consumers(driver: Driver) -> object:
    mailbox = driver.node.mailbox_service.mailboxes.by_name["queue:here"]
    return [consumer.active for consumer in mailbox.consumers]


def answered_remotely(driver: Driver) -> object:
    queues: Any = driver.node.network_queues
    return [peer.channel.unconfirmed_bytes > 0 for peer in queues.home_side._peers.values()]


def taken(driver: Driver) -> object:
    return driver.told, driver.waiting()


def held(driver: Driver) -> object:
    return driver.told, len(driver.network.held_copies), driver.waiting()


@dataclass(frozen=True)
class Case:
    completion: type
    act: Callable[[Driver], None]
    look: Callable[[Driver], object]
    durable: object
    refused: object
    restarted: object


CASES = [
    Case(records.OfferMessage, publish, answers, (["accepted"], 1), (["refused E_STORE_FULL"], 0), ([], 1)),
    Case(records.OfferMessage, move, queues, (["done"], 0, 1), (["failed E_STORE_FULL"], 1, 0), ([], 0, 1)),
    Case(
        records.ConfirmRepeat,
        publish_twice,
        answers_of_both,
        (["accepted"], ["accepted"], 1),
        (["refused E_STORE_FULL"], [COPY], 0),
        ([], [], 1),
    ),
    Case(
        records.ConfirmEntry,
        publish_event_twice,
        events,
        (["accepted"], ["accepted"], 1, True),
        (["refused E_STORE_FULL"], [COPY], 0, False),
        ([], [], 1, True),
    ),
]
CASES += [
    Case(
        completion,
        publish_event,
        events,
        (["accepted"], [], 1, True),
        (["refused E_STORE_FULL"], [], 0, False),
        ([], [], 1, True),
    )
    for completion in (records.PublishEvent, records.CarryEvent, records.RememberEntry)
]
CASES += [
    Case(
        records.KeepDelayed,
        keep_delayed,
        delayed,
        (["accepted"], 1, 1),
        (["refused E_STORE_FULL"], 0, 1),
        ([], 1, 1),
    ),
    Case(records.PublishDelayed, publish_delayed, delayed, ([], 0, 2), ([], 1, 1), ([], 0, 2)),
    Case(records.CommitTransaction, commit, answers, (["done"], 1), (["failed E_STORE_FULL"], 0), ([], 1)),
    Case(records.AnswerRequest, forget, answers, (["done"], None), (["failed E_STORE_FULL"], None), ([], None)),
    Case(records.ActivateConsumer, subscribe, new_mailbox, (["done"], 0), (["failed E_STORE_FULL"], None), ([], 0)),
    Case(records.ConfirmUnsubscribe, unsubscribe, consumers, (["done"], 0), (["done"], 0), ([], 0)),
    Case(records.AnswerRetention, retain, retained, (["done"], 0), (["failed E_STORE_FULL"], 0), ([], 0)),
    Case(
        records.AnswerRecall, recall, answers, (["done", "accepted"], 1), (["done", "refused E_STORE_FULL"], 0), ([], 1)
    ),
    Case(records.ForwardMessage, forward, in_transit, 1, 0, 1),
    Case(records.ReleaseEvent, keep_event, in_custody, (0, 1), (1, 0), (1, 1)),
    Case(records.DeliverRelayed, relay, taken, (["taken 1"], 1), ([], 0), ([], 1)),
    Case(records.HoldCopy, relay_to_empty_store, held, (["taken 1"], 1, 0), ([], 0, 0), ([], 1, 0)),
    Case(records.ReleaseCopy, release, held, ([], 0, 1), ([], 1, 0), ([], 0, 1)),
    Case(records.MoveWaiting, divert, diverted, (0, 1), (1, 0), (1, 1)),
    Case(records.ForwardQueued, forward_queued, queued_for_others, (1, 0), (0, 1), (1, 0)),
    Case(records.ActivateRemoteConsumer, attach_remotely, active_consumers, [True], [True], []),
    Case(records.AnswerSettled, attach_remotely, answered_remotely, [True], [True], []),
    Case(records.TakeRelay, relay, taken, (["taken 1"], 1), ([], 0), ([], 1)),
    Case(records.ConfirmCopy, relay_twice, taken, (["taken 1", "taken 2"], 1), ([], 0), ([], 1)),
    Case(records.ConfirmHandOver, hand_over, taken, (["safe"], 1), (["refused"], 0), ([], 1)),
]
ENDINGS = ("durable", "refused", "restarted")


def members(union: object) -> set[type]:
    """Those of a union, and of the unions in it."""
    return {inner for one in get_args(union) for inner in (members(one) or {one})}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.completion.__name__}-{case.act.__name__}")
def test_what_a_batch_decides_at_each_of_its_endings(case: Case, ending: str) -> None:
    driver = Driver()
    driver.prepare()
    case.act(driver)
    assert case.completion in {type(one) for one in driver.given}
    driver.end(ending)
    assert case.look(driver) == getattr(case, ending)


def test_each_completion_has_such_a_case() -> None:
    assert {case.completion for case in CASES} == members(Completion)


def test_an_entry_that_mailboxes_here_could_not_take_is_refused_though_its_batch_is_durable() -> None:
    driver = Driver()
    driver.prepare()
    for refusal in (FULL, None):
        driver.node.publishing.confirm_entry(records.ConfirmEntry(driver.one.number, 1, refusal=refusal), None)
    driver.step(Turn())
    assert driver.said(driver.one) == ["accepted", "refused E_STORE_FULL"]  # receipts leave first
