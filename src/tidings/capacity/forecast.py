"""Computes rates from waiting-time bounds and the reverse, or refuses with the reason.

A scenario is a server, what it has to do per message, and how the replication grade varies. From it follow the
moments of the service time, and from those and a rate the waiting time, as in `tidings.capacity.waiting`.

>>> from tidings.capacity.service import Binomial
>>> from tidings.capacity.thesis import FIORANO_PROPERTY
>>> scenario = CapacityScenario(FIORANO_PROPERTY, filters=100, replication=Binomial(100, 0.01))
>>> plan = forecast(scenario, utilisation=0.9)
>>> round(plan.rate), round(plan.waiting_quantile * 1e3)  # messages a second, milliseconds in 99.99 % of all cases
(608, 64)
>>> answer = allow(scenario, rate=500, waiting_max=0.030)
>>> round(answer.rate_max), answer.filters_max
(540, 106)
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidings.capacity.arrays import check_finite, refuse
from tidings.capacity.processing import Fitted, Load
from tidings.capacity.service import Moments, Replication, service_moments, thinned
from tidings.capacity.waiting import GammaWaiting
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = lazy("scipy.optimize")

FILTERS_MAX = 1 << 40
SERVERS_MAX = 1 << 16
RHO_MAX = 1 - 1e-9  # a search for the largest utilisation ends here


@dataclass(frozen=True, slots=True)
class CapacityScenario:
    server: Fitted
    filters: float
    replication: Replication
    different: float | None = None
    components: float = 1.0

    @property
    def load(self) -> Load:
        return Load(self.filters, float(self.replication.moments().first), self.different, self.components)

    def service(self, servers: int = 1) -> Moments:
        """Moments of the service time; with several servers, of one that has its share of the subscribers."""
        grades = thinned(self.replication.moments(), 1 / servers)
        different = None if self.different is None else self.different / servers
        load = Load(self.filters / servers, 0.0, different, self.components)
        return service_moments(self.server.fixed(load), self.server.t_tx, grades)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Prediction for a scenario at one rate. Times in seconds."""

    rate: float  # received messages per second
    overall: float  # received and sent
    utilisation: float
    service_mean: float
    service_c_var: float
    waiting_mean: float
    probability: float
    waiting_quantile: float  # not exceeded with this probability
    backlog: float  # messages that arrive in that time: what the buffer should hold


@dataclass(frozen=True, slots=True)
class Allowed:
    """The demand can be met by one server, and this is how far it may grow, one thing at a time."""

    forecast: Forecast
    utilisation_max: float
    rate_max: float
    filters_max: int


@dataclass(frozen=True, slots=True)
class CapacityRefused:
    """One server cannot meet the demand; several may. None: not with any number up to SERVERS_MAX."""

    reason: str
    utilisation_needed: float
    utilisation_max: float  # at which the waiting time would still be within bounds
    publisher_side: int | None  # servers, each with all filters and its share of the messages
    subscriber_side: int | None  # servers, each with all messages and its share of the filters


def forecast(scenario: CapacityScenario, utilisation: float = 0.9, probability: float = 0.9999) -> Forecast:
    """Rate and waiting times at this utilisation."""
    check_finite("utilisation", utilisation, 0, RHO_MAX, open_low=True)
    return forecast_at(scenario, scenario.server.capacity(scenario.load, utilisation), probability)


def forecast_at(scenario: CapacityScenario, rate: float, probability: float = 0.9999) -> Forecast:
    """Utilisation and waiting times at this rate."""
    service = scenario.service()
    waiting = GammaWaiting.of(rate, service)
    quantile = float(waiting.quantile(probability))
    return Forecast(
        rate=rate,
        overall=rate * (1 + scenario.load.replication),
        utilisation=float(waiting.rho),
        service_mean=float(service.first),
        service_c_var=float(service.c_var),
        waiting_mean=float(waiting.mean),
        probability=probability,
        waiting_quantile=quantile,
        backlog=rate * quantile,
    )


def utilisation_allowed(service: Moments, waiting_max: float, probability: float = 0.9999) -> float:
    """The largest ρ at which the waiting time stays within the bound with this probability.

    The quantile rises with ρ, from zero as long as ρ ≤ 1 − p.
    """
    check_finite("waiting_max", waiting_max, 0)
    mean = float(service.first)

    def excess(rho: float) -> float:
        return float(GammaWaiting.of(rho / mean, service).quantile(probability)) - waiting_max

    low = 1 - probability
    if excess(RHO_MAX) <= 0:
        return RHO_MAX
    return float(optimize.brentq(excess, low * 0.5, RHO_MAX, xtol=1e-13)) if waiting_max > 0 else low


def allow(
    scenario: CapacityScenario, rate: float, waiting_max: float, probability: float = 0.9999
) -> Allowed | CapacityRefused:
    """Decides if one server carries this rate within this waiting time; returns the reserve or what is needed."""
    check_finite("rate", rate, 0, open_low=True)
    service = scenario.service()
    mean = float(service.first)
    limit = utilisation_allowed(service, waiting_max, probability)
    if _fits(service, rate, waiting_max, probability):
        filters = _largest(
            lambda n: _fits(replace(scenario, filters=n).service(), rate, waiting_max, probability),
            int(scenario.filters),
        )
        return Allowed(forecast_at(scenario, rate, probability), limit, limit / mean, filters)
    needed = rate * mean
    asked = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    longer = f"more than {100 * (1 - probability):.2g} % of them would wait longer than {1000 * waiting_max:.3g} ms"
    what = "no server takes it" if needed >= 1 else longer
    return CapacityRefused(
        reason=f"{asked} messages a second need {needed:.1%} of a server, {limit:.1%} are allowed: {what}",
        utilisation_needed=needed,
        utilisation_max=limit,
        publisher_side=_fewest(lambda n: _fits(service, rate / n, waiting_max, probability)),
        subscriber_side=_fewest(lambda n: _fits(scenario.service(n), rate, waiting_max, probability)),
    )


def filters_within(server: Fitted, service_max: float, replication: float = 1.0) -> int:
    """The largest number of filters that keeps the mean service time E[B] within a bound (section 5.2.3)."""
    check_finite("service_max", service_max, 0)
    if server.processing_time(Load(0, replication)) > service_max:
        raise refuse(f"a message takes longer than {service_max:g} s without any filter")
    return _largest(lambda n: server.processing_time(Load(n, replication)) <= service_max, 0)


def _fits(service: Moments, rate: float, waiting_max: float, probability: float) -> bool:
    if rate * float(service.first) > RHO_MAX:
        return False
    return float(GammaWaiting.of(rate, service).quantile(probability)) <= waiting_max


def _largest(holds: Callable[[int], bool], start: int) -> int:
    """The largest n ≥ start for which a condition that ends at some point still holds; at most FILTERS_MAX."""
    step, low = 1, start
    while low + step <= FILTERS_MAX and holds(low + step):
        low, step = low + step, 2 * step
    if low + step > FILTERS_MAX:
        return FILTERS_MAX
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _fewest(holds: Callable[[int], bool]) -> int | None:
    """The smallest n from 2 for which a condition that stays true holds; None beyond SERVERS_MAX."""
    if not holds(SERVERS_MAX):
        return None
    low, high = 1, SERVERS_MAX
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
