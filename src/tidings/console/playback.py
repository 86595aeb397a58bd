"""A simulation as a film: the lines that `tidings sim run` prints, and what the network looked like after each.

>>> lines = ["15.0  oslo  link to paris up", "20.0  paris  link to oslo up", "3000.0  paris  crashes", "a sum"]
>>> film = Film.of_lines(lines)
>>> [step.text for step in film.steps], sorted(film.names.values())
(['link to paris up', 'link to oslo up', 'crashes'], ['oslo', 'paris'])
>>> [film.view(step).links[0].up for step in range(3)]
[False, True, False]
>>> film.view(2).brokers[film.number("paris")].state.name
'LOST'
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tidings.console.view import BrokerSnapshot, BrokerState, LinkSnapshot, NetworkSnapshot
from tidings.console.widgets.network_map import Lit
from tidings.errors import UsageError

_LINE = re.compile(r"\s*(\d+(?:\.\d+)?)\s+(\S+)\s+(\S.*)")
_LINK = re.compile(r"link to (\S+) (up|down)")
LINES_MAX = 20_000


@dataclass(frozen=True, slots=True)
class PlaybackStep:
    at_ms: float
    who: str  # a broker, or * for what happens to the network from outside
    text: str


class Film:
    def __init__(self, steps: list[PlaybackStep]) -> None:
        self.steps = steps
        found = dict.fromkeys(step.who for step in steps if step.who != "*")
        found |= dict.fromkeys(match[1] for step in steps if (match := _LINK.match(step.text)))
        self.names = dict(enumerate(found, 1))
        self._numbers = {name: number for number, name in self.names.items()}
        pairs = {self._ends(step.who, match[1]) for step in steps if (match := _LINK.match(step.text))}
        self._links = sorted(pairs)

    @classmethod
    def of_lines(cls, lines: Iterable[str]) -> "Film":
        """Lines of another form (a script above the film, the sums below it) are left out."""
        steps = [PlaybackStep(float(one[1]), one[2], one[3]) for one in map(_LINE.fullmatch, lines) if one]
        if not steps:
            raise UsageError("E_TRANSCRIPT", "no line of a simulation in it: each begins with a time and a broker")
        return cls(steps[:LINES_MAX])

    def number(self, name: str) -> int:
        return self._numbers[name]

    def view(self, index: int) -> NetworkSnapshot:
        """After step `index`. A link is up while both its ends say so."""
        up: dict[tuple[str, str], bool] = {}
        down: set[str] = set()
        for step in self.steps[: index + 1]:
            if match := _LINK.match(step.text):
                up[step.who, match[1]] = match[2] == "up"
            elif step.text == "crashes" or step.text.startswith("lost"):
                down.add(step.who)
                up = {ends: told for ends, told in up.items() if ends[0] != step.who}
            elif step.text.startswith("starts"):
                down.discard(step.who)
        brokers = {
            number: BrokerSnapshot(number, name, BrokerState.LOST if name in down else BrokerState.UP)
            for number, name in self.names.items()
        }
        live = {(self.number(one), self.number(other)) for (one, other), told in up.items() if told}
        links = tuple(LinkSnapshot(a, b, (a, b) in live and (b, a) in live) for a, b in self._links)
        return NetworkSnapshot(brokers, links)

    def lit(self, index: int) -> Lit:
        """Whom step `index` is about."""
        step = self.steps[index]
        if step.who == "*":
            named = [name for name in re.split(r"[\s,]+", step.text) if name in self._numbers]
            ends = self._ends(*named) if len(named) == 2 else None
            return Lit({self.number(name): "" for name in named}, (ends,) if ends in self._links and ends else ())
        match = _LINK.match(step.text)
        link = (self.number(step.who), self.number(match[1])) if match else None
        return Lit({self.number(step.who): step.text.split()[0] if not match else ""}, (link,) if link else ())

    def _ends(self, one: str, other: str) -> tuple[int, int]:
        a, b = self._numbers[one], self._numbers[other]
        return min(a, b), max(a, b)
