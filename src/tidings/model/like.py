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
from functools import cached_property, lru_cache

ESCAPE = "\\"
ANY_TEXT, ANY_CHARACTER = "%", "_"
SPECIAL = frozenset((ANY_TEXT, ANY_CHARACTER))


@dataclass(frozen=True)
class Pattern:
    """Literal runs between `%` signs; None inside a run stands for `_`. Only the first and last may be empty."""

    runs: tuple[tuple[str | None, ...], ...]

    @staticmethod
    @lru_cache(maxsize=128)
    def parse(text: str, escape: str | None = ESCAPE) -> "Pattern":
        """Read a pattern. After `escape` any character stands for itself; so does an escape at the very end."""
        runs: list[list[str | None]] = [[]]
        characters = iter(text)
        for character in characters:
            if character == escape:
                runs[-1].append(next(characters, escape))
            elif character == ANY_TEXT:
                if len(runs) == 1 or runs[-1]:  # %% says no more than %
                    runs.append([])
            else:
                runs[-1].append(None if character == ANY_CHARACTER else character)
        return Pattern(tuple(map(tuple, runs)))

    def spell(self, escape: str | None) -> str:
        """The text that `parse(text, escape)` reads as this pattern. Without an escape, `plain` must hold."""
        special = SPECIAL | {escape} if escape is not None else frozenset()
        return ANY_TEXT.join(
            "".join(ANY_CHARACTER if one is None else f"{escape}{one}" if one in special else one for one in run)
            for run in self.runs
        )

    @property
    def text(self) -> str:
        """The canonical spelling, with backslash as the escape character."""
        return self.spell(ESCAPE)

    @property
    def plain(self) -> bool:
        """Reports whether it can be spelt without an escape character."""
        return not any(one in SPECIAL for run in self.runs for one in run)

    @cached_property
    def literals(self) -> tuple[str, ...] | None:
        """The runs as plain strings, or None if there is a `_` in one."""
        if any(None in run for run in self.runs):
            return None
        return tuple("".join(one or "" for one in run) for run in self.runs)

    def matches(self, text: str) -> bool:
        literals = self.literals
        if literals is not None:
            return _match_literals(literals, text)
        return self._match_states(text)

    @cached_property
    def _states(self) -> tuple[dict[str, int], int, int, int]:
        """Bit masks of the elements that accept a character, accept any, and loop (`%`); and the number of elements."""
        accepts: dict[str, int] = {}
        wild = loops = length = 0
        for number, run in enumerate(self.runs):
            if number:
                loops |= 1 << length  # having matched `length` elements, any text may follow
            for one in run:
                if one is None:
                    wild |= 1 << length
                else:
                    accepts[one] = accepts.get(one, 0) | 1 << length
                length += 1
        return accepts, wild, loops, length

    def _match_states(self, text: str) -> bool:
        accepts, wild, loops, length = self._states
        states = 1
        for character in text:
            states = (states & (accepts.get(character, 0) | wild)) << 1 | states & loops
            if not states:
                return False
        return bool(states >> length & 1)


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


def topic_matches(pattern: str, topic: str) -> bool:
    """`*` stands for exactly one level, `>` (only at the end) for one or more."""
    levels, wanted = topic.split("."), pattern.split(".")
    if wanted[-1] == ">":
        wanted.pop()
        if len(levels) <= len(wanted):
            return False
        levels = levels[: len(wanted)]
    return len(levels) == len(wanted) and all(want in ("*", have) for want, have in zip(wanted, levels, strict=True))
