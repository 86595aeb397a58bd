"""Any text as a selector: an error with its place, or a condition on which tree, constraints and kernel agree.

Half of the texts are written by the grammar, large ones among them; half of those, and all others, have bytes changed.
What a text costs is CPU time: to read it into what a matcher takes, and to decide it for a message, three ways.
"""

import time
from collections.abc import Callable
from random import Random
from typing import TypeVar

from hardening.contracts.matcher import NAMES, PATTERNS, SELECTORS, random_message
from hardening.fuzz.mutate import mutated
from tidings.errors import SelectorError
from tidings.kernel.codec import MessageBatch, Program, encode_messages
from tidings.matching.indexed import IndexedMatcher
from tidings.matching.matcher import per_message
from tidings.model.selector import Selector

SECONDS_MAX = 5e-3  # to decide one message
NUMBERS = ("0", "1", "-1", "2.5", "1e3", "7L", "0x7f", "9223372036854775807", "9223372036854775808", "1e400", "0.1f")
TEXTS = ("''", "'a'", "'ab'", "'it''s'", "'ä'", "'a.b'", "'1'", "'true'")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
SPECIAL = ("JMSPriority", "JMSType", "JMSMessageID", "JMSTimestamp", "JMSDeliveryMode", "missing")

A = TypeVar("A")
T = TypeVar("T")


class Selectors:
    def __init__(self) -> None:
        self.read = 0
        self.slowest = 0.0  # seconds to decide one message
        self.slowest_read = 0.0
        self._bytes = [one.encode() for one in SELECTORS]

    def text(self, rng: Random) -> str:
        made = rng.choice(SELECTORS) if rng.random() < 0.3 else condition(rng, rng.choice((1, 2, 3, 5)))
        if rng.random() < 0.01:
            joint = rng.choice((" AND ", " OR ", " + ", " = "))
            made = joint.join([made] * rng.randrange(2, 200))
        if rng.random() < 0.5:
            made = mutated(rng, made.encode(), self._bytes).decode(errors="replace")
        return made

    def run(self, seed: int, number: int) -> bool:
        """Parses one mutated text; returns True if it is a valid selector."""
        rng = Random(f"{seed}.{number}")
        text = self.text(rng)
        began = time.thread_time()
        try:
            selector = Selector(text)
            predicate, program = selector.predicate, selector.program
        except SelectorError as error:
            if not 0 <= (error.position or 0) <= len(text):
                raise AssertionError(f"{error} of {text!r}") from error
            return False
        self.slowest_read = max(self.slowest_read, time.thread_time() - began)
        self.read += 1
        assert Selector(str(selector)) == selector, f"{text!r} is written as {selector}"
        machine, matcher = Program(program), IndexedMatcher()
        matcher.add(1, predicate)
        for message in (random_message(rng) for _ in range(3)):
            batch = MessageBatch.from_messages(encode_messages([message]))
            meant = self._timed(selector.matches, message.attributes())
            (ran,) = self._timed(machine.evaluate, batch)
            (found,) = per_message(self._timed(matcher.match, batch))
            assert (ran, bool(found)) == (meant, meant is True), f"{text!r} of {message}: {meant}, {ran}, {found}"
        return True

    def _timed(self, decide: Callable[[A], T], of: A) -> T:
        """Measures the decision; a slow one is repeated, as something else may have taken the time."""
        took = SECONDS_MAX
        for _ in range(3):
            began = time.thread_time()
            decided = decide(of)
            took = min(took, time.thread_time() - began)
            if took < SECONDS_MAX:
                break
        self.slowest = max(self.slowest, took)
        return decided


def condition(rng: Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return _test(rng)
    inner = condition(rng, depth - 1)
    match rng.randrange(6):
        case 0:
            return f"NOT {inner}"
        case 1:
            return f"({inner})"
        case 2 | 3:
            return f"{inner} AND {condition(rng, depth - 1)}"
        case _:
            return f"{inner} or {condition(rng, depth - 1)}"


def _test(rng: Random) -> str:
    name, negated = rng.choice((*NAMES, *SPECIAL)), rng.choice(("", "NOT "))
    match rng.randrange(7):
        case 0:
            return f"{name} {negated}IN ({', '.join(_literal(rng) for _ in range(rng.choice((1, 2, 3, 30))))})"
        case 1:
            escape = rng.choice(("", " ESCAPE '\\'", " escape '!'"))
            return f"{name} {negated}like '{rng.choice(PATTERNS)}'{escape}"
        case 2:
            return f"{name} IS {negated}NULL"
        case 3:
            return f"{_sum(rng, 1)} {negated}BETWEEN {_sum(rng, 1)} AND {_literal(rng)}"
        case 4:
            return rng.choice((name, "TRUE", "false"))
        case _:
            return f"{_sum(rng, 2)} {rng.choice(COMPARISONS)} {_sum(rng, 2)}"


def _sum(rng: Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.6:
        return rng.choice(NAMES) if rng.random() < 0.5 else _literal(rng)
    return f"{_sum(rng, depth - 1)} {rng.choice('+-*/')} {rng.choice(('', '-', '('))}{_sum(rng, depth - 1)}"


def _literal(rng: Random) -> str:
    return rng.choice((*NUMBERS, *TEXTS, "TRUE"))
