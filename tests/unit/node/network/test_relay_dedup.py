"""Copies that were taken are recognised, or not taken for new, whatever is refused and whenever a broker restarts."""

from random import Random

import pytest
from hardening.support.transit_bench import Bench, message

from tidings.delivery.mailbox import Mailbox, Tries
from tidings.delivery.store import Note
from tidings.errors import StoreError
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.completions import Offer
from tidings.node.encoded_message import ID
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.network.relay_marks import RelayMarks


def id_of(ms: int, publisher: int = 1, counter: int = 0) -> bytes:
    return bytes(MessageId(publisher, 1, ms, counter))


def test_what_a_publisher_sends_in_order_is_known_to_be_new() -> None:
    seen = RelayDedup(slots=2, slot_ids=2)
    for ms in range(100):
        assert seen.prove_new(id_of(ms))
        seen.add(id_of(ms))
    assert id_of(99) in seen
    assert id_of(0) not in seen
    assert not seen.prove_new(id_of(0))


def test_what_is_late_is_known_to_be_new_while_nothing_newer_of_its_publisher_was_forgotten() -> None:
    seen = RelayDedup(slots=2, slot_ids=2)
    for ms in range(100):
        seen.add(id_of(ms, publisher=2))
    assert seen.prove_new(id_of(50, publisher=1))
    assert not seen.prove_new(id_of(50, publisher=2))


def test_marks_are_bounded_and_the_floor_stands_for_those_given_up() -> None:
    marks = RelayMarks(sources_max=4)
    for publisher in range(1, 6):
        marks.forget([id_of(publisher * 10, publisher)])
    assert not any(marks.prove_new(id_of(publisher * 10, publisher)) for publisher in range(1, 6))
    assert marks.prove_new(id_of(51, 5))
    assert (marks.prove_new(id_of(20, 9)), marks.prove_new(id_of(21, 9))) == (False, True)  # nobody has heard of 9
    again = RelayMarks(sources_max=4)
    notes = marks.notes(range(-1, 64))
    again.recover({note.key: note.value for note in notes})
    assert again.notes(range(-1, 64)) == notes


@pytest.mark.parametrize("seed", range(60))
def test_what_was_taken_is_never_taken_for_new(seed: int) -> None:
    rng = Random(seed)
    seen, disk, taken = RelayDedup(slots=3, slot_ids=2), dict[str, bytes](), set[bytes]()
    for _ in range(200):
        ids = [id_of(rng.randrange(300), rng.randrange(1, 4)) for _ in range(rng.randint(1, 5))]
        batch = [one for one in dict.fromkeys(ids) if one not in seen]
        for one in batch:
            seen.add(one)
        notes = [*seen.notes(), *seen.notes()] if batch else []
        fate = rng.random()
        if fate < 0.3:
            for one in batch:
                seen.discard(one)
        else:
            disk |= {note.key: note.value for note in notes}
            taken.update(batch)
        if fate > 0.9:
            seen = RelayDedup(slots=3, slot_ids=2)
            seen.recover(disk)
        assert not [one for one in taken if one not in seen and seen.prove_new(one)]


# --- with store-and-forward ---------------------------------------------------------------------------------------


def test_delivered_here_once_also_after_a_restart() -> None:
    bench = Bench()
    bench.relay(1, [1], message(7))
    assert bench.relays.told == []
    bench.turn()
    bench.relay(2, [1], message(7))
    bench.turn()
    assert (bench.relays.told, bench.store_and_forward.duplicates) == ([(1, "taken"), (2, "taken")], 1)
    again = Bench(bench.store)
    again.relay(3, [1], message(7))
    again.turn()
    assert (again.relays.told, again.store_and_forward.duplicates) == ([(3, "taken")], 1)
    assert any(isinstance(record, Note) for record in bench.records)


def test_what_may_have_been_taken_long_ago_is_delivered_with_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, given = Bench(dedup=RelayDedup(slots=2, slot_ids=2)), list[tuple[int, int]]()
    prepare = bench.service.prepare

    def noting(message: bytes, mailboxes: list[Mailbox], expires_ms: int, tries: Tries) -> Offer:
        given.append((int.from_bytes(message[18:20]), tries.given))
        return prepare(message, mailboxes, expires_ms, tries=tries)

    monkeypatch.setattr(bench.service, "prepare", noting)
    for tag, counter in enumerate([1, 3, 4, 5, 6, 7, 6, 1, 2, 8]):
        bench.relay(tag, [1], message(counter))
        bench.turn()
    # 6 is known, 1 came again long after, 2 is new and nobody can tell
    assert given == [(1, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (1, 1), (2, 1), (8, 0)]


def sent_elsewhere(counter: int) -> bytes:
    """A message whose publisher was connected to router 2 when it made the id."""
    id = MessageId(1, 2, 1, counter)
    return encode_message(Message(Destination("t"), {}, id=id, persistent=True))


def small(ranges_max: int = 1024) -> RelayDedup:
    return RelayDedup(slots=2, slot_ids=1, ranges_max=ranges_max)


def test_a_copy_is_recognised_by_its_number_when_its_id_is_long_forgotten() -> None:
    bench = Bench(dedup=small())
    for number in range(1, 21):
        bench.relay(number, [1], message(number), number=number)
        bench.turn()
    again = Bench(bench.store, dedup=small())
    for number in range(1, 21):
        again.relay(number, [1, 3], message(number), number=number)
    again.turn()
    assert again.store_and_forward.duplicates == 20
    assert again.relays.told == [(number, "taken") for number in range(1, 21)]
    assert len(again.store_and_forward) == 20  # what is for others goes on


def test_late_copies_with_new_numbers_are_delivered_without_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(dedup=small())
    given = noted_tries(bench, monkeypatch)
    for number in (1, 3, 4, 5, 6, 2):
        bench.relay(number, [1], message(number), number=number)
        bench.turn()
    assert given == [0] * 6
    bench.relay(7, [1], message(1), number=7, repeated=True)  # the publisher sends it again, at another broker
    bench.turn()
    assert given == [0] * 6 + [1]


def noted_tries(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often each message that is delivered here was given before."""
    given, prepare = list[int](), bench.service.prepare

    def noting(message: bytes, mailboxes: list[Mailbox], expires_ms: int, tries: Tries) -> Offer:
        given.append(tries.given)
        return prepare(message, mailboxes, expires_ms, tries=tries)

    monkeypatch.setattr(bench.service, "prepare", noting)
    return given


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("refused", [False, True])
def test_what_was_published_first_comes_after_what_was_published_again(
    monkeypatch: pytest.MonkeyPatch, *, restarted: bool, refused: bool
) -> None:
    """By another way, when the id is forgotten: its number is new, and it is marked all the same."""
    bench = Bench(dedup=small())
    if refused:
        bench.relay(1, [1], sent_elsewhere(1), number=2, repeated=True)
        bench.turn(error=StoreError("E_STORE_FULL", "no room"))
    bench.relay(2, [1], sent_elsewhere(1), number=2, repeated=True)
    bench.turn()
    for number in range(3, 9):
        bench.relay(number, [1], sent_elsewhere(number), number=number)
        bench.turn()
    if restarted:
        bench = Bench(bench.store, dedup=small())
    given = noted_tries(bench, monkeypatch)
    bench.relay(10, [1], sent_elsewhere(1), number=1)
    bench.relay(11, [1], sent_elsewhere(9), number=9)
    bench.turn()
    assert given == [1, 0]


def test_what_was_published_again_here_comes_from_where_it_was_published_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.store_and_forward.published_again(sent_elsewhere(1)[ID])
    bench.turn()
    bench = Bench(bench.store)
    given = noted_tries(bench, monkeypatch)
    for number in (1, 2):
        bench.relay(number, [1], sent_elsewhere(number), number=number)
    bench.turn()
    assert given == [1, 0]


def test_what_was_published_here_and_comes_again_from_elsewhere_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    given = noted_tries(bench, monkeypatch)
    bench.relay(1, [1], message(1), number=1, repeated=True)  # its id says that its publisher was connected here
    bench.relay(2, [1], sent_elsewhere(1), number=2, repeated=True)
    bench.service.publish_dedup.recent.add(sent_elsewhere(2)[ID])
    bench.relay(3, [1], sent_elsewhere(2), number=3, repeated=True)
    bench.turn()
    assert given == [1, 0, 1]


@pytest.mark.parametrize("message_id", [7, 8])
def test_a_number_that_was_refused_is_not_taken(message_id: int) -> None:
    bench = Bench(dedup=small())
    bench.relay(1, [1], message(7), number=1)
    bench.turn(error=StoreError("E_STORE_FULL", "no room"))
    bench.relay(2, [1], message(message_id), number=1)
    bench.turn()
    assert bench.store_and_forward.duplicates == 0
    assert bench.relays.told == [(1, "E_STORE_FULL"), (2, "taken")]


def test_a_repetition_under_another_number_leaves_no_gap() -> None:
    bench = Bench()
    bench.relay(1, [1], message(7), number=1)
    bench.turn()
    bench.relay(2, [1], message(7), number=2, repeated=True)
    bench.relay(3, [1], message(8), number=3)
    bench.turn()
    bench.relay(4, [1], message(9), number=2)
    bench.turn()
    assert bench.store_and_forward.duplicates == 2
