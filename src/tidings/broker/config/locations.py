"""Adds file and line to problems found after the configuration was read: in the files it names, or for lack of users.

Such problems begin with their key; the line is where the file sets it, or else where its table begins.

>>> placed(["tls.certificate, tls.key: s.pem cannot be read", "u.toml: cannot be read"], "b.toml", "[tls]\\nkey = 'k'")
['b.toml:1: tls.certificate, tls.key: s.pem cannot be read', 'u.toml: cannot be read']
>>> placed(["b.toml: listeners: 0.0.0.0 can be reached"], "b.toml", "[[listeners]]\\n[[listeners]]\\nhost = '0.0.0.0'")
['b.toml:3: listeners[1].host: 0.0.0.0 can be reached']
"""

import pathlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from tidings.broker.config.load import parse_toml
from tidings.broker.config.rules import is_loopback
from tidings.broker.config.schema_reader import path_text, types_of
from tidings.broker.config.tables import Configuration, ListenerTable
from tidings.broker.config.toml_positions import Path, lines_of
from tidings.errors import ConfigError

_KEY = re.compile(r"([a-z]+)(?:\.([a-z_]+))?(?=[:,] )")


@contextmanager
def with_lines(file: pathlib.Path | None) -> Iterator[None]:
    """Adds to each problem raised inside the line of the configuration that it concerns."""
    try:
        yield
    except ConfigError as error:
        if file is None:
            raise
        raise ConfigError(placed(error.problems, str(file), file.read_text(encoding="utf-8-sig"))) from None


def placed(problems: Sequence[str], name: str, text: str) -> list[str]:
    """The problems, with name and line of the file, whose text was read without error; others stay as they are."""
    hosts, lines = _reachable(parse_toml(text, name)), lines_of(text)
    return [_placed(problem, name, lines, hosts) for problem in problems]


def _placed(problem: str, name: str, lines: dict[Path, int], hosts: Iterator[Path]) -> str:
    said = problem.removeprefix(f"{name}: ")
    found = _KEY.match(said)
    if found is None or not _is_key(*found.groups()):
        return problem
    path: Path = tuple(part for part in found.groups() if part)
    if path == ("listeners",):
        path = next(hosts, path)
        said = path_text(path) + said[found.end() :]
    while path and path not in lines:
        path = path[:-1]
    return f"{name}:{lines[path]}: {said}" if path else f"{name}: {said}"


def _is_key(table: str, key: str | None) -> bool:
    kind = types_of(Configuration).get(table)
    return kind is not None and (key is None or (is_dataclass(kind) and key in {one.name for one in fields(kind)}))


def _reachable(document: dict[str, Any]) -> Iterator[Path]:
    """Paths of the listeners that other machines can reach, in the order in which problems name them."""
    for number, table in enumerate(document.get("listeners", ())):
        if not is_loopback(table.get("host", ListenerTable().host)):
            yield "listeners", number, "host"
