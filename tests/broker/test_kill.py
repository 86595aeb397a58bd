"""kill -9 under load, fifty times; `make crash KILLS=500` for more."""

from collections import Counter

from tidings.testing.crash import GROUP, Ledger, crash


def test_nothing_confirmed_is_lost_however_often_the_broker_is_killed() -> None:
    ledgers = crash(50, kills_per_store=10)
    assert sum(len(one.confirmed) for one in ledgers) > 100, "there was load"
    assert sum(len(one.committed) for one in ledgers) > 0


def test_the_ledger_notices() -> None:
    ledger = Ledger(confirmed={1, 2}, committed={1})
    ledger.seen["durable"] = Counter({1: 1})
    ledger.seen["groups"] = Counter({2 * GROUP: 1})
    ledger.unmarked.append(("durable", 1))
    assert len(ledger.problems()) == 4
