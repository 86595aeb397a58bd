"""An experiment as a file: which servers, which parameters are varied, how each measurement is made.

    name = "filters"
    about = "n filters that do not match beside r subscribers that do"
    kind = "filters"                     # what the clients do: tidings.lab.workloads, or registration, first-message
    servers = ["tidings", "activemq"]
    runs = 3
    [vary]
    matching = [1, 2, 5]
    others = [0, 5, 10]
    [fixed]
    body = 0
    [measure]
    seconds = 1.0                        # at most; tidings.lab.stopping_rule says when a run ends
    server_share_min = 0.96

Every combination of the varied values is one measurement, repeated in runs. A point has a name that says what it is, so
that a second start of the same experiment knows what is there already.
"""

import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Any

from tidings.capacity.arrays import refuse
from tidings.errors import UsageError
from tidings.lab.run_verdict import RunRules, titled
from tidings.lab.workloads import SETUPS, SPECIAL, Parameter, Parameters
from tidings.text_files import read_text

POINTS_MAX, RUNS_MAX = 10_000, 1000
SERVERS = ("tidings", "activemq")
LOOK_AROUND = ("quick",)
RUNS_LONG = 2


@dataclass(frozen=True, slots=True)
class Measure:
    """Makes one run."""

    seconds: float = 1.0  # between warm-up and cool-down, at most
    seconds_min: float = 0.3  # and at least, if then the rate is known to within `precision`
    precision: float = 0.02  # 0: the whole time is always used
    warm_s: float = 0.15  # of warm-up at least
    warm_s_max: float = 1.0  # and at most, if the rate does not get steady
    steady: float = 0.05  # the change of the rate that counts as none; 0: the least time is always enough
    cool_s: float = 0.05
    interval_s: float = 0.05  # between samples
    window: int = 16_000  # messages that may be on their way, at most: a fast server must never wait for more
    block: int = 500  # messages a send, at most
    long_s: float = 5.0  # points whose runs take longer have RUNS_LONG of them only; 0: none has
    attempts: int = 3  # runs that do not count are repeated so often
    server_share_min: float = 0.96
    generator_share_max: float = 0.75
    per_cpu_second: float = 0.0  # not 0: rates are those of a second of the server's processor time

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise refuse(f"measure: {field.name} must be a number from 0, not {value!r}", "E_LAB_EXPERIMENT")
            if field.name in ("window", "block", "attempts") and not (isinstance(value, int) and value >= 1):
                raise refuse(f"measure: {field.name} must be a whole number from 1, not {value!r}", "E_LAB_EXPERIMENT")
        if self.interval_s < 0.01 or self.seconds < 2 * self.interval_s:
            raise refuse("measure: a run needs at least two samples", "E_LAB_EXPERIMENT")

    @property
    def rules(self) -> RunRules:
        return RunRules(
            self.warm_s,
            self.cool_s,
            self.server_share_min,
            self.generator_share_max,
            per_cpu_second=self.per_cpu_second,
        )

    def on_busy_machine(self) -> "Measure":
        """The server need not have its core for itself: rates are those of its processor time. Nor does it matter how
        much the generator needs, which has one core, or a part of it."""
        return replace(self, server_share_min=0.0, generator_share_max=2.0, per_cpu_second=1.0)

    @property
    def run_s(self) -> float:
        """The shortest that counts."""
        return self.warm_s + min(self.seconds_min if self.precision else self.seconds, self.seconds) + self.cool_s

    def lasting(self, seconds: float) -> "Measure":
        """Exactly so long, however soon the rate is known."""
        return replace(self, seconds=seconds, precision=0.0)


@dataclass(frozen=True, slots=True)
class ExperimentPoint:
    """One measurement: a server and values for all parameters."""

    experiment: str
    server: str
    kind: str
    parameters: Parameters

    @property
    def name(self) -> str:
        """
        >>> ExperimentPoint("filters", "tidings", "filters", {"others": 5, "matching": 1}).name
        'filters/tidings/matching=1,others=5'
        """
        values = ",".join(f"{name}={_shown(value)}" for name, value in sorted(self.parameters.items()))
        return f"{self.experiment}/{self.server}/{values}"


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    kind: str
    vary: Mapping[str, list[Parameter]]
    fixed: Parameters
    about: str = ""
    servers: tuple[str, ...] = SERVERS
    runs: int = 3
    measure: Measure = Measure()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise refuse(f"name: 1 to 60 of the letters A to Z and a to z, digits, - and _, not {self.name!r}", _CODE)
        if self.kind not in (*SETUPS, *SPECIAL):
            raise refuse(f"unknown kind {self.kind!r}; known kinds: {', '.join((*SETUPS, *SPECIAL))}", _CODE)
        if not self.servers or set(self.servers) - set(SERVERS):
            raise refuse(f"servers are some of {', '.join(SERVERS)}, not {', '.join(self.servers)}", _CODE)
        if not 1 <= self.runs <= RUNS_MAX:
            raise refuse(f"runs: from 1 to {RUNS_MAX}, not {self.runs}", _CODE)
        if set(self.vary) & set(self.fixed):
            raise refuse(f"{', '.join(set(self.vary) & set(self.fixed))}: varied and fixed", _CODE)
        count = 1
        for name, values in self.vary.items():
            if not isinstance(values, list) or not values:
                raise refuse(f"vary: {name} needs a list of values", _CODE)
            count *= len(values)
        if count > POINTS_MAX:
            raise refuse(f"{count} measurements are more than {POINTS_MAX}", _CODE)
        for point in self.points():
            if self.kind in SETUPS:
                SETUPS[self.kind](point.parameters, "check")
            else:
                SPECIAL[self.kind](point.parameters)

    @property
    def per_cpu_second(self) -> bool:
        return per_cpu_second(self.kind, self.measure.per_cpu_second)

    @property
    def title(self) -> str:
        return titled(self.name, per_cpu_second=self.per_cpu_second)

    def points(self) -> Iterator[ExperimentPoint]:
        """Servers in turn at each point, so that what disturbs the machine disturbs both."""
        for values in itertools.product(*self.vary.values()):
            parameters = {**self.fixed, **dict(zip(self.vary, values, strict=True))}
            for server in self.servers:
                yield ExperimentPoint(self.name, server, self.kind, parameters)


_CODE = "E_LAB_EXPERIMENT"
_NAME = re.compile("[A-Za-z0-9_-]{1,60}")  # it is part of the names of segments and pictures
_FIELDS: Mapping[str, tuple[type | UnionType, str]] = {  # what a file may say, and of which kind
    "name": (str, "a text"),
    "about": (str, "a text"),
    "kind": (str, "a text"),
    "servers": (list | str, "a list of names"),
    "runs": (int, "a whole number"),
    "vary": (dict, "a table"),
    "fixed": (dict, "a table"),
    "measure": (dict, "a table"),
}


def read(path: Path) -> Experiment:
    """From an own file, or from one of ours by its name."""
    return parse(read_text(path, _CODE) if path.exists() else preset(str(path)))


def preset(name: str) -> str:
    if name not in presets():
        raise UsageError(_CODE, f"no file and no preset {name!r}; presets are {', '.join(presets())}")
    return (files("tidings.lab") / "presets" / f"{name}.toml").read_text()


def presets() -> list[str]:
    return sorted(one.name.removesuffix(".toml") for one in (files("tidings.lab") / "presets").iterdir())


def thesis() -> list[str]:
    """The presets that make up the thesis's grid: all but those that only look around."""
    return [name for name in presets() if name not in LOOK_AROUND]


def per_cpu_second(kind: str, asked: float) -> bool:
    """True if rates are per second of the server's CPU time; makes no difference to metrics that are not rates."""
    return bool(asked) and kind not in SPECIAL


def parse(text: str) -> Experiment:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(_CODE, f"not TOML: {error}") from None
    except RecursionError:
        raise UsageError(_CODE, "not TOML we read: too deeply nested") from None
    if unknown := set(data) - set(_FIELDS):
        raise UsageError(_CODE, f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(sorted(_FIELDS))}")
    for name, value in data.items():
        kind, what = _FIELDS[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UsageError(_CODE, f"{name} is {what}, not {value!r:.40}")
    if missing := {"name", "kind"} - set(data):
        raise UsageError(_CODE, f"missing: {', '.join(sorted(missing))}")
    try:
        measure = Measure(**data.pop("measure", {}))
    except TypeError as error:
        raise UsageError(_CODE, f"measure: {str(error).rpartition('argument ')[2]} is not known") from None
    servers = data.pop("servers", list(SERVERS))
    return Experiment(
        **{"vary": {}, "fixed": {}, **data},
        servers=tuple(map(str, servers)) if isinstance(servers, list) else (servers,),
        measure=measure,
    )


def _shown(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
