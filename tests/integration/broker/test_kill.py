"""kill -9 under load, fifty times; `make crash KILLS=500` for more."""

import asyncio
from pathlib import Path

import pytest
from hardening.histories import Delivery
from hardening.kills.broker import crash
from hardening.kills.campaign import rounds
from hardening.kills.ledger import GROUP, Ledger
from hardening.kills.spoiled import Defect, judged


def test_nothing_confirmed_is_lost_however_often_the_broker_is_killed() -> None:
    ledgers = crash(50, kills_per_store=10)
    assert sum(len(one.confirmed) for one in ledgers) > 100, "there was load"
    assert sum(len(one.committed) for one in ledgers) > 0
    assert sum(one.figures()["acknowledged"] for one in ledgers) > 100, "and what was acknowledged stayed so"


def test_the_ledger_notices() -> None:
    ledger = Ledger(confirmed={1, 2}, committed={1})
    ledger.saw("durable", 1, marked=False)
    ledger.saw("durable", 1, marked=False, life=1)
    ledger.saw("groups", 2 * GROUP, marked=False)
    assert ledger.problems() == [
        "durable: 1 came again without a mark",
        "durable: 2 was confirmed and is lost",
        "transaction 2 came in part",
        "transaction 1 was committed and is lost",
    ]


def test_the_ledger_notices_what_overtakes() -> None:
    ledger = Ledger(ways={1: "p", 2: "p", 3: "q", 4: "p"})
    for n in (2, 3, 1, 4, 2):
        ledger.saw("durable", n, marked=n == 2)
    assert ledger.problems() == ["durable: 1 came behind 2 of the same publisher"]


def test_the_ledger_notices_what_comes_again_after_it_was_acknowledged() -> None:
    ledger = Ledger(finished={"durable": {1}, "groups": {3}})
    for name in ledger.finished:
        for n in (1, 3, 4):
            ledger.given.setdefault(name, []).append(Delivery(n, 0, n, 1, n))
    for name, n in (("durable", 1), ("durable", 4), ("groups", 3)):
        ledger.saw(name, n, marked=True)
    assert ledger.came_again == [("durable", 1), ("groups", 3)], "4 was not acknowledged"
    assert any("1 was acknowledged and came again" in one for one in ledger.problems())


@pytest.mark.parametrize(
    ("defect", "noticed"),
    [
        (Defect.NONE, ""),
        (Defect.REPEATED, "came again without a mark"),
        (Defect.SWAPPED, "came behind"),
        (Defect.LEFT_OUT, "is lost"),
    ],
)
def test_the_judge_sees_what_a_proxy_spoils(defect: Defect, noticed: str, tmp_path: Path) -> None:
    """Between broker processes that are killed and a consumer is a proxy that spoils a few deliveries."""
    problems = asyncio.run(judged(tmp_path, defect))
    if noticed:
        assert any(noticed in one for one in problems), problems[:5]
    else:
        assert problems == []


def test_a_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    ran: list[int] = []

    def run(number: int) -> dict[str, int]:
        ran.append(number)
        if number == 2 and len(ran) == 3:
            raise AssertionError("ended")
        return {"confirmed": number}

    with pytest.raises(AssertionError):
        rounds("kills", 7, 4, run, folder=tmp_path)
    assert rounds("kills", 7, 4, run, folder=tmp_path) == {"confirmed": 6}
    assert ran == [0, 1, 2, 2, 3]
    assert list(tmp_path.iterdir()) == [], "it is done"
