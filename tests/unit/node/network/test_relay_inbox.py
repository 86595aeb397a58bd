"""Copies that come by links while the store refuses them: a transit with its journal, flushed by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidings.delivery.store import Record, Stored
from tidings.errors import StoreError, TidingsError, UsageError
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import Forwarder
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.completer import Completer
from tidings.node.completions import Copy
from tidings.node.effects import Persist
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.copy_numbers import CopyNumbers, decode_item
from tidings.node.network.relay_inbox import RelayInbox
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.settings import NodeSettings

FULL = StoreError("E_STORE_FULL", "no room")
LINK, ROUTER = 9, 3


def message(counter: int) -> bytes:
    return encode_message(Message(Destination("t"), id=MessageId(1, 1, 1, counter), persistent=True))


class Receiver:
    """A broker that keeps what it gets by a link for a router behind it."""

    def __init__(self) -> None:
        plane, self.journal = Forwarder(), Journal()
        outbox = AnswerBatch()
        service = MailboxService(plane, self.journal, Backpressure(plane), NodeSettings(), outbox)
        store_and_forward = StoreAndForward(plane, self.journal, service, 1)
        self.records: list[Record] = []
        self.broken: list[str] = []
        self.waits: list[str | None] = []
        self.relay_inbox = RelayInbox(
            store_and_forward,
            lambda _, error: self.broken.append(error.code),
            lambda _, error: self.waits.append(None if error is None else error.code),
        )
        self.acks: list[int] = []
        unused: Any = None
        network: Any = SimpleNamespace(store_and_forward=store_and_forward, relay_inbox=self.relay_inbox)
        parts = unused, unused, unused, unused, unused
        self.completer = Completer(self.journal, outbox, service, *parts, network, None)

    def arrive(self, *tags: int) -> None:
        for tag in tags:
            self.relay_inbox.relayed(0, LINK, Copy(5, tag, CopyNumbers(2, 0, False, {ROUTER: tag}), 0, message(tag)))

    def turn(self, error: TidingsError | None = None) -> None:
        """As a node does: what was gathered is written, what is stored acknowledged, what waits perhaps tried again."""
        while flushed := self.completer.flush():
            self.finish(flushed[0], error)
        self.settle()

    def finish(self, persist: Persist, error: TidingsError | None = None) -> None:
        self.records += () if error else persist.records
        self.completer.finished(persist.ticket, error)

    def settle(self) -> None:
        self.acks += self.relay_inbox.take_acks().get(LINK, [])
        self.relay_inbox.settle(0)

    def stored(self) -> list[bytes]:
        return [decode_item(one.message_bytes)[0] for one in self.records if isinstance(one, Stored)]


def test_a_store_that_refuses_does_not_break_the_link() -> None:
    receiver = Receiver()
    receiver.arrive(1, 2)
    receiver.turn(FULL)
    assert (receiver.broken, receiver.acks, receiver.waits) == ([], [], ["E_STORE_FULL"])


def test_what_was_refused_is_tried_again_in_order_and_acknowledged_once() -> None:
    receiver = Receiver()
    receiver.arrive(1, 2)
    receiver.turn(FULL)
    receiver.arrive(3)
    receiver.turn()
    assert receiver.stored() == []  # nothing overtakes what was refused
    for error in (FULL, None):
        receiver.relay_inbox.tick()
        receiver.settle()
        receiver.arrive(*([4] if error is None else []))
        receiver.turn(error)
    receiver.turn()
    receiver.turn()
    assert receiver.stored() == [message(tag) for tag in (1, 2, 3, 4)]
    assert receiver.acks == [1, 2, 3, 4]
    assert receiver.waits == ["E_STORE_FULL", None]  # once for each state, not for each refusal
    receiver.arrive(5)
    receiver.turn()
    assert receiver.acks == [1, 2, 3, 4, 5]


def test_one_is_tried_before_the_others() -> None:
    receiver = Receiver()
    receiver.arrive(1, 2, 3)
    receiver.turn(FULL)
    receiver.relay_inbox.tick()
    receiver.settle()
    (persist,) = receiver.completer.flush()
    assert len([one for one in persist.records if isinstance(one, Stored)]) == 1


def test_what_is_gathered_behind_it_does_not_overtake_it_either() -> None:
    receiver = Receiver()
    receiver.arrive(1)
    (persist,) = receiver.completer.flush()
    receiver.arrive(2)
    receiver.finish(persist, FULL)
    receiver.turn()
    assert (receiver.stored(), receiver.acks) == ([], [])
    assert receiver.journal.pending_bytes == 0
    receiver.relay_inbox.tick()
    receiver.settle()
    receiver.turn()
    receiver.turn()
    assert receiver.stored() == [message(1), message(2)]
    assert receiver.acks == [1, 2]


def test_a_lost_link_takes_along_what_waits() -> None:
    receiver = Receiver()
    receiver.arrive(1)
    receiver.turn(FULL)
    receiver.arrive(2)
    receiver.relay_inbox.forget(LINK)
    receiver.relay_inbox.tick()
    receiver.settle()
    receiver.turn()
    assert receiver.stored() == []
    receiver.arrive(1, 2)  # sent again by the next one
    receiver.turn()
    assert receiver.acks == [1, 2]


def test_what_was_under_way_then_is_not_acknowledged_to_the_next_link() -> None:
    receiver = Receiver()
    receiver.arrive(1)
    (persist,) = receiver.completer.flush()
    receiver.relay_inbox.forget(LINK)
    receiver.arrive(7)
    receiver.finish(persist)
    receiver.turn()
    assert receiver.acks == [7]


@pytest.mark.parametrize("tags", [(1,), (1, 2)])
def test_what_no_store_can_keep_breaks_the_link(tags: tuple[int, ...]) -> None:
    receiver = Receiver()
    receiver.arrive(*tags)
    receiver.turn(UsageError("E_STORE_BATCH", "too large"))
    assert receiver.broken == ["E_STORE_BATCH"] * len(tags)


def test_what_is_gathered_of_a_lost_link_does_not_overtake_what_is_sent_again() -> None:
    receiver = Receiver()
    receiver.arrive(1)
    (persist,) = receiver.completer.flush()
    receiver.arrive(2)
    receiver.relay_inbox.forget(LINK)
    receiver.arrive(1, 2)  # by its next life
    receiver.finish(persist, FULL)
    receiver.turn()
    assert receiver.stored() == [message(1), message(2)]
    assert receiver.acks == [1, 2]
