"""The planner's answers from calibrated costs: every figure with its interval, and the smallest number of brokers.

Costs may be off by `BrokerCosts.error`, and everything is computed with cheaper and with dearer costs as well. A broker
has one core for its clients. Several brokers share the messages (each knows all subscribers), or the subscribers (each
gets all messages); as many are needed as let all keep the waiting time, carry at most UTILISATION_MAX of what saturates
them, and fit their network interface. That is not the same as being busy for that share of the time: a broker that is
always busy takes more messages in a turn, and carries several times more.

>>> costs = BrokerCosts.of({"turn": 10e-6, "write": 4e-6, "message": 1e-6, "copy": 2e-7}, share=1.0)
>>> from tidings.capacity.traffic import Interests
>>> traffic = Traffic(interests=Interests(100, 0.1), filters=100, in_flight=100)
>>> answer = plan_costs(costs, CostQuestion(traffic, rate=200_000, waiting_max_s=2e-3))
>>> [round(rate / 1000) for rate in (answer.busiest[1], answer.saturated[1], answer.rate_allowed[1])]
[21, 141, 127]
>>> answer.enough, answer.needed.by_messages
(False, (2, 2, 2))
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidings.capacity.arrays import check_finite, check_probability, refuse
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.online import UTILISATION_MAX
from tidings.capacity.online_batches import UNTOLD
from tidings.capacity.running_model import Interval
from tidings.capacity.traffic import Traffic
from tidings.errors import UsageError

HALVINGS = 12  # of a search for the largest rate
BROKERS_MAX = 1 << 14


@dataclass(frozen=True, slots=True)
class CostQuestion:
    traffic: Traffic
    rate: float | None = None
    waiting_max_s: float = 0.1
    probability: float = 0.9999
    nic_bytes_per_s: float | None = None  # of each direction

    def __post_init__(self) -> None:
        check_finite("waiting_max_s", self.waiting_max_s, 0, open_low=True)
        check_probability("probability", self.probability)
        for name in ("rate", "nic_bytes_per_s"):
            if getattr(self, name) is not None:
                check_finite(name, getattr(self, name), 0, open_low=True)


@dataclass(frozen=True, slots=True)
class BrokersNeeded:
    """The smallest numbers, with cheaper, these and dearer costs; None: more than BROKERS_MAX, or none would do."""

    by_messages: tuple[int | None, ...]
    by_subscribers: tuple[int | None, ...]
    cores: Interval  # CPU seconds a second of all brokers together, where messages are shared


@dataclass(frozen=True, slots=True)
class CostAnswer:
    outside: tuple[str, ...]  # of what was measured
    error: float
    message_s: Interval  # CPU time, with this number of messages in flight
    saturated: Interval  # messages a second, with this number in flight, of clients as fast as those of the calibration
    fast_clients: Interval  # the same, of clients that never make the broker wait
    busiest: Interval  # messages a second at UTILISATION_MAX, of many independent publishers
    rate_allowed: Interval  # for the waiting time
    nic_rate: float | None  # messages a second that the network interface carries
    busy: Interval | None = None  # at the rate asked about; None: none was, or it may be too much
    waiting_mean: Interval | None = None
    waiting_quantile: Interval | None = None
    enough: bool | None = None  # None: no rate was asked about, or the interval does not decide it
    needed: BrokersNeeded | None = None


def plan_costs(costs: BrokerCosts, question: CostQuestion) -> CostAnswer:
    """Refuses (E_PLAN_DOMAIN) persistent messages if none were measured: their costs are unknown, not uncertain."""
    if question.traffic.persistent and True not in costs.persistent:
        raise refuse("the model has no persistent messages; calibrate it with --persistent", "E_PLAN_DOMAIN")
    traffic, error = question.traffic, costs.error(question.traffic)
    models = (costs.scaled(1 / (1 + error)), costs, costs.scaled(1 + error))
    cheap, middle, dear = models
    each = (cheap.cost(traffic), middle.cost(traffic), dear.cost(traffic))
    answer = CostAnswer(
        costs.outside(traffic),
        error,
        each,
        _down(lambda one: 1 / one.cost(traffic), models),
        _down(lambda one: 1 / one.fast_clients.cost(traffic), models),
        _down(lambda one: one.rate_at(traffic, UTILISATION_MAX), models),
        _down(lambda one: rate_within(one, question), models),
        None if question.nic_bytes_per_s is None else question.nic_bytes_per_s / _nic_bytes(traffic),
    )
    return answer if question.rate is None else _at_rate(answer, models, question, question.rate)


def rate_within(costs: BrokerCosts, question: CostQuestion) -> float:
    """The largest rate at which the waiting time is kept; 0: waking up takes longer."""
    high = UTILISATION_MAX / costs.fast_clients.cost(question.traffic)
    if _keeps(costs, question, question.traffic, high):
        return high
    low = 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _keeps(costs, question, question.traffic, middle) else (low, middle)
    return low


def _at_rate(
    answer: CostAnswer, models: tuple[BrokerCosts, BrokerCosts, BrokerCosts], question: CostQuestion, rate: float
) -> CostAnswer:
    traffic = question.traffic
    nic = math.inf if answer.nic_rate is None else answer.nic_rate
    low, _, high = answer.rate_allowed
    enough = True if rate <= min(low, nic) else False if rate > min(high, nic) else None
    shared = tuple(_shared(rate, min(one, nic)) for one in answer.rate_allowed)[::-1]
    divided = tuple(_fewest(_divided(one, question, rate)) for one in models)
    cores = [rate * _per_message(one, traffic, rate / (count or 1)) for one, count in zip(models, shared, strict=True)]
    needed = BrokersNeeded(shared, divided, _three(cores))
    answer = replace(answer, enough=enough, needed=needed)
    try:
        queues = [one.queue(traffic, rate) for one in models]
        waits = [one.quantile(question.probability) for one in queues]
    except UsageError as error:
        if error.code not in UNTOLD:
            raise
        return answer
    return replace(
        answer,
        busy=_three([one.busy for one in queues]),
        waiting_mean=_three([one.waiting_mean for one in queues]),
        waiting_quantile=_three(waits),
    )


def _per_message(costs: BrokerCosts, traffic: Traffic, rate: float) -> float:
    """CPU seconds at this rate."""
    try:
        return costs.queue(traffic, rate).busy / rate
    except UsageError as error:
        if error.code not in UNTOLD:
            raise
        return costs.cost(traffic)


def _shared(rate: float, each: float) -> int | None:
    """Brokers that share the messages."""
    return None if each <= 0 else max(1, math.ceil(rate / each))


def _divided(costs: BrokerCosts, question: CostQuestion, rate: float) -> Callable[[int], bool]:
    """True for a number of brokers that share the subscribers."""

    def enough(count: int) -> bool:
        traffic = question.traffic
        part = replace(traffic, filters=traffic.filters / count, interests=traffic.interests.divided(count))
        if question.nic_bytes_per_s is not None and rate * _nic_bytes(part) > question.nic_bytes_per_s:
            return False
        return _keeps(costs, question, part, rate)

    return enough


def _keeps(costs: BrokerCosts, question: CostQuestion, traffic: Traffic, rate: float) -> bool:
    if rate * costs.fast_clients.cost(traffic) > UTILISATION_MAX * (1 + 1e-9):
        return False
    try:
        return costs.queue(traffic, rate).quantile(question.probability) <= question.waiting_max_s
    except UsageError as error:
        if error.code not in UNTOLD:
            raise
        return False


def _fewest(enough: Callable[[int], bool]) -> int | None:
    count = 1
    while not enough(count):
        count *= 2
        if count > BROKERS_MAX:
            return None
    low, high = count // 2, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _nic_bytes(traffic: Traffic) -> float:
    """Of a message in the direction that has more."""
    return traffic.size * max(1.0, traffic.receivers)


def _down(figure: Callable[[BrokerCosts], float], models: tuple[BrokerCosts, BrokerCosts, BrokerCosts]) -> Interval:
    """Of a figure that falls with costs."""
    cheap, middle, dear = models
    return figure(dear), figure(middle), figure(cheap)


def _three(values: list[float]) -> Interval:
    low, middle, high = values
    return low, middle, high
