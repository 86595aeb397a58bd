"""Selectors: the condition a subscriber puts on messages, in the language of JMS 2.0 (section 3.8.1).

    text ──lexer──► tokens ──parser──► tree ──evaluate──► true, false or unknown
                                        ├──printer──► canonical text
                                        ├──dnf──────► conjunctions of constraints, to route and to index by
                                        └──program──► bytes for the kernel, where constraints do not suffice

Beyond JMS, strings are ordered (by code point), BETWEEN takes strings, IN takes numbers and booleans, and a condition
in parentheses may be compared; `!=`, `%`, `EXISTS(x)` and names with dots are understood; before IS NULL, LIKE and IN
may stand any value. `/` divides with a fraction: `10 / 4 = 2.5`.

Limits, each an E_SELECTOR_LIMIT: `TEXT_MAX` characters, `TOKENS_MAX` tokens,
`NAME_BYTES_MAX` bytes in an identifier, `DEPTH_MAX` levels of nesting, `CHOICES_MAX` literals in one IN, `PATTERN_MAX`
characters in one LIKE, and the machine's `PROGRAM_BYTES_MAX` and `STACK_MAX`.

>>> Selector("stock = 'XYZ' AND price > 20").matches({"stock": "XYZ", "price": 50})
True
>>> Selector("price >")
Traceback (most recent call last):
    ...
tidings.errors.SelectorError: E_SELECTOR_SYNTAX at 7: expected a value, found the end
"""

from collections.abc import Callable
from functools import cached_property

from tidings.errors import SelectorError
from tidings.model.constraint import NAME_BYTES_MAX
from tidings.model.predicate import PROGRAM_BYTES_MAX, Predicate
from tidings.model.selector.dnf import CONJUNCTIONS_MAX, CONSTRAINTS_MAX, Constraints, Translation, translate
from tidings.model.selector.evaluate import evaluator
from tidings.model.selector.lexer import TEXT_MAX, TOKENS_MAX
from tidings.model.selector.operations import Properties
from tidings.model.selector.parser import CHOICES_MAX, DEPTH_MAX, PATTERN_MAX, VERSION, parse
from tidings.model.selector.printer import to_text
from tidings.model.selector.program import STACK_MAX, assemble
from tidings.model.selector.syntax import Identifier, walk

__all__ = [
    "CHOICES_MAX",
    "CONJUNCTIONS_MAX",
    "CONSTRAINTS_MAX",
    "DEPTH_MAX",
    "NAME_BYTES_MAX",
    "PATTERN_MAX",
    "PROGRAM_BYTES_MAX",
    "STACK_MAX",
    "TEXT_MAX",
    "TOKENS_MAX",
    "VERSION",
    "Properties",
    "Selector",
]

# No text within both of these makes a program too long or too deep: a character becomes less than 8 bytes (BETWEEN
# repeats its operand), a level of parentheses puts at most three values on the stack.
_SAFE_LENGTH = PROGRAM_BYTES_MAX // 8
_SAFE_PARENTHESES = 16


class Selector:
    """A condition on a message's properties. Selectors that differ only in spelling are equal.

    >>> Selector("not(a = 1)and b is null")
    Selector('NOT a = 1 AND b IS NULL')
    """

    def __init__(self, text: str, version: int = VERSION) -> None:
        """Read a selector; a SelectorError says what is wrong with the text, and where. `version` is the language's."""
        if not isinstance(text, str):
            raise SelectorError("E_SELECTOR_TEXT", f"a selector must be a str, not {type(text).__name__}", position=0)
        self.text = text
        self.version = version
        self.tree = parse(text, version)
        if len(text) > _SAFE_LENGTH or text.count("(") > _SAFE_PARENTHESES:
            _ = self.program  # raises what would otherwise be raised later

    def matches(self, properties: Properties) -> bool | None:
        """True, False or None (unknown) for a message with these properties. None and NaN count as missing."""
        return self._evaluate(properties)

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The properties it speaks of."""
        return frozenset(node.name for node in walk(self.tree) if isinstance(node, Identifier))

    @property
    def conjunctions(self) -> tuple[Constraints, ...]:
        """At least one of these holds wherever the selector is true: all their constraints do."""
        return self._translation.conjunctions

    @property
    def exact(self) -> bool:
        """Reports whether the conjunctions hold nowhere else; if not, run the program on what they let through."""
        return self._translation.exact

    @cached_property
    def predicate(self) -> Predicate:
        """The predicate for matchers and other brokers: the conjunctions, and the program if they are not exact."""
        return Predicate(self.conjunctions, None if self.exact else self.program)

    @cached_property
    def program(self) -> bytes:
        """The selector for the kernel's stack machine."""
        return assemble(self.tree)

    @cached_property
    def _evaluate(self) -> Callable[[Properties], bool | None]:
        return evaluator(self.tree)

    @cached_property
    def _translation(self) -> Translation:
        return translate(self.tree)

    @cached_property
    def _canonical(self) -> str:
        return to_text(self.tree)

    def __str__(self) -> str:
        return self._canonical

    def __repr__(self) -> str:
        return f"Selector({self._canonical!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and self._canonical == other._canonical

    def __hash__(self) -> int:
        return hash(self._canonical)

    def __reduce__(self) -> tuple[type["Selector"], tuple[str, int]]:
        return Selector, (self.text, self.version)
