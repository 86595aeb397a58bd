"""Store-and-forward of persistent messages, by itself: a plane that records, a journal that is flushed by hand."""

import pytest
from hardening.support.transit_bench import Bench, message

from tidings.delivery.store import Acked, Stored
from tidings.errors import StoreError
from tidings.node.network.copy_numbers import CopyNumbers


def test_stored_then_sent_then_forgotten_when_taken() -> None:
    bench = Bench()
    bench.store_and_forward.routed({2: 2, 3: 2, 4: 4})
    bench.store_and_forward.link_up(2)
    bench.store_and_forward.link_up(4)
    bench.store_and_forward.accept(message(1), [2, 3, 4], 0)
    bench.store_and_forward.pump(0)
    assert bench.plane.sent == []  # not before it is safe
    bench.turn()
    assert sorted(bench.plane.take_sent()) == [(2, [2, 3]), (4, [4])]
    assert any(isinstance(record, Stored) for record in bench.records)
    bench.store_and_forward.taken(2, [1, 99])
    bench.turn()
    assert bench.waiting() == 1
    bench.store_and_forward.taken(4, [2])
    bench.turn()
    assert (bench.waiting(), len(bench.store_and_forward)) == (0, 0)
    assert isinstance(bench.records[-1], Acked)


def test_a_lost_link_brings_back_what_was_not_taken_in_order() -> None:
    bench = Bench()
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.link_up(2)
    for counter in (1, 2):
        bench.store_and_forward.accept(message(counter), [3], 0)
    bench.turn()
    bench.store_and_forward.link_down(2)
    bench.store_and_forward.accept(message(3), [3], 0)
    bench.turn()
    assert len(bench.plane.take_sent()) == 2
    bench.store_and_forward.routed({3: 5})
    bench.store_and_forward.link_up(5)
    bench.turn()
    counters = [sent[4][18:20] for sent in bench.plane.sent]
    assert counters == [bytes((0, counter)) for counter in (1, 2, 3)]
    assert {sent[0] for sent in bench.plane.sent} == {5}


def test_a_window_bounds_what_is_not_acknowledged() -> None:
    bench = Bench(window_bytes=100)
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.link_up(2)
    for counter in range(5):
        bench.store_and_forward.accept(message(counter, 90), [3], 0)
    bench.turn()
    assert len(bench.plane.take_sent()) == 1
    bench.store_and_forward.taken(2, [1])
    bench.turn()
    assert len(bench.plane.take_sent()) == 1
    bench.plane.full.add(2)
    bench.store_and_forward.taken(2, [2])
    bench.turn()
    assert bench.plane.take_sent() == []
    bench.plane.full.clear()
    bench.turn()
    assert len(bench.plane.take_sent()) == 1


def test_after_a_restart_the_store_brings_back_what_is_in_transit() -> None:
    first = Bench()
    for counter in range(3):
        first.store_and_forward.accept(message(counter), [3, 4], 0)
    first.turn()
    second = Bench(first.store)
    assert len(second.store_and_forward) == 3
    second.store_and_forward.routed({3: 2, 4: 2})
    second.store_and_forward.link_up(2)
    second.turn()
    assert second.plane.take_sent() == [(2, [3, 4])] * 3
    second.store_and_forward.taken(2, [1, 2, 3])
    second.turn()
    assert second.waiting() == 0


def test_what_memory_has_no_room_for_comes_from_the_store() -> None:
    bench = Bench(memory_bytes_max=100, window_bytes=1 << 20)
    for counter in range(6):
        bench.store_and_forward.accept(message(counter, 60), [3], 0)
    bench.turn()
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.link_up(2)
    for _ in range(6):
        bench.turn()
    assert [sent[4] for sent in bench.plane.sent] == [message(counter, 60) for counter in range(6)]


def test_what_cannot_be_stored_is_not_acknowledged_and_may_come_again() -> None:
    bench = Bench()
    for tag in (1, 2):
        bench.relay(tag, [1, 3], message(7))
        bench.turn(error=StoreError("E_STORE_FULL", "no room"))
    assert bench.relays.told == [(1, "E_STORE_FULL"), (2, "E_STORE_FULL")]
    assert bench.store_and_forward.duplicates == 0
    assert len(bench.store_and_forward) == 0


def test_what_went_in_circles_rests_before_it_is_tried_again() -> None:
    bench = Bench()
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.link_up(2)
    bench.relay(1, [3], message(1), hops=0)
    bench.turn()
    assert (bench.plane.take_sent(), bench.store_and_forward.no_hops) == ([], 1)
    bench.store_and_forward.unpark()
    bench.turn(-500_000)  # the clock on the wall was set back meanwhile
    assert bench.plane.take_sent() == [(2, [3])]


def test_each_link_costs_one_hop() -> None:
    bench = Bench(hops_max=32)
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.link_up(2)
    bench.store_and_forward.accept(message(1), [3], 0)
    bench.relay(2, [3], message(2), hops=31)
    bench.turn()
    assert [hops for _, _, hops, *_ in bench.plane.sent] == [31, 30]  # that it may cross after this one


def test_too_late_is_too_late() -> None:
    bench = Bench()
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.accept(message(1, expiration_ms=100), [3], 100)
    bench.turn(50)
    bench.store_and_forward.link_up(2)
    bench.turn(150)
    assert (bench.plane.sent, bench.store_and_forward.expired) == ([], 1)
    bench.turn(150)
    assert bench.waiting() == 0


@pytest.mark.parametrize("error", [None, StoreError("E_STORE_FULL", "no room")])
def test_a_copy_of_what_is_on_its_way_to_disk_shares_its_fate(error: StoreError | None) -> None:
    bench = Bench()
    bench.relay(1, [1], message(7))
    (persist,) = bench.completer.flush()
    bench.relay(2, [1], message(7))
    assert bench.completer.flush() == []
    assert bench.relays.told == []  # whoever sent it must keep it
    bench.completer.finished(persist.ticket, error)
    bench.turn()
    fates = ["taken", "taken"] if error is None else ["E_STORE_FULL", "E_STORE_IO"]
    assert bench.relays.told == [*enumerate(fates, 1)]


def test_what_was_refused_is_not_remembered_by_the_next_batch() -> None:
    bench = Bench()
    bench.relay(1, [1], message(7))
    (persist,) = bench.completer.flush()
    bench.relay(2, [1], message(8))
    bench.completer.finished(persist.ticket, StoreError("E_STORE_FULL", "no room"))
    bench.turn()
    assert bench.relays.told == [(1, "E_STORE_FULL"), (2, "taken")]
    again = Bench(bench.store)
    for counter in (7, 8):
        again.relay(counter, [1], message(counter))
    again.turn()
    assert again.store_and_forward.duplicates == 1  # of 8: 7 is taken now
    assert again.relays.told == [(7, "taken"), (8, "taken")]


def test_a_message_for_several_does_not_overtake_one_before_it() -> None:
    bench = Bench()
    bench.store_and_forward.routed({2: 5, 3: 5})
    bench.store_and_forward.link_up(5)
    bench.store_and_forward.accept(message(1), [3], 0)
    bench.store_and_forward.accept(message(2), [2, 3], 0)
    bench.store_and_forward.accept(message(3), [2], 0)
    bench.turn()
    assert [sent[4] for sent in bench.plane.sent] == [message(counter) for counter in (1, 2, 3)]


def test_what_expired_by_one_link_is_not_looked_for_by_another() -> None:
    bench = Bench()
    bench.store_and_forward.accept(message(1, expiration_ms=10), [2, 3], 10)
    bench.turn()
    bench.store_and_forward.routed({2: 2, 3: 3})
    for neighbour in (2, 3):
        bench.store_and_forward.link_up(neighbour)
    bench.turn(now_ms=20)
    assert (bench.plane.sent, len(bench.store_and_forward), bench.store_and_forward.expired) == ([], 0, 1)


def test_what_expires_before_it_can_be_sent_takes_no_room() -> None:
    bench = Bench()
    bench.store_and_forward.routed({2: 2})
    bench.store_and_forward.link_up(2)
    for counter, (router, expiration_ms) in enumerate([(2, 1000), (3, 1000), (3, 2000), (3, 0), (3, 1000)]):
        bench.store_and_forward.accept(message(counter, expiration_ms=expiration_ms or None), [router], expiration_ms)
    bench.turn()
    bench.store_and_forward.expire(999)
    bench.turn()
    assert (bench.waiting(), bench.store_and_forward.expired) == (5, 0)
    bench.store_and_forward.expire(1000)
    bench.turn()
    assert (bench.waiting(), len(bench.store_and_forward), bench.store_and_forward.expired) == (
        3,
        3,
        2,
    )  # the one to 2 is under way
    bench.store_and_forward.link_down(2)
    for now_ms in (1500, 2000):
        bench.store_and_forward.expire(now_ms)
    bench.turn()
    assert (bench.waiting(), bench.store_and_forward.expired) == (1, 4)


def test_of_many_that_wait_some_are_looked_at_in_each_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.node.network.store_and_forward.EXPIRE_MAX", 2)
    bench = Bench()
    for counter in range(5):
        bench.store_and_forward.accept(message(counter, expiration_ms=1000), [3], 1000)
    bench.turn()
    left = []
    for _ in range(3):
        bench.store_and_forward.expire(1000)
        left.append(len(bench.store_and_forward))
    assert left == [3, 1, 0]


def with_backlog(count: int, expiration_ms: int | None = None) -> Bench:
    bench = Bench()
    for counter in range(count):
        bench.store_and_forward.accept(message(counter, expiration_ms=expiration_ms), [3], 0)
    bench.turn()
    return bench


def test_what_is_newer_waits_until_all_that_was_stored_is_read() -> None:
    bench = with_backlog(5).restarted(load_max=2)
    bench.store_and_forward.accept(message(5), [3], 0)
    bench.turn()
    assert (bench.counters(), len(bench.store_and_forward)) == ([], 6)
    bench.reads = True
    bench.turn()
    bench.store_and_forward.accept(message(6), [3], 0)
    assert bench.counters() == [0, 1]
    for _ in range(3):
        bench.turn()
    assert bench.counters() == [0, 1, 2, 3, 4, 5, 6]


def test_what_the_store_brings_later_keeps_its_place() -> None:
    bench = with_backlog(4).restarted(load_max=3)
    first, second, third = bench.store_and_forward.wanted()
    bench.store_and_forward.loaded(dict(zip([second, third], bench.store.read([second, third]), strict=True)))
    bench.turn()
    assert (bench.counters(), bench.store_and_forward.wanted()) == ([], [first])
    bench.reads = True
    bench.turn()
    bench.turn()
    assert bench.counters() == [0, 1, 2, 3]


def test_what_is_damaged_holds_up_nothing() -> None:
    bench = with_backlog(3).restarted(load_max=1)
    for _ in range(3):
        bench.store_and_forward.lost(set(bench.store_and_forward.wanted()))
    bench.store_and_forward.accept(message(3), [3], 0)
    bench.turn()
    assert (bench.counters(), len(bench.store_and_forward), bench.waiting()) == ([3], 1, 1)


def test_what_is_damaged_and_was_read_before_holds_up_nothing() -> None:
    bench = Bench(memory_bytes_max=0)
    for counter in range(3):
        bench.store_and_forward.accept(message(counter), [3], 0)
    bench.turn()
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.link_up(2)
    bench.store_and_forward.pump(0)
    bench.store_and_forward.lost({bench.store_and_forward.wanted()[0]})
    bench.turn()
    assert (bench.counters(), bench.waiting()) == ([1, 2], 2)


def test_what_expires_behind_a_backlog_is_not_sent() -> None:
    bench = with_backlog(2).restarted(load_max=1)
    bench.store_and_forward.accept(message(2, expiration_ms=10), [3], 10)
    bench.store_and_forward.accept(message(3), [3], 0)
    bench.turn()
    bench.store_and_forward.expire(20)
    bench.reads = True
    for _ in range(3):
        bench.turn(20)
    assert (bench.counters(), bench.store_and_forward.expired) == ([0, 1, 3], 1)


def test_what_memory_has_no_room_for_is_read_a_page_at_a_time() -> None:
    bench = Bench(memory_bytes_max=0, load_max=2)
    for counter in range(5):
        bench.store_and_forward.accept(message(counter), [3], 0)
    bench.turn()
    bench.store_and_forward.routed({3: 2})
    bench.store_and_forward.link_up(2)
    sent = []
    for _ in range(3):
        bench.turn()
        sent.append(len(bench.plane.sent))
    assert (sent, bench.counters()) == ([2, 4, 5], [0, 1, 2, 3, 4])


def test_what_comes_back_from_a_lost_link_goes_before_what_is_newer() -> None:
    bench = Bench()
    bench.store_and_forward.routed({3: 2, 4: 2})
    bench.store_and_forward.link_up(2)
    for counter in range(3):
        bench.store_and_forward.accept(message(counter), [3, 4], 0)
    bench.turn()
    bench.plane.full.add(2)
    for counter in range(3, 6):
        bench.store_and_forward.accept(message(counter), [4], 0)
    bench.turn()
    bench.store_and_forward.taken(2, [1])
    bench.store_and_forward.link_down(2)
    bench.plane.full.clear()
    bench.plane.sent.clear()
    bench.store_and_forward.link_up(2)
    bench.turn()
    assert bench.counters() == [1, 2, 3, 4, 5]


def test_copies_keep_their_numbers_on_the_way_and_through_restarts() -> None:
    bench = Bench()
    bench.store_and_forward.numbering.begin(5)
    bench.store_and_forward.accept(message(1), [3, 4], 0)
    bench.store_and_forward.accept(message(2), [3], 0, repeated=True)
    bench.relay(1, [1, 3], message(3), number=17)
    bench.turn()
    again = bench.restarted()
    again.reads = True
    again.store_and_forward.numbering.begin(6)
    again.store_and_forward.accept(message(4), [3], 0)
    for _ in range(2):
        again.turn()
    assert again.plane.numbers == [
        CopyNumbers(1, 5, False, {3: 1}),
        CopyNumbers(1, 5, True, {3: 2}),
        CopyNumbers(2, 1 << 16, False, {3: 17}),
        CopyNumbers(1, 6, False, {3: 1}),
    ]
