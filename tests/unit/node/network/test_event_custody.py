"""Persistent events that wait for others: in the store, in memory as far as there is room, on their way."""

from array import array
from types import SimpleNamespace

from tidings.delivery.store import Acked, MailboxAdded, Recovered, Stored, Waiting
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.completions import CarryEvent
from tidings.node.network.event_custody import KIND, EventCustody


class _Journal:
    """Everything is written when it is asked for."""

    def __init__(self) -> None:
        self.records: list[object] = []
        self.completions: list[CarryEvent] = []

    def change(self, record: object) -> None:
        self.records.append(record)

    def message(self, record: object, size: int) -> None:
        self.records.append(record)

    def then(self, completion: CarryEvent) -> None:
        self.completions.append(completion)

    def write(self, post: EventCustody) -> None:
        for seq, message in self.completions:
            post.add(seq, message)
        self.completions.clear()


class _Office:
    def __init__(self) -> None:
        self.seq = 0
        self.mailboxes = SimpleNamespace(take_number=lambda: 7)

    def take_seq(self) -> int:
        self.seq += 1
        return self.seq


def event(number: int, size: int = 10, expiration_ms: int | None = None) -> bytes:
    id = MessageId(1, 1, 1000, number)
    destination = Destination("@type.Trade.event")
    return encode_message(Message(destination, {}, bytes(size), id=id, persistent=True, expiration_ms=expiration_ms))


def post(window_bytes: int = 1000) -> tuple[EventCustody, _Journal]:
    journal = _Journal()
    return EventCustody(journal, _Office(), window_bytes), journal  # type: ignore[arg-type]


def test_an_event_is_stored_sent_and_forgotten_when_it_is_safe() -> None:
    waiting, journal = post()
    waiting.accept(event(1))
    assert journal.records == [MailboxAdded(7, KIND, KIND), Stored(1, event(1), (7,))]
    assert list(waiting.take(5)) == []  # not before it is safe
    journal.write(waiting)
    assert list(waiting.take(5)) == [event(1)]
    assert (list(waiting.take(5)), len(waiting)) == ([], 1)
    waiting.safe(event(1)[4:20], kept=False)
    assert (journal.records[-1], len(waiting)) == (Acked(7, (1,)), 0)


def test_an_event_that_is_published_again_while_it_is_under_way_takes_no_room() -> None:
    waiting, journal = post(window_bytes=150)
    waiting.accept(event(1))
    journal.write(waiting)
    assert list(waiting.take(5)) == [event(1)]
    waiting.accept(event(1))
    waiting.accept(event(2))
    journal.write(waiting)
    assert list(waiting.take(5)) == [event(2)]
    assert journal.records[-1] == Acked(7, (2,))
    waiting.safe(event(1)[4:20], kept=False)
    waiting.safe(event(2)[4:20], kept=False)
    assert journal.records[-2:] == [Acked(7, (1,)), Acked(7, (3,))]
    waiting.accept(event(3, 140))
    waiting.accept(event(4))
    journal.write(waiting)
    assert list(waiting.take(5)) == [event(3, 140)], "and what was under way has left its room"


def test_only_so_much_is_under_way_or_in_memory_and_the_rest_is_read_again() -> None:
    waiting, journal = post(window_bytes=1000)
    messages = {number: event(number, 600) for number in range(1, 6)}
    for message in messages.values():
        waiting.accept(message)
    journal.write(waiting)
    assert list(waiting.take(5)) == [messages[1], messages[2]]  # one more may begin while there is room
    assert waiting.wanted() == []
    waiting.safe(messages[1][4:20], kept=False)
    assert waiting.wanted() == [3, 4, 5]
    found = {3: messages[3], 4: messages[4], 99: b"of somebody else"}
    waiting.loaded(found)
    assert found == {99: b"of somebody else"}
    assert list(waiting.take(5)) == [messages[3]]


def test_what_was_stored_in_an_earlier_life_goes_on_and_what_expired_does_not() -> None:
    waiting, journal = post()
    box = MailboxAdded(3, KIND, KIND)
    stored = Waiting(array("Q", [11, 12]), array("B", [4, 4]))
    waiting.recover(Recovered((box,), {3: stored}, frozenset(), {}, {}, 12))
    assert (len(waiting), waiting.wanted()) == (2, [11, 12])
    waiting.loaded({11: event(1, expiration_ms=50), 12: event(2)})
    assert list(waiting.take(60)) == [event(2)]
    assert journal.records == [Acked(3, (11,))]
