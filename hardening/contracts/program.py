"""Contract of stack machines: accept, refuse and answer as `tidings.model.selector.program` does.

>>> from random import Random
>>> from tidings.kernel import codec
>>> check_program(codec.Program, Random(1), rounds=20)
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from hardening.contracts.codec import (
    NAMES,
    mutated,
    outcome,
    random_message,
    random_text,
    random_value,
)
from tidings.kernel.codec import MessageBatch, encode_messages
from tidings.model.reader import list_of, value_of
from tidings.model.selector.program import STACK_MAX, Code
from tidings.model.selector.program import SelectorProgram as Reference

DERIVED = ("JMSPriority", "JMSDeliveryMode", "JMSMessageID", "JMSTimestamp", "JMSType", "@topic", "missing")
PUSHES = (Code.CONST, Code.ATTR, Code.ATTR)
UNARY = (Code.NEG, Code.IN, Code.LIKE, Code.ISNULL, Code.NOT)
BINARY = tuple(code for code in Code if code not in PUSHES and code not in UNARY)


class SelectorMachine(Protocol):
    def evaluate(self, batch: MessageBatch) -> list[bool | None]: ...


def check_program(make: Callable[[bytes], SelectorMachine], rng: Random, rounds: int = 1) -> None:
    """Valid programs answer alike over random messages; broken ones are refused with the same code and position."""
    for _ in range(rounds):
        code = random_program(rng)
        messages = [random_message(rng) for _ in range(3)]
        machine = make(code)
        expected = [Reference(code).run(message.attributes()) for message in messages]
        assert machine.evaluate(MessageBatch.from_messages(encode_messages(messages))) == expected, code.hex()
        for data in (mutated(rng, code), rng.randbytes(rng.randrange(12))):
            mine, theirs = outcome(make, data), outcome(Reference, data)
            if isinstance(mine, tuple) or isinstance(theirs, tuple):
                assert mine == theirs, data.hex()


def random_program(rng: Random, size_max: int = 24) -> bytes:
    """A sound program: values are pushed while there is room, and at the end worked down to one."""
    out = bytearray()
    depth = 0
    for _ in range(rng.randrange(size_max)):
        choices = (PUSHES if depth < STACK_MAX else ()) + UNARY * (depth > 0) + BINARY * (depth > 1)
        depth += _emit(out, rng, rng.choice(choices))
    if depth == 0:
        depth += _emit(out, rng, Code.CONST)
    while depth > 1:
        depth += _emit(out, rng, rng.choice(BINARY))
    return bytes(out)


def _emit(out: bytearray, rng: Random, code: Code) -> int:
    out.append(code)
    match code:
        case Code.CONST:
            out += value_of(random_value(rng))
        case Code.ATTR:
            name = rng.choice((*NAMES, *DERIVED)).encode()
            out += bytes((len(name),)) + name
        case Code.IN:
            out += list_of(random_value(rng) for _ in range(rng.randrange(5)))
        case Code.LIKE:
            out += value_of(random_text(rng))
    return 1 if code in PUSHES else 0 if code in UNARY else -1
