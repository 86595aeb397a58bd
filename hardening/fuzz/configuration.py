"""Any text as a configuration: it is one that holds, or an error of which each line names the place and the remedy."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from random import Random
from typing import get_args

from hardening.fuzz.mutate import mutated
from tidings.broker.config.docs import tables
from tidings.broker.config.load import parse
from tidings.broker.config.schema_reader import default_of, types_of
from tidings.broker.config.tables import Configuration
from tidings.errors import ConfigError

NAME = "fuzz.toml"
VALUES = (
    *("0", "-1", "1", "7300", "65536", "9223372036854775808", "0x7fffffffffffffff", "0o7"),
    *("1e400", "-inf", "nan", "0.5", "true", "false", "1979-05-27", "1979-05-27T07:32:00Z"),
    *("''", '"a"', "'a.b:7300'", "'127.0.0.1'", "'::1'", "'>'", "'\\u0000'", "'\"'", '"\\u0007"', '"\\U0001F600"'),
    *("[]", "[1]", "['a']", "{}", "{a=1}"),
)
TABLE_SHARES = (0.03, 0.1, 0.3)
DEPTH_WEIGHTS = (40, 40, 19, 1)  # a key of 3000 parts takes as long as all else
HUGE = "0x" + "f" * 6000
PROBLEM = re.compile(rf"{re.escape(NAME)}(:\d+)?: .+; .+", re.DOTALL)


def everything() -> Iterator[list[str]]:
    """Each table: its header, and each of its plain keys by default."""
    for name, _, table, many in tables(Configuration):
        kinds = types_of(table)
        plain = [
            one for one in fields(table) if not any(map(is_dataclass, (kinds[one.name], *get_args(kinds[one.name]))))
        ]
        keys = [f"{one.name} = {json.dumps(default_of(one))}" for one in plain]
        yield [f"[[{name}]]" if many else f"[{name}]", *keys]


class Texts:
    def __init__(self) -> None:
        self._tables = list(everything())
        self._lines = [line for table in self._tables for line in table]
        self._bytes = [line.encode() for line in self._lines]

    def text(self, rng: Random) -> str:
        """Some tables with some of their keys; a few lines too many, values of other kinds, and bytes changed."""
        share = rng.choice(TABLE_SHARES)
        lines = [
            line
            for table in self._tables
            if rng.random() < share
            for line in (table[0], *rng.sample(table[1:], rng.randrange(len(table))))
        ]
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            lines.insert(rng.randint(0, len(lines)), rng.choice(self._lines))
        for _ in range(rng.choice((0, 1, 1, 3, 10)) if lines else 0):
            at = rng.randrange(len(lines))
            key, equals, _ = lines[at].partition("=")
            if equals:
                lines[at] = f"{key}= {HUGE if rng.random() < 0.02 else rng.choice(VALUES)}"
        if rng.random() < 0.02:
            depth = rng.choices((5, 100, 400, 3000), DEPTH_WEIGHTS)[0]
            lines.append(rng.choice(("[" * depth, "a = " + "[" * depth + "]" * depth, "a." * depth + "a = 1")))
        text = "\n".join(lines)
        if rng.random() < 0.3:
            text = mutated(rng, text.encode(), self._bytes).decode(errors="replace")
        return text

    def run(self, seed: int, number: int) -> bool:
        """Parses one mutated text; returns True if it is a valid configuration."""
        text = self.text(Random(f"{seed}.{number}"))
        try:
            parse(text, NAME)
        except ConfigError as error:
            lines = text.count("\n") + 1
            for problem in error.problems:
                found = PROBLEM.fullmatch(problem)
                assert found, f"neither place nor remedy: {problem}"
                assert found[1] is None or 1 <= int(found[1][1:]) <= lines, f"no such line: {problem}"
            return False
        return True
