"""Answers to clients, gathered during one turn of the node. Receipts of publications leave together."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from tidings.errors import TidingsError
from tidings.node.effects import Log, NodeEffect, Reply
from tidings.node.requests import Accepted, Answer, Done, Failed, Refused


class AnswerBatch:
    def __init__(self) -> None:
        self.connected: set[int] = set()  # answers to anybody else are dropped
        self._effects: list[NodeEffect] = []
        self._receipts: dict[int, list[int]] = {}
        self._told: set[int] = set()  # this turn, of a publication that was refused

    def answer(self, connection: int, answer: Answer) -> None:
        if connection in self.connected:
            self._effects.append(Reply(connection, answer))

    def answer_with(self, connection: int, done: Done, error: TidingsError | None) -> None:
        """This answer, or with the same receipt why the request failed."""
        self.answer(connection, done if error is None else Failed(done.receipt, error))

    def accepted(self, connection: int, receipt: int) -> None:
        if receipt:
            self._receipts.setdefault(connection, []).append(receipt)

    def refused(self, connection: int, receipt: int, error: TidingsError) -> None:
        """Report a refusal to a client that asked for no receipt: not of each message, since there may be thousands."""
        if receipt:
            self.answer(connection, Refused(receipt, error))
        elif connection not in self._told:
            self._told.add(connection)
            self.answer(connection, Failed(0, TidingsError(error.code, error.reason)))  # never fatal: all goes on

    def add(self, effect: NodeEffect) -> None:
        self._effects.append(effect)

    @contextmanager
    def told(self, event: str) -> Iterator[None]:
        """Around one of several things that all have to be done: if an internal error ends it, that is logged, and the
        others follow."""
        try:
            yield
        except Exception:  # noqa: BLE001  (it is logged)
            self.add(Log("ERROR", event, {"exception": traceback.format_exc()}))

    def take(self) -> list[NodeEffect]:
        if not (self._effects or self._receipts):
            return []
        receipts = [Reply(one, Accepted(tuple(all))) for one, all in self._receipts.items() if one in self.connected]
        effects = [*receipts, *self._effects]  # in this order: the other answer may be the last one that is heard
        self._effects, self._receipts = [], {}
        self._told.clear()
        return effects
