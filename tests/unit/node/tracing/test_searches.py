"""Questions that nobody answers: asked twice, then given up, whatever the clock does."""

import json
from collections.abc import Collection, Mapping

import pytest

from tidings.model.message_id import MessageId
from tidings.node.clients.session import Connection
from tidings.node.requests import Done, Failed, Trace
from tidings.node.tracing.searches import PATIENCE_MS, Tracing
from tidings.sim.broker import Everyone
from tidings.tracking.trace_answer import TraceAnswer, TraceVerdict

MESSAGE = MessageId(7, 2, 1_762_000_000_000, 5)


class SilentNeighbour:
    def __init__(self) -> None:
        self.datagrams = 0

    def topology(self) -> Mapping[int, Collection[int]]:
        return {1: (2,), 2: (1,)}

    def post(self, broker: int, letter: bytes) -> bool:
        self.datagrams += 1
        return True


@pytest.mark.parametrize("step_ms", [0, -3_600_000, 3_600_000], ids=["steady", "set back", "set forward"])
def test_an_answer_is_waited_for_as_long_whatever_the_clock_does(step_ms: int) -> None:
    neighbour, told, inquiries = SilentNeighbour(), list[Done | Failed](), list[int]()
    tracing = Tracing(
        1,
        neighbour,
        lambda _, number, *__: inquiries.append(number),
        lambda _, outcome: told.append(outcome),
        lambda *_: [],
    )
    now_ms, waited, asked = 10_000_000, 0, {0: 1}
    tracing.tick(now_ms)
    tracing.start(now_ms, Connection(3, Everyone(), "c"), Trace(9, MESSAGE))
    now_ms += step_ms
    while not told:
        now_ms, waited = now_ms + 100, waited + 100
        tracing.tick(now_ms)
        asked[waited] = neighbour.datagrams
        while inquiries:  # the origin could not be asked: what do we know ourselves?
            tracing.resolved(now_ms, inquiries.pop(), TraceAnswer(1, TraceVerdict.ABSENT))
    early = 1000 if step_ms > 0 else 0  # a step forward counts as no more than this
    second = next(when for when, letters in asked.items() if letters == 2)
    assert PATIENCE_MS - early <= second <= PATIENCE_MS + 100
    assert PATIENCE_MS <= waited - second <= PATIENCE_MS + 100
    [outcome] = told
    assert isinstance(outcome, Done)
    [unasked] = json.loads(str(outcome.fields["path"]))["unasked"]
    assert (unasked["broker"], unasked["reason"]) == (2, "no answer")
