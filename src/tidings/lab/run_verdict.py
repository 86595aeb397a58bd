"""One run of a measurement: counters read again and again, cut to the middle, judged.

A run counts only if the server was the bottleneck and nothing else was (capacity.md, part 2). The counters are kept as
they were read, so that whoever analyses them later can judge by other rules: what is stored is cumulative.

>>> from dataclasses import replace
>>> counters = [CounterSample(at, 1000 * at, 3000 * at, 0.99 * at, 0.3 * at, 5e7) for at in range(8)]
>>> verdict = judge(counters, RunRules(warm_s=2, cool_s=1))
>>> verdict.received_per_s, verdict.dispatched_per_s, verdict.valid
(1000.0, 3000.0, True)
>>> judge([replace(one, server_cpu_s=one.server_cpu_s / 2) for one in counters], RunRules()).reasons
('the server used 49.5 % of its core, at least 96.0 % are asked for',)

On a busy machine the server gets only a part of its core. What it does in a second of that part is still known:

>>> busy = [replace(one, server_cpu_s=one.server_cpu_s / 2) for one in counters]
>>> round(judge(busy, RunRules(server_share_min=0, per_cpu_second=1)).received_per_s)  # 1000 in 0.495 s
2020
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from tidings.capacity.arrays import refuse


@dataclass(frozen=True, slots=True)
class CounterSample:
    """Cumulative counters at one time. Their names are the metrics of the table `samples`."""

    at_s: float
    received_messages: float  # that the server took in
    dispatched_messages: float  # that it sent
    server_cpu_s: float
    generator_cpu_s: float
    server_memory_bytes: float


BUSY = " --busy"  # after an experiment's name, which has no spaces: rates of a second of the server's processor time
TWICE = "other runs have the same name, so their samples cannot be told apart"
METRICS = tuple(field.name for field in fields(CounterSample))[1:]


@dataclass(frozen=True, slots=True)
class RunRules:
    warm_s: float = 1.0  # cut off at the beginning
    cool_s: float = 0.5  # and at the end
    server_share_min: float = 0.96  # of its core; 0: the server need not be the bottleneck
    generator_share_max: float = 0.75  # of its core
    memory_bytes_max: float = 2e9  # of the server
    per_cpu_second: float = 0.0  # not 0: rates are those of a second of the server's processor time


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """Result of the middle of a run, and the reason if the run is rejected."""

    seconds: float
    received_per_s: float
    dispatched_per_s: float
    server_share: float
    generator_share: float
    memory_bytes: float
    reasons: tuple[str, ...]

    @property
    def valid(self) -> bool:
        return not self.reasons


def judge(samples: Sequence[CounterSample], rules: RunRules, lost: float = 0) -> RunVerdict:
    """`lost`: messages that should have arrived in the whole run and did not."""
    if not samples:
        raise refuse("a run without samples cannot be judged", "E_LAB_SAMPLES")
    first_s, last_s = samples[0].at_s + rules.warm_s, samples[-1].at_s - rules.cool_s
    middle = [one for one in samples if first_s - 1e-9 <= one.at_s <= last_s + 1e-9]
    if len(middle) < 2:
        raise refuse("the run is too short: nothing is left between warm-up and cool-down", "E_LAB_SAMPLES")
    a, b = middle[0], middle[-1]
    seconds = b.at_s - a.at_s
    received = b.received_messages - a.received_messages
    server = (b.server_cpu_s - a.server_cpu_s) / seconds
    generator = (b.generator_cpu_s - a.generator_cpu_s) / seconds
    counted_s = max(b.server_cpu_s - a.server_cpu_s, 1e-9) if rules.per_cpu_second else seconds
    memory = max(one.server_memory_bytes for one in middle)
    found = [
        (received <= 0, "no message arrived"),
        (
            server < rules.server_share_min,
            f"the server used {server:.1%} of its core, at least {rules.server_share_min:.1%} are asked for",
        ),
        (
            generator > rules.generator_share_max,
            f"the generator used {generator:.1%} of its core, at most {rules.generator_share_max:.1%} are allowed",
        ),
        (memory > rules.memory_bytes_max, f"the server used {memory / 1e6:.0f} MB of memory"),
        (lost > 0, f"{lost:.0f} messages were lost"),
    ]
    return RunVerdict(
        seconds=seconds,
        received_per_s=received / counted_s,
        dispatched_per_s=(b.dispatched_messages - a.dispatched_messages) / counted_s,
        server_share=server,
        generator_share=generator,
        memory_bytes=memory,
        reasons=tuple(text.replace("%", " %") for wrong, text in found if wrong),
    )


def titled(experiment: str, *, per_cpu_second: bool) -> str:
    """A title apart for measurements on a busy machine: their rates have another unit.

    >>> titled("quick", per_cpu_second=True), titled("quick", per_cpu_second=False)
    ('quick --busy', 'quick')
    """
    return experiment + BUSY if per_cpu_second else experiment


def to_rows(run: str, source: str, samples: Iterable[CounterSample], start_ms: int) -> list[dict[str, Any]]:
    """Rows of the table `samples`, one for each counter."""
    return [
        {
            "run": run,
            "source": source,
            "ms": start_ms + round(one.at_s * 1000),
            "metric": metric,
            "value": float(getattr(one, metric)),
            "labels": "{}",
        }
        for one in samples
        for metric in METRICS
    ]


@dataclass(frozen=True, slots=True)
class Found:
    """Values of a run that do not come from those counters, by metric, in the order of measurement."""

    found: list[tuple[str, float]]

    def rows(self, run: str, start_ms: int) -> list[dict[str, Any]]:
        """Rows of the table `samples`."""
        return [
            {"run": run, "source": "generator", "ms": start_ms, "metric": metric, "value": value, "labels": "{}"}
            for metric, value in self.found
        ]


def of_rows(rows: Iterable[Mapping[str, Any]]) -> list[CounterSample]:
    """Back from rows of one run; what is not one of the counters is left out."""
    found: dict[int, dict[str, float]] = {}
    for row in rows:
        if row["metric"] in METRICS:
            found.setdefault(row["ms"], {})[row["metric"]] = row["value"]
    whole = [(ms, values) for ms, values in sorted(found.items()) if len(values) == len(METRICS)]
    return [CounterSample((ms - whole[0][0]) / 1000, **values) for ms, values in whole]
