"""From text to tokens, in one pass of one regular expression that never goes back.

Numbers follow Java: `0x1F` hexadecimal, `017` octal, an `L` suffix for exact ones; a point, an exponent or one of the
suffixes `f` and `d` make a number approximate (all of them are 64-bit floats here). Identifiers follow Java too, and
may be several joined by dots: `order.total` is one name.

>>> [(token.symbol.name, token.value) for token in tokenize("Price >= 0x10 and name = 'it''s'")][:4]
[('IDENTIFIER', 'Price'), ('GE', None), ('NUMBER', 16), ('AND', None)]
"""

import re
import unicodedata
from enum import IntEnum
from typing import NamedTuple

from tidings.errors import SelectorError
from tidings.model.constraint import NAME_BYTES_MAX
from tidings.model.values import INT_MAX, Value

TEXT_MAX = 64 * 1024
"""Characters in a selector's text."""
TOKENS_MAX = 8_200  # room for the longest list after IN; reading a selector is one step, for which others wait
"""Tokens in a selector."""


class Symbol(IntEnum):
    """The kinds of tokens."""

    END = 0
    IDENTIFIER = 1
    STRING = 2
    NUMBER = 3
    EQ = 4
    NE = 5
    LT = 6
    LE = 7
    GT = 8
    GE = 9
    ADD = 10
    SUB = 11
    MUL = 12
    DIV = 13
    REM = 14
    OPEN = 15
    CLOSE = 16
    COMMA = 17
    AND = 18
    OR = 19
    NOT = 20
    BETWEEN = 21
    IN = 22
    LIKE = 23
    ESCAPE = 24
    IS = 25
    NULL = 26
    TRUE = 27
    FALSE = 28


KEYWORDS = {symbol.name: symbol for symbol in Symbol if symbol >= Symbol.AND}
_SIGNS = {
    "=": Symbol.EQ,
    "<>": Symbol.NE,
    "!=": Symbol.NE,
    "<": Symbol.LT,
    "<=": Symbol.LE,
    ">": Symbol.GT,
    ">=": Symbol.GE,
    "+": Symbol.ADD,
    "-": Symbol.SUB,
    "*": Symbol.MUL,
    "/": Symbol.DIV,
    "%": Symbol.REM,
    "(": Symbol.OPEN,
    ")": Symbol.CLOSE,
    ",": Symbol.COMMA,
}
_NAMES = {symbol: f"'{sign}'" for sign, symbol in reversed(_SIGNS.items())} | {
    Symbol.END: "the end",
    Symbol.IDENTIFIER: "an identifier",
    Symbol.STRING: "a string",
    Symbol.NUMBER: "a number",
}


def describe(symbol: Symbol) -> str:
    """The token's name in error messages."""
    return _NAMES.get(symbol, symbol.name)


# The catch-all at the end makes every character part of some match. `++` and `*+` are possessive.
_TOKEN = re.compile(
    r"""[ \t\n\r\f]++
    | (?P<word> (?: [A-Za-z_$] | [^\x00-\x7f] )
        (?: [A-Za-z0-9_$] | [^\x00-\x7f] | \. (?= [A-Za-z_$] | [^\x00-\x7f] ) )*+ )
    | (?P<number> (?: 0[xX][0-9a-fA-F]++ | (?: [0-9]++ (?: \.[0-9]*+ )?+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+ )
        [A-Za-z0-9_$]*+ )
    | (?P<string> '[^']*+ (?: '' [^']*+ )*+ ' )
    | (?P<sign> <> | != | <= | >= | [-=<>+*/%(),] )
    | (?P<wrong> . )""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(
    r"""(?P<hex> 0[xX] (?P<hex_digits> [0-9a-fA-F]+ ) [lL]? )
    | (?P<octal> 0 (?P<octal_digits> [0-9]+ ) [lL]? )
    | (?P<decimal> (?P<decimal_digits> [0-9]+ ) [lL]? )
    | (?P<float> (?P<float_digits> (?: [0-9]++ (?: \.[0-9]*+ )?+ | \.[0-9]++ ) (?: [eE][+-]?[0-9]++ )?+ ) [fFdD]? )""",
    re.VERBOSE,
)
_BASES = {"hex": 16, "octal": 8, "decimal": 10}
# Java's Character.isJavaIdentifierStart and isJavaIdentifierPart, without the invisible characters.
_STARTS = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"))
_PARTS = _STARTS | {"Nd", "Mn", "Mc"}


class Token(NamedTuple):
    symbol: Symbol
    value: Value | None
    position: int


def tokenize(text: str) -> list[Token]:
    """All tokens and, at the end, one END. A number may be 2**63, which only a minus sign makes a 64-bit int."""
    if len(text) > TEXT_MAX:
        raise SelectorError("E_SELECTOR_LIMIT", f"selector is longer than {TEXT_MAX} characters", position=TEXT_MAX)
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        group = match.lastgroup
        if group is None:
            continue
        position, spelt = match.start(), match.group()
        if len(tokens) == TOKENS_MAX:
            raise SelectorError("E_SELECTOR_LIMIT", f"selector has more than {TOKENS_MAX} tokens", position=position)
        if group == "sign":
            tokens.append(Token(_SIGNS[spelt], None, position))
        elif group == "word":
            tokens.append(_word(spelt, position))
        elif group == "string":
            tokens.append(Token(Symbol.STRING, _string(spelt, position), position))
        elif group == "number":
            tokens.append(Token(Symbol.NUMBER, _number(spelt, position), position))
        else:
            raise _wrong(spelt, position)
    tokens.append(Token(Symbol.END, None, len(text)))
    return tokens


def _word(spelt: str, position: int) -> Token:
    if spelt.isascii():
        keyword = KEYWORDS.get(spelt.upper())
        if keyword is not None:
            return Token(keyword, None, position)
    else:
        for index, character in enumerate(spelt):
            allowed = _PARTS if index and spelt[index - 1] != "." else _STARTS
            if not character.isascii() and unicodedata.category(character) not in allowed:
                raise _wrong(character, position + index)
    if len(spelt) > NAME_BYTES_MAX // 4 and len(spelt.encode()) > NAME_BYTES_MAX:
        raise SelectorError("E_SELECTOR_LIMIT", f"identifier longer than {NAME_BYTES_MAX} bytes", position=position)
    return Token(Symbol.IDENTIFIER, spelt, position)


def _string(spelt: str, position: int) -> str:
    text = spelt[1:-1].replace("''", "'")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise SelectorError("E_SELECTOR_LITERAL", "string holds a lone surrogate", position=position) from None
    return text


def _number(spelt: str, position: int) -> int | float:
    match = _NUMBER.fullmatch(spelt)
    if match is None:
        raise SelectorError("E_SELECTOR_LITERAL", f"{_short(spelt)} is not a number", position=position)
    form = match.lastgroup
    assert form is not None
    digits = match.group(f"{form}_digits")
    if form == "float":
        number = float(digits)
        if number == float("inf"):
            raise SelectorError("E_SELECTOR_LITERAL", f"{_short(spelt)} is too large for a float", position=position)
        return number
    if form == "octal" and max(digits) > "7":
        raise SelectorError("E_SELECTOR_LITERAL", f"{_short(spelt)} is not an octal number", position=position)
    digits = digits.lstrip("0") or "0"
    # The count of digits first: converting very many of them is slow, and refused by Python.
    whole = int(digits, _BASES[form]) if len(digits) <= 22 else INT_MAX + 2
    if whole > INT_MAX + 1:
        raise SelectorError("E_SELECTOR_LITERAL", f"{_short(spelt)} does not fit in 64 bits", position=position)
    return whole


def _wrong(character: str, position: int) -> SelectorError:
    if character == "'":
        return SelectorError("E_SELECTOR_SYNTAX", "string without an end", position=position)
    if character == '"':
        return SelectorError(
            "E_SELECTOR_SYNTAX", "strings are in single quotes: 'text', not \"text\"", position=position
        )
    return SelectorError("E_SELECTOR_SYNTAX", f"{character!a} cannot stand here", position=position)


def _short(spelt: str) -> str:
    return spelt if len(spelt) <= 40 else spelt[:37] + "..."
