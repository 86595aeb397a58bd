"""A selector as a program for a stack machine: what the kernel runs where constraints cannot decide.

`assemble` writes the bytes of docs/wire.md, "Program". `SelectorProgram` reads and runs them; it is the reference for
the kernel's machine. Every code takes a fixed number of values, so whether the stack runs empty or over is known when
the program is read, and running it checks nothing. Stores keep programs, so a code never changes its meaning: DIV drops
the fraction of ints, as `/` did in version 1 of the language; QUOT is what `/` means now.

>>> from tidings.model.selector.parser import parse
>>> code = assemble(parse("price > 2 * cost"))
>>> program = SelectorProgram(code)
>>> code.hex(" "), program.run({"price": 7, "cost": 3}), program.run({"price": 7})
('02 05 70 72 69 63 65 01 02 04 02 04 63 6f 73 74 06 0c', True, None)
"""

from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias, assert_never

from tidings.errors import CodecError, SelectorError
from tidings.model.constraint import Op
from tidings.model.like import Pattern
from tidings.model.predicate import PROGRAM_BYTES_MAX
from tidings.model.reader import LIST, STRING, Reader, list_of, value_of
from tidings.model.selector.operations import (
    Maybe,
    Properties,
    add,
    divide,
    divide_whole,
    multiply,
    negate,
    read,
    relate,
    remainder,
    subtract,
    truth,
)
from tidings.model.selector.syntax import (
    And,
    Between,
    Compare,
    Expression,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    Product,
    Signed,
    Sum,
    bounds,
)
from tidings.model.values import Value, equal

STACK_MAX = 64
"""Values on the stack of a running program."""


class Code(IntEnum):
    CONST = 1
    ATTR = 2
    NEG = 3
    ADD = 4
    SUB = 5
    MUL = 6
    DIV = 7
    EQ = 8
    NE = 9
    LT = 10
    LE = 11
    GT = 12
    GE = 13
    IN = 14
    LIKE = 15
    ISNULL = 16
    NOT = 17
    AND = 18
    OR = 19
    QUOT = 20
    REM = 21


_ARITHMETIC = {
    Operator.ADD: Code.ADD,
    Operator.SUB: Code.SUB,
    Operator.MUL: Code.MUL,
    Operator.DIV: Code.QUOT,
    Operator.REM: Code.REM,
    Operator.WHOLE: Code.DIV,
}
_UNARY = frozenset((Code.NEG, Code.IN, Code.LIKE, Code.ISNULL, Code.NOT))


def assemble(tree: Expression) -> bytes:
    """The program of a tree; a SelectorError if it breaks the limits of the machine."""
    assembler = _Assembler()
    assembler.add(tree)
    return bytes(assembler.code)


class _Assembler:
    def __init__(self) -> None:
        self.code = bytearray()
        self.depth = 0

    def _emit(self, node: Expression, code: Code, operand: bytes = b"") -> None:
        self.code.append(code)
        self.code += operand
        self.depth += _growth(code)
        if self.depth > STACK_MAX:
            raise SelectorError(
                "E_SELECTOR_LIMIT", "selector is nested too deep to be compiled", position=node.position
            )
        if len(self.code) > PROGRAM_BYTES_MAX:
            raise SelectorError("E_SELECTOR_LIMIT", "selector is too long to be compiled", position=node.position)

    def add(self, node: Expression) -> None:
        match node:
            case Identifier():
                name = node.name.encode()
                self._emit(node, Code.ATTR, bytes((len(name),)) + name)
            case Literal():
                self._emit(node, Code.CONST, value_of(node.value))
            case Signed():
                self.add(node.operand)
                if node.sign is Operator.SUB:
                    self._emit(node, Code.NEG)
                else:  # there is no code for it; x - 0 is x for every number, -0.0 too, and NULL for the rest
                    self._emit(node, Code.CONST, value_of(0))
                    self._emit(node, Code.SUB)
            case Sum() | Product():
                self.add(node.first)
                for operator, operand in node.rest:
                    self.add(operand)
                    self._emit(operand, _ARITHMETIC[operator])
            case Compare():
                self.add(node.left)
                self.add(node.right)
                self._emit(node, Code[node.op.name])
            case Between():
                self.add(bounds(node))
            case In():
                self.add(node.operand)
                self._emit(node, Code.IN, list_of([choice.value for choice in node.choices]))
            case Like():
                self.add(node.operand)
                self._emit(node, Code.LIKE, value_of(node.pattern.text))
            case IsNull() | Not():
                self.add(node.operand)
                self._emit(node, Code.NOT if isinstance(node, Not) else Code.ISNULL)
            case And() | Or():
                self.add(node.terms[0])
                for term in node.terms[1:]:
                    self.add(term)
                    self._emit(term, Code.AND if isinstance(node, And) else Code.OR)
            case _:
                assert_never(node)


def _growth(code: Code) -> int:
    """The change of the stack's depth."""
    if code <= Code.ATTR:
        return 1
    return 0 if code in _UNARY else -1


Operand: TypeAlias = Value | tuple[Value, ...] | Pattern | None


class SelectorProgram:
    """A program that has been read and found sound."""

    def __init__(self, code: bytes) -> None:
        if len(code) > PROGRAM_BYTES_MAX:
            raise _refused("E_CODEC_LIMIT", f"a program has at most {PROGRAM_BYTES_MAX} bytes", 0)
        self.instructions: list[tuple[Code, Operand]] = []
        reader, depth = Reader(code), 0
        while reader.position < reader.end:
            start = reader.position
            instruction = _read_instruction(reader)
            growth = _growth(instruction[0])
            if depth < 1 - growth:
                raise _refused("E_CODEC_PROGRAM", "stack underflow", start)
            depth += growth
            if depth > STACK_MAX:
                raise _refused("E_CODEC_PROGRAM", f"the stack grows beyond {STACK_MAX} values", start)
            self.instructions.append(instruction)
        if depth != 1:
            raise _refused("E_CODEC_PROGRAM", "a program must leave exactly one value on the stack", len(code))

    def run(self, properties: Properties) -> bool | None:
        stack: list[Maybe] = []
        for code, operand in self.instructions:
            if code is Code.CONST:
                assert not isinstance(operand, tuple | Pattern)
                stack.append(operand)
            elif code is Code.ATTR:
                assert isinstance(operand, str)
                stack.append(read(properties, operand))
            elif code in _UNARY:
                stack.append(_unary(code, operand, stack.pop()))
            else:
                b, a = stack.pop(), stack.pop()
                stack.append(_BINARY[code](a, b))
        return truth(stack.pop())


@lru_cache(maxsize=256)
def _program(code: bytes) -> SelectorProgram:
    return SelectorProgram(code)


def run(code: bytes, properties: Properties) -> bool | None:
    """Run a program given as bytes."""
    return _program(code).run(properties)


def _read_instruction(reader: Reader) -> tuple[Code, Operand]:
    start = reader.position
    number = reader.take(1, "a code")[0]
    if not Code.CONST <= number <= Code.REM:
        raise _refused("E_CODEC_PROGRAM", f"unknown instruction {number}", start)
    code = Code(number)
    match code:
        case Code.CONST:
            return code, reader.value()
        case Code.ATTR:
            return code, reader.name()
        case Code.IN:
            return code, _read_list(reader)
        case Code.LIKE:
            return code, Pattern.parse(str(reader.value((STRING,))))
        case _:
            return code, None


def _read_list(reader: Reader) -> tuple[Value, ...]:
    """The operand of IN, which in a program may stand in any order."""
    start = reader.position
    reader.demand(reader.take(1, "a list")[0] == LIST, "TYPE", "IN takes a list", start)
    return tuple([reader.value() for _ in range(reader.varint())])  # ends with the data at the latest


def _refused(code: str, reason: str, position: int) -> CodecError:
    return CodecError(code, reason, position=position)


def _unary(code: Code, operand: Operand, a: Maybe) -> Maybe:
    match code:
        case Code.NEG:
            return negate(a)
        case Code.ISNULL:
            return a is None
        case Code.NOT:
            return None if (known := truth(a)) is None else not known
        case Code.IN:
            assert isinstance(operand, tuple)
            return None if a is None else any(equal(a, choice) for choice in operand)
        case _:
            assert isinstance(operand, Pattern)
            return None if a is None else isinstance(a, str) and operand.matches(a)


def _and(a: Maybe, b: Maybe) -> bool | None:
    truths = truth(a), truth(b)
    return False if False in truths else None if None in truths else True


def _or(a: Maybe, b: Maybe) -> bool | None:
    truths = truth(a), truth(b)
    return True if True in truths else None if None in truths else False


def _relation(op: Op) -> Callable[[Maybe, Maybe], bool | None]:
    return lambda a, b: relate(op, a, b)


_BINARY: dict[Code, Callable[[Maybe, Maybe], Maybe]] = {
    Code.ADD: add,
    Code.SUB: subtract,
    Code.MUL: multiply,
    Code.DIV: divide_whole,
    Code.QUOT: divide,
    Code.REM: remainder,
    Code.AND: _and,
    Code.OR: _or,
    **{Code[op.name]: _relation(op) for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)},
}
