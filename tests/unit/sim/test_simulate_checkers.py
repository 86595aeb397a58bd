"""Each checker of the simulation notices the fault it is there for: a method is broken, and a seed must fail by it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hardening.simulate.run import run

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import Consumer, Mailbox
from tidings.delivery.store import Recovered
from tidings.node.clients.idempotent_commit import IdempotentCommit
from tidings.node.clients.publish_dedup import PublishDedup
from tidings.node.completions import Outcome
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.relay_dedup import RelayDedup
from tidings.routing.bdrp.scheme import Bdrp

PLAIN = {"scheme": "bdrp", "tracking": "none", "moment": "any"}
WORST = {**PLAIN, "moment": "worst"}
UNWRITTEN = {**PLAIN, "moment": "unwritten"}


def first_failure(seeds: Sequence[int], forced: dict[str, str]) -> str:
    for seed in seeds:
        try:
            run(seed, **forced)
        except AssertionError as error:
            return str(error)
    return ""


def test_acknowledgements_that_are_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MailboxService, "finished", lambda self, mailbox, seqs: None)
    assert first_failure((0, 1), PLAIN).startswith("acked-stays-acked: ")


def test_acknowledged_messages_that_come_again_with_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge, numbers = Mailbox.acknowledge, count(1)

    def forgetful(self: Mailbox, consumer: Consumer, tags: Sequence[int]) -> list[int]:
        back = [tag for tag in tags if tag in consumer.unacknowledged and next(numbers) % 20 == 0]
        for place in self.reject(consumer, back):
            self._note(place, spared=1)
            self.put_back(place)
        return acknowledge(self, consumer, [tag for tag in tags if tag not in back])

    monkeypatch.setattr(Mailbox, "acknowledge", forgetful)
    assert first_failure((0, 1), PLAIN).startswith("acked-stays-acked: ")


def test_what_a_consumer_went_away_with_and_nobody_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    detach = Mailbox.detach

    def careless(self: Mailbox, consumer: Consumer) -> list[BacklogPosition]:
        self.acknowledge(consumer, list(consumer.unacknowledged)[1:])
        return detach(self, consumer)

    monkeypatch.setattr(Mailbox, "detach", careless)
    assert first_failure((2, 3, 4), PLAIN).startswith("unacked-comes-again: ")


def test_more_than_a_consumer_has_credit_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Consumer, "ready", property(lambda self: self.active and self.room_bytes > 0))
    assert first_failure((2, 3), PLAIN).startswith("credit: ")


def test_interests_that_are_never_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bdrp, "unsubscribe", lambda self, now, predicate: [])
    assert "knows other interests of" in first_failure((2, 3), PLAIN)


def test_messages_that_are_sent_again_and_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublishDedup, "perhaps", lambda self, message_id, said: False)
    assert first_failure((4, 6), WORST).startswith(("once-only: ", "acked-stays-acked: "))


def test_messages_that_wait_after_a_crash_and_are_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PublishDedup, "recover", lambda self, messages: None)
    assert first_failure((7, 15), WORST).startswith("once-only: ")


def test_transactions_that_happen_as_often_as_they_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IdempotentCommit, "done", lambda self, key, number: False)
    assert first_failure((2, 4), WORST).startswith("once-only: ")


def test_brokers_that_forget_in_a_crash_what_they_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RelayDedup, "notes", lambda self: [])
    assert first_failure((2, 3), WORST).startswith("once-only: ")


def test_confirmations_of_what_is_not_written_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = MailboxService.accept

    def hasty(self: MailboxService, *arguments: Any, outcome: Outcome | None = None, **more: Any) -> bool:
        self._settle(outcome, None)
        return accept(self, *arguments, **more)

    monkeypatch.setattr(MailboxService, "accept", hasty)
    assert first_failure((5, 8), UNWRITTEN).startswith("nothing-lost: ")


def test_messages_that_come_again_after_a_crash_and_do_not_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = MailboxService.recover

    def forgetful(self: MailboxService, recovered: Recovered) -> None:
        recover(self, replace(recovered, attached=frozenset()))

    monkeypatch.setattr(MailboxService, "recover", forgetful)
    assert "again without a mark" in first_failure((4,), PLAIN)
