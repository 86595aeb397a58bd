"""What waited for a broker that comes back with an empty store is held until its subscribers are back."""

from typing import Any

import pytest
from hardening.support.transit_bench import Bench, message

from tidings.delivery.mailbox import Mailbox, MailboxKind, Tries
from tidings.errors import StoreError
from tidings.model.codec import encode_predicate
from tidings.model.destination import DestinationPattern
from tidings.model.selector import Selector
from tidings.node.clients.subscription_plan import predicate_of
from tidings.node.completions import Offer
from tidings.node.network.held_copies import EmptyStoreOptions, EmptyStorePolicy

EVERYTHING = encode_predicate(predicate_of(DestinationPattern.parse("t"), Selector("")))
FULL = StoreError("E_STORE_FULL", "no room")


def replaced(policy: EmptyStorePolicy = EmptyStorePolicy.WAIT, **options: Any) -> Bench:
    """A broker with a new store."""
    bench = Bench(empty_store=EmptyStoreOptions(policy, 10_000), **options)
    bench.held.recover(bench.store.recover(), new=True)
    return bench


def arrive(bench: Bench, *numbers: int) -> None:
    for number in numbers:
        bench.relay(number, [1], message(number), number=number)
        bench.turn()


def durable(bench: Bench, name: str = "durable:d") -> Mailbox:
    return bench.service.mailboxes.make(name, MailboxKind.DURABLE, EVERYTHING)


def codes(bench: Bench, *nows: float) -> list[str]:
    return [report.code for now in nows for report in bench.held.tick(now)]


def test_what_waited_goes_to_subscribers_that_come_back_in_time() -> None:
    bench = replaced(load_max=2)
    arrive(bench, 1, 2, 3)
    assert bench.relays.told == [(1, "taken"), (2, "taken"), (3, "taken")]
    assert codes(bench, 1000, 2000) == ["E_EMPTY_STORE"]
    mailbox = durable(bench)
    bench.held.subscribed()
    arrive(bench, 4)  # in order: behind what waits
    assert (len(bench.held), len(mailbox.backlog)) == (4, 0)
    assert codes(bench, 11_000) == []
    bench.turn()
    assert (len(bench.held), len(mailbox.backlog)) == (0, 4)
    assert codes(bench, 12_000, 13_000) == ["HELD_RELEASED"]
    arrive(bench, 5)
    assert (len(bench.held), len(mailbox.backlog)) == (0, 5)
    assert len(bench.store.recover().waiting[mailbox.number]) == 5


def test_what_is_released_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, given = replaced(), list[int]()
    prepare = bench.service.prepare

    def noting(message: bytes, mailboxes: list[Mailbox], expires_ms: int, tries: Tries) -> Offer:
        given.append(tries.given)
        return prepare(message, mailboxes, expires_ms, tries=tries)

    monkeypatch.setattr(bench.service, "prepare", noting)
    arrive(bench, 1)
    codes(bench, 0, 10_000)
    bench.turn()
    codes(bench, 11_000)
    arrive(bench, 2)
    assert given == [1, 0]


def test_a_new_broker_takes_what_its_subscribers_want() -> None:
    bench = replaced()
    mailbox = durable(bench)
    bench.held.subscribed()
    arrive(bench, 1)
    assert (len(bench.held), len(mailbox.backlog), codes(bench, 0, 20_000)) == (0, 1, [])


def test_with_take_nothing_is_held() -> None:
    bench = replaced(EmptyStorePolicy.TAKE)
    arrive(bench, 1)
    assert (len(bench.held), bench.relays.told) == (0, [(1, "taken")])


def test_with_hold_it_waits_for_an_operator_through_restarts() -> None:
    bench = replaced(EmptyStorePolicy.HOLD)
    arrive(bench, 1, 2)
    assert codes(bench, 0, 1e9, 2e9) == ["E_EMPTY_STORE"]
    again = Bench(bench.store, empty_store=EmptyStoreOptions(EmptyStorePolicy.HOLD))
    arrive(again, 3)
    assert (len(again.held), codes(again, 0)) == (3, ["E_EMPTY_STORE"])
    confirmed = Bench(again.store, empty_store=EmptyStoreOptions(EmptyStorePolicy.TAKE))
    mailbox = durable(confirmed)
    assert codes(confirmed, 0, 1000) == ["E_EMPTY_STORE"]
    confirmed.turn()
    assert (len(confirmed.held), len(mailbox.backlog)) == (0, 3)


def test_a_copy_that_comes_again_is_held_once() -> None:
    bench = replaced()
    arrive(bench, 1, 1)
    assert (len(bench.held), bench.store_and_forward.duplicates) == (1, 1)


def test_what_cannot_be_stored_is_not_acknowledged_and_may_come_again() -> None:
    bench = replaced()
    bench.relay(1, [1], message(1), number=1)
    bench.turn(error=FULL)
    assert (bench.relays.told, len(bench.held)) == ([(1, "E_STORE_FULL")], 0)
    arrive(bench, 1)
    assert (bench.relays.told[1:], len(bench.held)) == ([(1, "taken")], 1)


def test_what_cannot_be_released_for_a_full_disk_stays_in_order() -> None:
    bench = replaced()
    arrive(bench, 1, 2)
    mailbox = durable(bench)
    codes(bench, 0, 10_000)
    wanted = bench.held.wanted()
    bench.held.loaded(0, dict(zip(wanted, bench.store.read(wanted), strict=True)))
    bench.flush(FULL)
    assert (len(bench.held), bench.held.wanted(), len(mailbox.backlog)) == (2, [], 0)
    codes(bench, 11_000)
    assert bench.held.wanted() == wanted
    bench.turn()
    assert (len(bench.held), len(mailbox.backlog)) == (0, 2)


def test_what_expired_meanwhile_and_what_is_damaged_is_dropped() -> None:
    bench = replaced()
    late = message(1, expiration_ms=100)
    bench.relay(1, [1], late, number=1)
    arrive(bench, 2, 3)
    codes(bench, 0, 10_000)
    bench.held.lost({bench.held.wanted()[1]})
    mailbox = durable(bench)
    bench.turn(now_ms=200)
    assert (len(bench.held), len(mailbox.backlog), bench.held.expired) == (0, 1, 1)


def test_an_operator_releases_what_is_held() -> None:
    bench = replaced(EmptyStorePolicy.HOLD)
    assert not bench.held.confirm(), "nothing is held"
    arrive(bench, 1, 2)
    mailbox = durable(bench)
    assert codes(bench, 1000, 100_000) == ["E_EMPTY_STORE"]
    assert bench.held.confirm()
    codes(bench, 101_000)
    bench.turn()
    assert (len(bench.held), len(mailbox.backlog)) == (0, 2)
    assert codes(bench, 102_000, 103_000) == ["HELD_RELEASED"]


@pytest.mark.parametrize("subscribed", [False, True])
def test_a_new_store_is_known_as_such_after_a_restart_until_somebody_subscribes(subscribed: bool) -> None:
    first = replaced()
    if subscribed:
        first.held.subscribed()
    first.turn()
    second = Bench(first.store, empty_store=EmptyStoreOptions(EmptyStorePolicy.HOLD))
    arrive(second, 1)
    assert len(second.held) == (0 if subscribed else 1)


def test_what_was_released_to_nobody_leaves_the_store_a_known_one() -> None:
    first = replaced()
    arrive(first, 1)
    codes(first, 0, 10_000)
    first.turn()
    assert codes(first, 11_000, 12_000) == ["HELD_RELEASED"]
    (persist,) = first.completer.flush(retry=True)
    first.store.append(persist.records)
    second = Bench(first.store, empty_store=EmptyStoreOptions(EmptyStorePolicy.HOLD))
    arrive(second, 2)
    assert len(second.held) == 0
