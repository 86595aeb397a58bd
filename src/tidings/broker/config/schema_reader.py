"""Reads a TOML document into frozen dataclasses, which are the schema and the source of the documentation.

A field made with `setting` carries its meaning and bounds. The reader is independent of brokers. It
collects every problem with the path of its key, so that one run shows all mistakes of a file.

>>> @dataclass(frozen=True)
... class Server:
...     port: int = setting(80, "the port", minimum=1, maximum=65535)
>>> problems = []
>>> read(Server, {"port": 70000, "prot": 1}, (), problems)
Server(port=80)
>>> for problem in problems: print(problem)
prot: unknown key; did you mean port?
port: 70000 is out of range; give a number from 1 to 65535
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from tidings.broker.config.toml_positions import Path

T = TypeVar("T")
_TYPES: dict[type, dict[str, Any]] = {}  # cached: reading them takes as long as all else
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text in quotes"}


@dataclass(frozen=True, slots=True)
class Problem:
    path: Path
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.reason}; {self.remedy}"


def path_text(path: Path) -> str:
    """
    >>> path_text(("listeners", 0, "port"))
    'listeners[0].port'
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


def setting(
    default: Any,
    meaning: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Sequence[str] = (),
    reload: bool = False,
    switch: bool = False,
    several: bool = False,
) -> Any:
    """A field of a configuration table. `reload`: a change takes effect without a restart; `switch`: except a change
    from empty to set, or back; `several`: a text may be written as a list, which is joined by commas."""
    metadata: dict[str, Any] = {"meaning": meaning, "minimum": minimum, "maximum": maximum, "choices": choices}
    metadata |= {"reload": reload, "switch": switch, "several": several}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def types_of(table: type) -> dict[str, Any]:
    if table not in _TYPES:
        _TYPES[table] = get_type_hints(table)
    return _TYPES[table]


def default_of(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def read(table: type[T], value: object, path: Path, problems: list[Problem]) -> T:
    """An instance of the dataclass; missing and wrong keys have their defaults, wrong ones are added to `problems`."""
    known = {one.name: one for one in fields(cast(Any, table))}
    if not isinstance(value, dict):
        problems.append(Problem(path, f"{_shown(value)} is not a table", f"write [{path_text(path)}] and its keys"))
        return table()
    for name in value:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}"
            problems.append(Problem((*path, name), "unknown key", remedy))
    kinds = types_of(table)
    return table(
        **{
            name: _read_field(one, kinds[name], value[name], (*path, name), problems)
            for name, one in known.items()
            if name in value
        }
    )


def _read_field(one: Field[Any], kind: Any, value: object, path: Path, problems: list[Problem]) -> Any:
    if is_dataclass(kind):
        return read(cast(type, kind), value, path, problems)
    if get_origin(kind) is tuple:
        return _read_list(one, get_args(kind)[0], value, path, problems)
    if one.metadata["several"] and isinstance(value, list) and value and all(type(part) is str for part in value):
        value = ",".join(value)
    if reason := _fault(one, kind, value):
        problems.append(Problem(path, *reason))
        return default_of(one)
    return kind(value)


def _read_list(one: Field[Any], kind: Any, value: object, path: Path, problems: list[Problem]) -> tuple[Any, ...]:
    if not isinstance(value, list):
        remedy = f"write [[{path_text(path)}]]" if is_dataclass(kind) else 'write ["…", "…"]'
        problems.append(Problem(path, f"{_shown(value)} is not a list", remedy))
        return cast(tuple[Any, ...], default_of(one))
    read_one: Callable[[object, Path], Any] = lambda item, at: _read_field(one, kind, item, at, problems)  # noqa: E731
    if not is_dataclass(kind):
        before = len(problems)
        items = tuple(read_one(item, (*path, number)) for number, item in enumerate(value))
        return items if len(problems) == before else cast(tuple[Any, ...], default_of(one))
    return tuple(read_one(item, (*path, number)) for number, item in enumerate(value))


def _fault(one: Field[Any], kind: type, value: object) -> tuple[str, str] | None:
    """Reason and remedy for a plain value that is not acceptable; None: it is."""
    low, high, choices = (one.metadata[what] for what in ("minimum", "maximum", "choices"))
    accepted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    if type(value) not in accepted:
        return f"{_shown(value)} is not {_WORDS[kind]}", f"give {_range(kind, low, high, choices)}"
    if choices and value not in choices:
        close = difflib.get_close_matches(str(value), choices, n=1)
        suggestion = f"did you mean {close[0]}?" if close else f"give {_range(kind, low, high, choices)}"
        return f"{_shown(value)} is unknown", suggestion
    if isinstance(value, (int, float)) and (
        value != value or (low is not None and value < low) or (high is not None and value > high)
    ):
        return f"{_shown(value)} is out of range", f"give {_range(kind, low, high, choices)}"
    if isinstance(value, str) and any(character < " " for character in value):
        return "it contains a control character", "remove it"
    return None


def _range(kind: type, low: float | None, high: float | None, choices: Sequence[str]) -> str:
    if choices:
        return "one of " + ", ".join(choices)
    if low is None and high is None:
        return _WORDS[kind]
    noun = "a number"
    return f"{noun} from {low:,} to {high:,}".replace(",", "") if high is not None else f"{noun} of at least {low}"


def _shown(value: object) -> str:
    """A value as a message may show it: short."""
    try:
        text = repr(value) if not isinstance(value, bool) else str(value).lower()
    except ValueError:  # Python writes no number of thousands of digits
        return "a number with too many digits"
    return text if len(text) <= 40 else text[:37] + "..."
