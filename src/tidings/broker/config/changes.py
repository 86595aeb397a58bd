"""Compares two configurations; marks the differences that take effect without a restart."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from tidings.broker.config.schema_reader import path_text, types_of
from tidings.broker.config.toml_positions import Path


def changes(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[str, bool]]:
    r"""Keys whose values differ, each with True if the new value takes effect without a restart.

    >>> from tidings.broker.config.load import parse
    >>> old, new = (parse(text, "") for text in ("", "[logging]\nlevel = 'debug'\n[metrics]\nport = 1"))
    >>> list(changes(old, new))
    [('logging.level', True), ('metrics.port', False)]
    >>> links = [f"[network]\nname = 'n'\nsecret_file = 's'\n{more}" for more in ("", "certificate = 'c'\nca = 'a'")]
    >>> list(changes(*(parse(text, "") for text in links)))
    [('network.certificate', False), ('network.ca', False)]
    """
    for one in fields(new):
        before, after, at = getattr(old, one.name), getattr(new, one.name), (*path, one.name)
        if before == after:
            continue
        if is_dataclass(after):
            yield from changes(before, after, at)
        elif one.metadata["switch"] and not (before and after):
            yield path_text(at), False
        else:
            yield path_text(at), bool(one.metadata["reload"]) or _elements_reload(types_of(type(new))[one.name])


def _elements_reload(kind: Any) -> bool:
    """True for a list of tables all of whose keys can change while the broker runs."""
    element = next(iter(get_args(kind)), None)
    return is_dataclass(element) and all(one.metadata["reload"] for one in fields(element))
