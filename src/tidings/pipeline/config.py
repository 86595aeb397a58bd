"""Configuration of a run: from a TOML file, from `--set table.key=value`, and from the command's own options.

    input = "segments"                 # folder or URI of the segments
    output = "warehouse"               # where tables go
    master = "local[2]"
    [conf]
    "spark.executor.memory" = "4g"
    [trace]
    ids = "ids.parquet"

Every key has a default except input and output; unknown keys are refused with their place.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from tidings.errors import ConfigError

# In the order in which they need each other.
JOB_NAMES = (
    "ingest",
    "check",
    "compact",
    "trace",
    "generate",
    "replay",
    "measure",
    "fit",
    "sweep",
    "report",
    "optimize",
    "restore",
    "migrate",
)


@dataclass(frozen=True, slots=True)
class CompactOptions:
    capacity: int = 0  # ids of a full filter; 0: as many as full ones of its day have for their size


@dataclass(frozen=True, slots=True)
class TraceOptions:
    ids: str = ""  # Parquet with a binary column `id`; empty: the ids of all archived messages
    compacted: bool = False  # ask merged filters: fewer, but with other probabilities
    skew_between_brokers_ms: int = 1000  # as brokers are configured, like the next two
    persist_ms: int = 1000
    forwards: bool = False
    filters_mb_max: int = 1024  # in the memory of each worker


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    name: str = "replay"
    messages: str = ""  # Parquet with columns `id` and `message`; empty: archived messages; `generated`
    subscriptions: str = "generated"  # Parquet with columns number, router, predicate; or `generated`
    covering_max: int = 20_000  # more subscriptions than these: no covering degree and similarity


@dataclass(frozen=True, slots=True)
class SweepOptions:
    scenario: str = ""  # a scenario in TOML
    runs: int = 100
    name: str = "sweep"  # run i is called name-i


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    seed: int = 1
    messages: int = 10_000
    subscriptions: int = 1_000
    routers: int = 8
    conjunctions: int = 1  # of a subscription; 0: from 1 to 20
    zipf: float = 0.0


@dataclass(frozen=True, slots=True)
class ReportOptions:
    folder: str = ""  # empty: report, in the output


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    small_mb: int = 32  # files below this size are rewritten together
    files_max: int = 16  # small files that a day may have
    retention_hours: int = 168  # files that versions of this time need are kept


@dataclass(frozen=True, slots=True)
class RestoreOptions:
    table: str = ""  # with its folder: clean/messages
    version: int = 0  # of the table's log


@dataclass(frozen=True, slots=True)
class Config:
    input: str = ""
    output: str = ""
    master: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)
    compact: CompactOptions = CompactOptions()
    trace: TraceOptions = TraceOptions()
    replay: ReplayOptions = ReplayOptions()
    sweep: SweepOptions = SweepOptions()
    generate: GenerateOptions = GenerateOptions()
    report: ReportOptions = ReportOptions()
    optimize: OptimizeOptions = OptimizeOptions()
    restore: RestoreOptions = RestoreOptions()

    def needing(self, *keys: str) -> "Config":
        """Returns the configuration; raises ConfigError if one of these keys is not set."""
        missing = [f"{key}: not set; give --{key} or set it in the file" for key in keys if not getattr(self, key)]
        if missing:
            raise ConfigError(missing)
        return self


_MOST = 2**63 - 1
_LEAST = {("generate", "routers"): 1, ("sweep", "runs"): 1, ("trace", "persist_ms"): 1, ("trace", "filters_mb_max"): 1}
_LEAST |= {("optimize", "small_mb"): 1, ("optimize", "files_max"): 1}


def load(path: Path | None = None, settings: Iterable[str] = ()) -> Config:
    """From a file, if there is one, and single settings on top of it.

    >>> load(settings=["generate.messages=500", "output=/tmp/x"]).generate.messages
    500
    """
    config, problems = Config(), list[str]()
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin with a mark
        except (OSError, ValueError) as error:  # not there, no text, no TOML
            raise ConfigError([f"{path}: {error}"]) from None
        config = _merged(config, data, f"{path}: ", problems)
    for setting in settings:
        key, equals, text = setting.partition("=")
        table, _, name = key.rpartition(".")
        data = {table: {name: _parsed(text)}} if table else {name: _parsed(text)}
        if not equals:
            problems.append(f"--set {setting}: write table.key=value")
            continue
        config = _merged(config, data, "--set ", problems)
    problems += _out_of_range(config)
    if problems:
        raise ConfigError(problems)
    return config


def _out_of_range(config: Config) -> list[str]:
    """Numbers are finite and not negative; some are at least 1."""
    tables = [one.name for one in fields(config) if is_dataclass(getattr(config, one.name))]
    given = {(t, one.name): getattr(getattr(config, t), one.name) for t in tables for one in fields(getattr(config, t))}
    problems = []
    for (table, key), value in given.items():
        if isinstance(value, int | float):
            least = _LEAST.get((table, key), 0)
            if value < least:
                problems.append(f"{table}.{key}: {value} is less than {least}")
            elif not value <= _MOST:  # nor is it a number
                problems.append(f"{table}.{key}: {value} is not a number up to {_MOST}")
    return problems


def _merged(options: Any, data: Mapping[str, Any], where: str, problems: list[str]) -> Any:
    known = {one.name: getattr(options, one.name) for one in fields(options)}
    changes: dict[str, Any] = {}
    for key, value in data.items():
        if key not in known:
            problems.append(f"{where}{key}: unknown key; known keys are {', '.join(known)}")
        elif is_dataclass(known[key]) and isinstance(value, Mapping):
            changes[key] = _merged(known[key], value, f"{where}{key}.", problems)
        elif isinstance(known[key], Mapping) and isinstance(value, Mapping):
            changes[key] = {**known[key], **{name: str(one) for name, one in value.items()}}
        elif type(value) is type(known[key]):
            changes[key] = value
        elif isinstance(known[key], float) and type(value) is int:
            changes[key] = float(value)
        else:
            problems.append(f"{where}{key}: takes {type(known[key]).__name__}, not {value!r}")
    return replace(options, **changes)


def _parsed(text: str) -> Any:
    """As TOML would read it; anything else is text."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text
