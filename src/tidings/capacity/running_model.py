"""The planner's answers for the broker that runs: from the costs and the load that it publishes itself.

Every figure has an interval: the costs may be off by as much as the broker says its capacity is, and all is computed
with cheaper and with dearer costs as well. What was asked about and is not like what the broker has seen (`DOMAIN`
times more or less) is listed: there the costs were never measured.

>>> from tidings.capacity.batch_costs import BatchCosts
>>> costs = BatchCosts(t_batch=25e-6, t_write=5e-6, t_rcv=4e-7, t_fltr=0.0, t_tx=6e-8)
>>> seen = PresentLoad(200, 200, 0.05, 100, 100, 0, together=True)
>>> answer = RunningModel(costs, seen, 0.1).plan(LoadAsked(match=0.2, waiting_max_s=1e-3))
>>> answer.outside
('match is 0.2, the broker has seen 0.05',)
>>> low, middle, high = answer.busiest
>>> low < middle < high
True
"""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace

from tidings.capacity.arrays import refuse
from tidings.capacity.batch_costs import FITTED, BatchCosts
from tidings.capacity.online import UTILISATION_MAX, PresentLoad
from tidings.capacity.online_batches import UNTOLD, BatchServer
from tidings.errors import UsageError

DOMAIN = 2.0
BODY = "bytes_in"
Interval = tuple[float, float, float]  # low, best estimate, high
_SAMPLE = re.compile(r'^tidings_(\w+)(?:\{\w+="([^"]*)"\})? ([0-9.eE+-]+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LoadAsked:
    """None: as the broker has seen it. `body`: bytes of a message on its way in; copies change by as much."""

    subscribers: float | None = None
    match: float | None = None
    filters_each: float | None = None  # of a subscriber
    body: float | None = None
    rate: float | None = None
    waiting_max_s: float = 0.1
    probability: float = 0.9999


@dataclass(frozen=True, slots=True)
class RunningAnswer:
    outside: tuple[str, ...]  # of what the broker has seen
    busiest: Interval  # messages a second at UTILISATION_MAX
    rate_allowed: Interval  # for the waiting time asked about
    busy: Interval | None  # at the rate asked about; None: none was, or it may be too much
    waiting_mean: Interval | None
    waiting_quantile: Interval | None

    @property
    def enough(self) -> Callable[[float], bool | None]:
        """True, False, or None where the interval does not decide it."""
        low, _, high = (min(pair) for pair in zip(self.rate_allowed, self.busiest, strict=True))
        return lambda rate: True if rate <= low else False if rate > high else None


@dataclass(frozen=True, slots=True)
class RunningModel:
    costs: BatchCosts
    seen: PresentLoad
    error: float  # relative, of costs: half the width of the 95 % interval

    @classmethod
    def from_metrics(cls, text: str) -> "RunningModel":
        """Read what a broker's /metrics say; refuses (E_PLAN_MEASURING) one that does not know its costs yet."""
        told: dict[tuple[str, str], float] = {
            (name, label): float(value) for name, label, value in _SAMPLE.findall(text)
        }
        parts = {one: {label: value for (name, label), value in told.items() if name == one} for one in _PARTS}
        capacity = told.get(("capacity_messages_per_second", ""))
        if not capacity or not all(parts.values()):
            raise refuse(
                "the broker does not know its costs yet; let it carry messages at different rates for a minute",
                "E_PLAN_MEASURING",
            )
        load = parts["load"]
        try:
            seen = PresentLoad.from_values(load)
            costs, bounds = BatchCosts(**parts["cost_seconds"]), parts["capacity_interval"]
            error = (bounds["high"] - bounds["low"]) / 2 / capacity
        except (KeyError, TypeError) as failure:
            raise refuse(f"these are not the metrics of such a broker: {failure}", "E_PLAN_METRICS") from None
        return cls(costs, seen, error)

    def plan(self, asked: LoadAsked) -> RunningAnswer:
        load = self._load(asked)
        cheap, middle, dear = (self._server(load, factor) for factor in (1 - self.error, 1.0, 1 + self.error))
        servers = (dear, middle, cheap)
        busiest = _three(*(server.capacity(UTILISATION_MAX) for server in servers))
        allowed = _three(*(server.rate_allowed(asked.waiting_max_s, asked.probability) for server in servers))
        answer = RunningAnswer(self._outside(load), busiest, allowed, None, None, None)
        if asked.rate is None:
            return answer
        try:
            looks = [server.outlook(asked.rate, (asked.probability,)) for server in (cheap, middle, dear)]
        except UsageError as error:
            if error.code not in UNTOLD:
                raise
            return answer
        return replace(
            answer,
            busy=_three(*(one.busy for one in looks)),
            waiting_mean=_three(*(one.waiting_mean for one in looks)),
            waiting_quantile=_three(*(one.waiting_quantiles[0][1] for one in looks)),
        )

    def _load(self, asked: LoadAsked) -> PresentLoad:
        seen = self.seen
        changes = {"subscribers": asked.subscribers, "match": asked.match, BODY: asked.body}
        if seen.subscribers > 0 and (asked.subscribers, asked.filters_each) != (None, None):
            each = seen.filters / seen.subscribers if asked.filters_each is None else asked.filters_each
            changes["filters"] = each * (seen.subscribers if asked.subscribers is None else asked.subscribers)
        values = asdict(seen) | {name: value for name, value in changes.items() if value is not None}
        load = PresentLoad.from_values(values)
        if asked.body is not None:
            load = replace(load, bytes_out=max(0.0, seen.bytes_out + asked.body - seen.bytes_in))
        return load

    def _server(self, load: PresentLoad, factor: float) -> BatchServer:
        scaled = {name: getattr(self.costs, name) * factor for name in FITTED}
        return load.server(replace(self.costs, **scaled))

    def _outside(self, load: PresentLoad) -> tuple[str, ...]:
        found = []
        for one in fields(load):
            now, seen = float(getattr(load, one.name)), float(getattr(self.seen, one.name))
            if not seen / DOMAIN <= now <= seen * DOMAIN and one.name != "bytes_out":
                found.append(f"{one.name} is {now:.6g}, the broker has seen {seen:.6g}")
        return tuple(found)


_PARTS = ("cost_seconds", "load", "capacity_interval")


def _three(low: float, middle: float, high: float) -> Interval:
    return low, middle, high
