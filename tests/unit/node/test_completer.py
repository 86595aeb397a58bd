"""Each completion is carried out, in order, whatever becomes of the others."""

from types import SimpleNamespace
from typing import Any, get_args

import pytest

from tidings.errors import StoreError, TidingsError
from tidings.node import completions as records
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.completer import Completer
from tidings.node.completions import AnswerRequest, Completion
from tidings.node.mailboxes.journal import Journal
from tidings.node.requests import Done

FULL = StoreError("E_STORE_FULL", "no space")


def members(union: object) -> set[type]:
    """Those of a union, and of the unions in it."""
    return {inner for one in get_args(union) for inner in (members(one) or {one})}


# Completions without a call: another completion of the batch reports the refusal; a remembered entry needs nothing.
WITHOUT_CALLS = {("CarryEvent", False), ("ForwardMessage", False), ("RememberEntry", True)}


class _Part:
    """Stands for every part of a node, and notes each call."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return _Part(self._calls)

    def __call__(self, *arguments: object) -> Any:
        self._calls.append(repr(arguments))


@pytest.mark.parametrize("error", [None, FULL])
@pytest.mark.parametrize("completion", sorted(members(Completion), key=str))
def test_each_completion_is_carried_out(completion: type, error: TidingsError | None) -> None:
    calls: list[str] = []
    part: Any = _Part(calls)
    inner = {"then": records.ConfirmHandOver("Trade", b"tag")}  # of another completion
    fields = [inner.get(name, part) for name in getattr(completion, "__match_args__", ())]
    Completer(Journal(), *[part] * 9).complete(completion(*fields), error)
    assert bool(calls) == ((completion.__name__, error is None) not in WITHOUT_CALLS)


def test_nothing_else_is() -> None:
    part: Any = _Part([])
    other: Any = "not a completion"
    with pytest.raises(AssertionError, match="not a completion"):
        Completer(Journal(), *[part] * 9).complete(other, None)


@pytest.mark.parametrize("error", [None, FULL])
def test_all_are_carried_out_even_if_one_raises(error: StoreError | None) -> None:
    told: list[int] = []

    def answer_with(connection: int, done: Done, error: TidingsError | None) -> None:
        told.append(done.receipt)
        if done.receipt in (1, 2):
            raise ValueError(done.receipt)

    outbox: Any = SimpleNamespace(answer_with=answer_with)
    unused: Any = None
    completer = Completer(Journal(), outbox, unused, unused, unused, unused, unused, unused, None, None)
    with pytest.raises(ValueError, match="2"):
        completer.complete_all([AnswerRequest(1, Done(receipt)) for receipt in range(4)], error)
    assert told == [0, 1, 2, 3]


def test_what_needs_no_write_is_carried_out_at_once() -> None:
    outbox, journal = AnswerBatch(), Journal()
    outbox.connected.add(1)
    unused: Any = None
    completer = Completer(journal, outbox, unused, unused, unused, unused, unused, unused, None, None)
    journal.then(AnswerRequest(1, Done(7)))
    assert completer.flush() == []
    assert [one.answer for one in outbox.take() if hasattr(one, "answer")] == [Done(7)]
