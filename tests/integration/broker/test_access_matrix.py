"""Users x operations x destinations x protocols, across two brokers, against a plain reference."""

import logging

import pytest
from hardening.access.matrix import MEANT, allowed, matrix

from tidings.broker.security.access import Rule
from tidings.model.destination import DestinationPattern


def test_every_protocol_answers_as_the_reference_says(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert matrix(1, seed=7) == 768
    assert [record.getMessage() for record in caplog.records] == []


def test_the_reference_itself() -> None:
    assert (False, "a.b") in MEANT["a.>"]
    assert (False, "a") not in MEANT["a.>"]
    assert (True, "a.b") in MEANT["queue:>"]
    assert not MEANT[">"] & MEANT["queue:>"]
    publish = frozenset({"publish"})
    rules = (
        Rule("bob", DestinationPattern.parse("a.b"), publish, allow=False),
        Rule("", DestinationPattern.parse("a.>"), publish, group="traders"),
    )
    assert [allowed(rules, user, "publish", "a.b") for user in ("alice", "bob", "carol")] == [True, False, False]
    assert allowed(rules, "bob", "publish", "a.c")
    assert not allowed(rules, "bob", "publish", "a.*")
