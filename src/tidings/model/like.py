"""LIKE patterns and topic patterns, matched in linear time.

A LIKE pattern is a row of elements: a character, `_` (any one character) or `%` (any text). Without `_` it is a
chain of substring searches, each of which may take the leftmost hit. With `_` that search has no fast library
routine, so all ways to match are followed at once: bit i of `states` says "the first i elements match the text so
far", one shift per character (Baeza-Yates and Gonnet 1992). Neither way ever goes back in the text.

>>> Pattern.parse("12%3").matches("12993"), Pattern.parse("l_se").matches("loose")
(True, False)
>>> Pattern.parse(r"\\_%").matches("_foo"), topic_matches("ticks.*.eu", "ticks.xyz.eu")
(True, True)
"""

from dataclasses import dataclass
from functools import lru_cache

ESCAPE = "\\"
ANY_TEXT, ANY_CHARACTER = "%", "_"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Literal runs between `%` signs; None inside a run stands for `_`."""

    runs: tuple[tuple[str | None, ...], ...]

    @staticmethod
    @lru_cache(maxsize=1024)
    def parse(text: str, escape: str | None = ESCAPE) -> "Pattern":
        """Read a pattern. `escape` takes the special meaning from the character that follows it."""
        runs: list[list[str | None]] = [[]]
        characters = iter(text)
        for character in characters:
            if character == escape:
                runs[-1].append(next(characters, escape))
            elif character == ANY_TEXT:
                runs.append([])
            else:
                runs[-1].append(None if character == ANY_CHARACTER else character)
        return Pattern(tuple(map(tuple, runs)))

    @property
    def text(self) -> str:
        """The canonical spelling, with backslash as the escape character."""
        special = (ANY_TEXT, ANY_CHARACTER, ESCAPE)
        return ANY_TEXT.join(
            "".join(ANY_CHARACTER if one is None else ESCAPE + one if one in special else one for one in run)
            for run in self.runs
        )

    @property
    def literals(self) -> tuple[str, ...] | None:
        """The runs as plain strings, or None if there is a `_` in one."""
        if any(None in run for run in self.runs):
            return None
        return tuple("".join(one or "" for one in run) for run in self.runs)

    def matches(self, text: str) -> bool:
        literals = self.literals
        if literals is not None:
            return _match_literals(literals, text)
        return _match_states(self.runs, text)


def _match_literals(runs: tuple[str, ...], text: str) -> bool:
    if len(runs) == 1:
        return text == runs[0]
    first, *middle, last = runs
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    start, end = len(first), len(text) - len(last)
    for run in middle:
        hit = text.find(run, start, end)
        if hit < 0:
            return False
        start = hit + len(run)
    return True


def _match_states(runs: tuple[tuple[str | None, ...], ...], text: str) -> bool:
    accepts: dict[str, int] = {}  # character -> elements that accept it
    wild = loops = 0
    length = 0
    for number, run in enumerate(runs):
        if number:
            loops |= 1 << length  # having matched `length` elements, any text may follow
        for one in run:
            if one is None:
                wild |= 1 << length
            else:
                accepts[one] = accepts.get(one, 0) | 1 << length
            length += 1
    states = 1
    for character in text:
        states = (states & (accepts.get(character, 0) | wild)) << 1 | states & loops
        if not states:
            return False
    return bool(states >> length & 1)


def topic_matches(pattern: str, topic: str) -> bool:
    """`*` stands for exactly one level, `>` (only at the end) for one or more."""
    levels, wanted = topic.split("."), pattern.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(levels) <= len(wanted):
            return False
        levels = levels[: len(wanted)]
    return len(levels) == len(wanted) and all(want in ("*", have) for want, have in zip(wanted, levels, strict=True))
