"""Writes the reference part of docs/configuration.md from the dataclasses that the broker reads.

python -m tidings.broker.config.docs docs/configuration.md
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

from tidings.broker.config.schema_reader import default_of, types_of
from tidings.broker.config.tables import Configuration

BEGIN, END = "<!-- keys: begin -->", "<!-- keys: end -->"


def reference() -> str:
    """All tables with all their keys, as Markdown."""
    parts = []
    for name, one, table, many in tables(Configuration):
        title = f"[[{name}]]" if many else f"[{name}]"
        rows = "\n".join(_rows(table))
        parts.append(
            f"### `{title}`\n\n{_sentence(one.metadata['meaning'])}\n\n"
            f"| key | default | meaning | values | on SIGHUP |\n|---|---|---|---|---|\n{rows}\n"
        )
    return "\n".join(parts)


def tables(outer: type, above: str = "") -> Iterator[tuple[str, Field[Any], type, bool]]:
    """The tables in a table: full name, field, dataclass, and whether there can be many."""
    for one in fields(outer):
        kind = types_of(outer)[one.name]
        element = next(iter(get_args(kind)), None)
        table = kind if is_dataclass(kind) else element
        if is_dataclass(table):
            assert isinstance(table, type)
            yield above + one.name, one, table, table is element
            yield from tables(table, f"{above}{one.name}.")


def _rows(table: type) -> Iterator[str]:
    inner = {name for name, *_ in tables(table)}
    for one in fields(table):
        if one.name in inner:
            continue
        kind = types_of(table)[one.name]
        default = json.dumps(default_of(one), ensure_ascii=False)
        reload = "at once" if one.metadata["reload"] else "restart"
        yield f"| `{one.name}` | `{default}` | {one.metadata['meaning']} | {_values(one, kind)} | {reload} |"


def _values(one: Field[Any], kind: Any) -> str:
    low, high, choices = (one.metadata[what] for what in ("minimum", "maximum", "choices"))
    if choices:
        words = ", ".join(choices)
        return words if kind is str else f"list of: {words}"
    if low is not None:
        return f"{low} or more" if high is None else f"{low} to {high}"
    if get_args(kind):
        return "list of text"
    return {bool: "true, false", str: "text", int: "number", float: "number"}[kind]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def renewed(text: str) -> str:
    """The document with its reference part replaced by the current one."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{reference()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text()))
