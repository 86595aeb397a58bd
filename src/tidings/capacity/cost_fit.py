"""Fits `BrokerCosts` to measured costs of messages, finds where another regime begins, and tests the fit.

The terms of a message's cost are linear in their values but for φ, the share of what is in flight that is taken in one
turn. A Tidings broker counts its reads and writes: from them follows the size of the turns that there really were, and
from these φ; so costs do not suffer from a machine whose other work makes turns larger or smaller. Of a broker that
does not count them φ is tried on a grid. The values are fitted by non-negative least squares of relative errors: a cost
of 1 µs and one of 1 ms count alike. Errors are relative to the geometric mean of what the fit says and what was
measured, in a few rounds: relative to one of them, half as much and twice as much would not count alike, and everything
would come out too cheap or too dear.

Where a broker comes upon another bottleneck (the thesis leaves out r ≥ 20), the points beyond belong to another model.
`find_break` sees that in the prediction: a fit without them is wrong about nearly all of them, in one direction, by far
more than about its own. Those points are excluded, and the domain ends before them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.processing import Errors
from tidings.capacity.traffic import DOMAIN, TERMS, Traffic, row
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = lazy("scipy.optimize")

SHARES = (0.005, 0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)  # φ
ROUNDS = 6  # of reweighting
EXPECTED_MIN = 1e-2  # of what was measured
TURN_MAX, HALVINGS = 1e6, 30
SEVERAL = 2  # messages in flight of a connection
_READ, _WRITE = list(TERMS).index("read"), list(TERMS).index("write")
FOLDS = 10
BREAK_FACTOR, BREAK_MIN = 3.0, 0.25  # beyond a break errors are larger than both: than those before, and than this
BEYOND_MIN = 2  # points
TURNED = ("receivers", "in_flight", "filters", "body", "properties")  # variables with a possible break


@dataclass(frozen=True, slots=True)
class CostPoint:
    """CPU seconds of a message under this traffic, as measured."""

    traffic: Traffic
    seconds: float
    name: str = ""
    reads: float | None = None  # per message; None: not counted
    writes: float | None = None

    def __post_init__(self) -> None:
        check_finite("seconds", self.seconds, 0, open_low=True)

    @property
    def counted(self) -> bool:
        """True if its reads are those of messages alone, without acknowledgements."""
        return bool(self.reads) and self.writes is not None and not self.traffic.persistent

    @property
    def several(self) -> bool:
        """True if a connection has several messages in flight: with one, every read brings one, however many wait."""
        return self.traffic.in_flight >= SEVERAL * self.traffic.publishers

    @property
    def turn_size(self) -> float:
        """Messages in a turn, from the reads of a message: reads(k)/k falls with k."""
        low, high = 0.0, math.log(TURN_MAX)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            k = math.exp(middle)
            more = float(self.traffic.reads(np.array([k]))[0]) / k > (self.reads or 1.0)
            low, high = (middle, high) if more else (low, middle)
        return math.exp(low)

    def row(self, share: float) -> Array:
        """The factors of TERMS, as counted if they were."""
        if not self.counted:
            return row(self.traffic, self.traffic.turn_size(share))
        k = self.turn_size if self.several else self.traffic.turn_size(share)
        factors = row(self.traffic, k)
        factors[_READ], factors[_WRITE] = self.reads, self.writes
        return factors


@dataclass(frozen=True, slots=True)
class RegimeBreak:
    """From this value of a variable on costs are not those of the model."""

    variable: str
    value: float
    error: float  # relative, of the costs beyond


def fit_broker(points: Sequence[CostPoint], wake: float = 0.0, *, excluded: Sequence[str] = ()) -> BrokerCosts:
    """`excluded`: names of points that the fit must leave out. Refuses (E_LAB_RANK) too few points."""
    used = [one for one in points if one.name not in excluded]
    reasons = [f"{name}: by request" for name in excluded]
    found = find_break(used)
    if found is not None:
        beyond = [one for one in used if getattr(one.traffic, found.variable) >= found.value]
        reasons += [f"{one.name}: another regime, {found.variable} from {found.value:g} on" for one in beyond]
        used = [one for one in used if one not in beyond]
    share, values = _fitted(used)
    costs = BrokerCosts(
        tuple(values.tolist()),
        share,
        {name: _range([getattr(one.traffic, name) for one in used]) for name in DOMAIN},
        tuple(sorted({one.traffic.persistent for one in used})),
        _covariance(used, share, values),
        wake,
        len(used),
        excluded=tuple(reasons),
    )
    return replace(costs, errors=errors_of(costs, used), held_out=_summary(cross_validated(used, share)))


def errors_of(costs: BrokerCosts, points: Sequence[CostPoint]) -> Errors:
    """Relative errors of predicted costs."""
    return _summary(np.array([costs.cost(one.traffic) / one.seconds - 1 for one in points]))


def cross_validated(points: Sequence[CostPoint], share: float) -> Array:
    """Relative errors at each point of fits without its fold."""
    folds = np.arange(len(points)) % min(FOLDS, len(points))
    errors = np.empty(len(points))
    for fold in range(int(folds.max()) + 1):
        kept = [one for one, place in zip(points, folds, strict=True) if place != fold]
        values = _solve(_matrix(kept, share), _target(kept))
        held = np.flatnonzero(folds == fold)
        predicted = _matrix([points[i] for i in held.tolist()], share) @ values
        errors[held] = predicted / _target([points[i] for i in held.tolist()]) - 1
    return errors


def find_break(points: Sequence[CostPoint]) -> RegimeBreak | None:
    """The break that concerns the fewest points, if there is one."""
    best: tuple[int, RegimeBreak] | None = None
    for variable in TURNED:
        levels = sorted({float(getattr(one.traffic, variable)) for one in points})
        for value in levels[len(levels) // 2 :]:
            below = [one for one in points if getattr(one.traffic, variable) < value]
            beyond = [one for one in points if getattr(one.traffic, variable) >= value]
            if len(beyond) < BEYOND_MIN or len(below) < len(points) * 2 // 3 or not _determined(below, points):
                continue
            share, values = _fitted(below)
            own = _matrix(below, share) @ values / _target(below) - 1
            errors = _matrix(beyond, share) @ values / _target(beyond) - 1
            error, typical = float(np.median(errors)), float(np.sqrt(np.mean(own**2)))
            apart = np.sign(error) * errors > max(BREAK_FACTOR * typical, BREAK_MIN)
            if apart.all() and (best is None or len(beyond) < best[0]):
                best = len(beyond), RegimeBreak(variable, value, error)
    return None if best is None else best[1]


def _determined(some: Sequence[CostPoint], every: Sequence[CostPoint]) -> bool:
    """True if these points tell of all terms that all points tell of: else a wrong prediction means nothing."""
    ranks = [int(np.linalg.matrix_rank(_scaled(_matrix(points, 0.5)))) for points in (some, every)]
    return ranks[0] == ranks[1]


def _scaled(matrix: Array) -> Array:
    norms = np.linalg.norm(matrix, axis=0)
    return np.asarray(matrix / np.where(norms == 0, 1.0, norms), dtype=np.float64)


def _fitted(points: Sequence[CostPoint]) -> tuple[float, Array]:
    """φ and the values."""
    varied = int(np.linalg.matrix_rank(_scaled(_matrix(points, 0.5)))) if points else 1
    if len(points) < varied + 1:
        raise refuse(f"{len(points)} points determine no model of {varied} terms; measure more", "E_LAB_RANK")
    target = _target(points)
    tried = []
    for share in _shares(points):
        matrix = _matrix(points, share)
        values = _solve(matrix, target)
        tried.append((float(np.mean((matrix @ values / target - 1) ** 2)), share, values))
    _, share, values = min(tried, key=lambda one: one[0])
    return share, values


def _shares(points: Sequence[CostPoint]) -> Sequence[float]:
    """Those to try: one, if turns were counted."""
    counted = [one for one in points if one.counted and one.several]
    if len(counted) * 4 < len(points):
        return SHARES
    sizes = np.log([one.turn_size for one in counted])

    def error(share: float) -> float:
        return float(np.mean(np.abs(np.log([one.traffic.turn_size(share) for one in counted]) - sizes)))

    return [min(SHARES, key=error)]


def _matrix(points: Sequence[CostPoint], share: float) -> Array:
    return np.array([one.row(share) for one in points], dtype=np.float64)


def _target(points: Sequence[CostPoint]) -> Array:
    return np.array([one.seconds for one in points], dtype=np.float64)


def _solve(matrix: Array, target: Array) -> Array:
    expected = target
    scale = np.linalg.norm(matrix / target[:, None], axis=0)
    scale[scale == 0] = 1.0
    values = np.zeros(matrix.shape[1])
    for _ in range(ROUNDS):
        solution, _ = optimize.nnls(matrix / expected[:, None] / scale, target / expected)
        values = solution / scale
        expected = np.sqrt(np.maximum(matrix @ values, target * EXPECTED_MIN) * target)
    return np.asarray(values, dtype=np.float64)


def _covariance(points: Sequence[CostPoint], share: float, values: Array) -> tuple[tuple[float, ...], ...]:
    """Of the values that are not 0; of relative errors that are alike everywhere."""
    positive = np.flatnonzero(values > 0)
    predicted = _matrix(points, share) @ values
    relative = _matrix(points, share)[:, positive] / predicted[:, None]
    scale = np.linalg.norm(relative, axis=0)
    degrees = max(1, len(points) - len(positive))
    noise = float(np.sum((_target(points) / predicted - 1) ** 2)) / degrees
    part = np.linalg.pinv((relative / scale).T @ (relative / scale)) * noise / np.outer(scale, scale)
    covariance = np.zeros((len(TERMS), len(TERMS)))
    covariance[np.ix_(positive, positive)] = part
    return tuple(tuple(line) for line in covariance.tolist())


def _range(values: Sequence[float]) -> tuple[float, float]:
    return float(min(values)), float(max(values))


def _summary(relative: Array) -> Errors:
    return Errors(float(np.sqrt(np.mean(relative**2))), float(np.max(np.abs(relative))))
