"""kill -9 under load, fifty times; `make crash KILLS=500` for more."""

from collections import Counter

from hardening.kills.broker import GROUP, Ledger, crash


def test_nothing_confirmed_is_lost_however_often_the_broker_is_killed() -> None:
    ledgers = crash(50, kills_per_store=10)
    assert sum(len(one.confirmed) for one in ledgers) > 100, "there was load"
    assert sum(len(one.committed) for one in ledgers) > 0
    assert sum(one.figures()["acknowledged"] for one in ledgers) > 100, "and what was acknowledged stayed so"


def test_the_ledger_notices() -> None:
    ledger = Ledger(confirmed={1, 2}, committed={1})
    ledger.seen["durable"] = Counter({1: 1})
    ledger.seen["groups"] = Counter({2 * GROUP: 1})
    ledger.unmarked.append(("durable", 1))
    assert len(ledger.problems()) == 4


def test_the_ledger_notices_what_comes_again_after_it_was_acknowledged() -> None:
    ledger = Ledger(finished={"durable": {1}, "groups": {3}})
    for name in ledger.finished:
        ledger.seen[name] = Counter({1: 1, 3: 1, 4: 1})
    for name, n in (("durable", 1), ("durable", 4), ("groups", 3)):
        ledger.saw(name, n, marked=True)
    assert ledger.came_again == [("durable", 1), ("groups", 3)], "4 was not acknowledged"
    assert any("1 was acknowledged and came again" in one for one in ledger.problems())
