"""Evaluates selectors on encoded messages: those of queue consumers and browsers, and those of access rules.

The kernel runs them, with the budget that a message has for matching (docs/limits.md, "Cost of a message"). All who are
asked about a message in turn share it, so a queue with many consumers takes no longer than one matched message; a
selector that finds it used up does not accept the message, which stays for others. When one is asked about the same
message a second time, a new round has begun, with a new budget.

>>> from tidings.kernel.codec import encode_message
>>> from tidings.model.destination import Destination
>>> from tidings.model.message import Message
>>> cheap = accepts(Selector("price < 20"))
>>> cheap is not None and [cheap(encode_message(Message(Destination("q"), {"price": price}))) for price in (10, 30)]
[True, False]
>>> accepts(Selector("")) is None
True
"""

from collections.abc import Callable

from tidings.kernel.codec import MessageBatch, Program
from tidings.kernel.matcher import Budget
from tidings.model.selector import Selector
from tidings.routing.message_views import batch_of


def accepts(selector: Selector) -> Callable[[bytes], bool] | None:
    """True if an encoded message fulfils the selector; without a selector every message does."""
    if not selector.text.strip():
        return None
    program = Program(selector.program)
    return lambda message: _LAST.evaluate(program, message) is True


def steps_taken() -> int:
    """Of the budget of the message that was asked about last, about a nanosecond each."""
    return _LAST.steps


class LastMessage:
    """The message that was asked about last: decoded once for all selectors, with its budget."""

    def __init__(self) -> None:
        self._message: bytes | None = None
        self._batch: MessageBatch | None = None
        self._budget = Budget()
        self._asked: set[Program] = set()  # in this round

    @property
    def steps(self) -> int:
        return self._budget.taken

    def evaluate(self, program: Program, message: bytes) -> bool | None:
        if self._batch is None or message is not self._message:
            self._batch = batch_of(message)
            self._message = message
            self._begin_round()
        elif program in self._asked:
            self._begin_round()
        self._asked.add(program)
        return program.evaluate_one(self._batch, 0, self._budget)

    def _begin_round(self) -> None:
        self._budget = Budget()
        self._asked = set()


_LAST = LastMessage()
