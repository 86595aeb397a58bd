"""Settings from environment variables, which go before those of the file: TIDINGS__TABLE__KEY, mainly for containers.

A text is taken as it is; every other value is written as in TOML, an array of tables as [{…}, {…}].

>>> document, _ = with_environment({}, {"TIDINGS__BROKER__NAME": "7", "TIDINGS__METRICS__PORT": "0", "HOME": "/"})
>>> document
{'broker': {'name': '7'}, 'metrics': {'port': 0}}
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from tidings.broker.config.schema_reader import types_of
from tidings.broker.config.tables import Configuration
from tidings.broker.config.toml_positions import Path

PREFIX = "TIDINGS__"


def with_environment(
    document: Mapping[str, object], environment: Mapping[str, str]
) -> tuple[dict[str, object], dict[Path, str]]:
    """The document with what the environment sets, and the variable of each path that it sets. Names that no table has
    are added too, so that the reader of the document refuses them."""
    found, names = dict(document), dict[Path, str]()
    for name in sorted(environment):
        if name.startswith(PREFIX):
            words = tuple(name[len(PREFIX) :].lower().split("__"))
            kind = _kind(words)
            for count in range(len(words) if kind else 1, len(words) + 1):
                names[words[:count]] = name
            _put(found, words, _value(environment[name], kind), known=kind is not None)
    return found, names


def without_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a broker that is to be configured by its file alone."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}


def _put(table: dict[str, Any], words: Sequence[str], value: object, *, known: bool) -> None:
    for word in words[:-1]:
        inner = table.get(word, {})
        if known and not isinstance(inner, dict):
            return  # the file has something else than a table here, which is refused
        table[word] = dict(inner) if isinstance(inner, dict) else {}
        table = table[word]
    table[words[-1]] = value


def _kind(words: Sequence[str]) -> Any:
    """The type of a setting; None: there is none of that name."""
    kind: Any = Configuration
    for word in words:
        if not (is_dataclass(kind) and isinstance(kind, type)) or word not in {one.name for one in fields(kind)}:
            return None
        kind = types_of(kind)[word]
    return kind


def _value(text: str, kind: Any) -> object:
    """A text that is not TOML stays a text, which the reader refuses with what it must be."""
    if kind is str:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text
