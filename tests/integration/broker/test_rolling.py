"""Every network parameter can be changed broker by broker under load, or it is said why not; `make rolling` for all."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from hardening.kills.rolled_parameters import CHANGES, NOT_ROLLED, Change
from hardening.kills.rolling import CAMPAIGN, WANTS, Ledger, chosen, done, run

from tidings.broker.config.network import NetworkTable
from tidings.lab.machine import environment
from tidings.model.selector import Selector


def test_every_key_of_the_table_is_rolled_or_says_why_not() -> None:
    rolled = {change.key for change in CHANGES}
    assert rolled | NOT_ROLLED.keys() == {one.name for one in fields(NetworkTable)}
    assert not rolled & NOT_ROLLED.keys()
    assert len({change.name for change in CHANGES}) == len(CHANGES)


def test_values_really_change() -> None:
    assert all(change.old != change.new for change in CHANGES)


@pytest.mark.parametrize("number", range(len(WANTS)))
def test_the_oracle_and_the_selector_say_the_same(number: int) -> None:
    text, want = WANTS[number]
    selector = Selector(text)
    for x in range(7):
        for s in ("abc", "abd", "klm", "xyz"):
            assert selector.matches({"x": x, "s": s}) == want(x, s)


def ledger() -> Ledger:
    found = Ledger({"a": lambda x, s: x > 1})
    found.confirmed = {1: (2, ""), 2: (0, ""), 3: (5, "")}
    found.start("a")
    found.saw("a", 1, 2, "", marked=False)
    found.saw("a", 3, 5, "", marked=False)
    return found


@pytest.mark.parametrize(
    ("happens", "problem"),
    [
        (lambda one: one.saw("a", 3, 5, "", marked=True), ""),
        (lambda one: one.saw("a", 3, 5, "", marked=False), "twice without a mark"),
        (lambda one: one.saw("a", 2, 0, "", marked=False), "not asked for"),
        (lambda one: one.confirmed.update({4: (7, "")}), "missing"),
        (lambda one: one.confirmed.update({4: (1, "")}), ""),
    ],
)
def test_the_judge(happens: Callable[[Ledger], None], problem: str) -> None:
    found = ledger()
    assert found.due() == 2
    happens(found)
    assert [problem in text for text in found.problems()] == ([True] if problem else [])


def test_a_campaign_goes_on_where_it_ended(tmp_path: Path) -> None:
    results = tmp_path / "rolling.json"
    commit = environment()["commit"]
    records = [
        {"parameter": "a", "due": 3000, "wrong": 0, "commit": commit},
        {"parameter": "b", "due": 2999, "wrong": 0, "commit": commit},
        {"parameter": "c", "wrong": 1, "commit": commit},
        {"parameter": "d", "due": 3000, "wrong": 0, "commit": "another"},
    ]
    assert done(results, 3000) == set()
    results.write_text("".join(json.dumps({"what": CAMPAIGN, **one}) + "\n" for one in records))
    assert done(results, 3000) == {"a"}
    assert {change.key for change in chosen(["hops_max"])} == {"hops_max"}


def test_a_change_broker_by_broker_loses_nothing() -> None:
    hashes = Change("encoding_hashes", 7, 5, {"encoding": "vectors", "encoding_exact": False})
    figures = run(hashes, 500, seed=1)
    assert figures["due"] >= 500
    assert figures["kills"] > 0
