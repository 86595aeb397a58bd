"""Fits `BrokerCosts` to measured costs of messages, finds where another regime begins, and tests the fit.

The terms of a message's cost are linear in their values but for the sizes of turns. A Tidings broker counts its reads
and writes: of plain messages these are factors themselves, and of persistent ones the size of turns follows from them;
so costs do not suffer from a machine whose other work makes turns larger or smaller. Of a broker that does not count
them the share of what is in flight that a turn takes is tried on a grid.

The values are fitted by non-negative least squares of relative errors: a cost of 1 µs and one of 1 ms count alike.
Errors are relative to the geometric mean of what the fit says and what was measured, in a few rounds: relative to one
of them, half as much and twice as much would not count alike, and everything would come out too cheap or too dear.
Errors that are far larger than the typical one count for less (Huber's weights): on a machine with other work a few
points are wrong by a factor, always in one direction. What messages cost the clients is fitted alike.

Last, with costs known, the share and the pace of the clients are those that predict best without the counts. (Clients
are a little faster than their CPU time says, for some of it they spend waiting; where other work takes turns with them
they are slower.)

Where a broker comes upon another bottleneck (the thesis leaves out r ≥ 20), the points beyond belong to another model.
`find_break` sees that in the prediction: a fit without them is wrong about nearly all of them, in one direction, by far
more than about its own. Those points are excluded, and the domain ends before them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.processing import Errors
from tidings.capacity.traffic import CLIENT_TERMS, DOMAIN, TERMS, Traffic, client_row, row
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = lazy("scipy.optimize")

COUNTED_SHARES = (0.5, 0.7, 0.85, 1.0)
PACES = (0.7, 0.8, 0.9, 1.0, 1.15, 1.35, 1.6, 2.0)  # of clients, in units of their CPU time
SHARES = (0.005, 0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0)  # φ
ROUNDS = 8  # of reweighting
EXPECTED_MIN = 1e-2  # of what was measured
TURN_MAX, HALVINGS = 1e6, 30
TYPICAL_MIN, HUBER = 0.02, 2.0  # of relative errors: what is typical at least; how many times that still counts fully
MAD = 1.48  # of a normal distribution: its deviation in units of the median absolute one
_READ, _WRITE = list(TERMS).index("read"), list(TERMS).index("write")
_CLIENT_READ, _CLIENT_WRITE = list(CLIENT_TERMS).index("read"), list(CLIENT_TERMS).index("write")
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
    client_s: float | None = None  # CPU seconds of the clients; None: not known, or not of clients that send only

    def __post_init__(self) -> None:
        check_finite("seconds", self.seconds, 0, open_low=True)

    @property
    def counted(self) -> bool:
        return bool(self.reads) and self.writes is not None

    @property
    def turn_size(self) -> float:
        """Messages in a turn, from the counted ones: of persistent messages from the writes of receipts and copies."""
        return _turn_size(self)

    def row(self, share: float) -> Array:
        """The factors of TERMS, as counted if they were."""
        if not self.counted:
            return _row(self.traffic, self.traffic.turn_size(share))
        factors = _row(self.traffic, self.turn_size).copy()
        if not self.traffic.persistent:
            factors[_READ], factors[_WRITE] = self.reads, self.writes
        return factors

    def client_row(self, share: float) -> Array:
        """The factors of CLIENT_TERMS."""
        factors = client_row(self.traffic, self.turn_size if self.counted else self.traffic.turn_size(share))
        if self.counted:
            factors[_CLIENT_READ], factors[_CLIENT_WRITE] = self.reads, self.writes
        return factors


@dataclass(frozen=True, slots=True)
class RegimeBreak:
    """From this value of a variable on costs are not those of the model."""

    variable: str
    value: float
    error: float  # relative, of the costs beyond


@lru_cache(maxsize=1 << 14)
def _row(traffic: Traffic, k: float) -> Array:
    """Fits look at the same points again and again."""
    return row(traffic, k)


@lru_cache(maxsize=1 << 12)
def _turn_size(point: CostPoint) -> float:
    low, high = 0.0, math.log(TURN_MAX)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        k = np.array([math.exp(middle)])
        reads = float(point.traffic.reads(k)[0])
        expected, counted = reads, point.reads
        if point.traffic.persistent:
            expected, counted = reads + float(point.traffic.writes(k)[0]), point.writes
        more = expected / float(k[0]) > (counted or 1.0)
        low, high = (middle, high) if more else (low, middle)
    return min(math.exp(low), max(1.0, point.traffic.in_flight))


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
        client=_clients(used, share),
    )
    costs = _paced(costs, used)
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
    """Those to try."""
    return [1.0] if points and all(one.counted for one in points) else SHARES


def _clients(points: Sequence[CostPoint], share: float) -> tuple[float, ...]:
    known = [one for one in points if one.client_s]
    if len(known) <= len(CLIENT_TERMS):
        return ()
    matrix = np.array([one.client_row(share) for one in known])
    return tuple(_solve(matrix, np.array([one.client_s for one in known], dtype=np.float64)).tolist())


def _paced(costs: BrokerCosts, points: Sequence[CostPoint]) -> BrokerCosts:
    """With the share and the pace of clients that predict the costs of plain messages best."""
    plain = [one for one in points if one.client_s and one.counted and not one.traffic.persistent]
    if not costs.client or not plain:
        return costs
    tried = [
        replace(costs, share=share, client=tuple(pace * value for value in costs.client))
        for share in COUNTED_SHARES
        for pace in PACES
    ]

    def wrong(one: BrokerCosts) -> float:
        return float(np.mean([abs(math.log(one.cost(point.traffic) / point.seconds)) for point in plain]))

    return min(tried, key=wrong)


def _matrix(points: Sequence[CostPoint], share: float) -> Array:
    return np.array([one.row(share) for one in points], dtype=np.float64)


def _target(points: Sequence[CostPoint]) -> Array:
    return np.array([one.seconds for one in points], dtype=np.float64)


def _solve(matrix: Array, target: Array) -> Array:
    expected = target
    scale = np.linalg.norm(matrix / target[:, None], axis=0)
    scale[scale == 0] = 1.0
    values, weights = np.zeros(matrix.shape[1]), np.ones(len(target))
    for _ in range(ROUNDS):
        weighted = weights / expected
        solution, _ = optimize.nnls(matrix * weighted[:, None] / scale, target * weighted)
        values = solution / scale
        found = np.maximum(matrix @ values, target * EXPECTED_MIN)
        expected = np.sqrt(found * target)
        errors = np.abs(found - target) / expected
        typical = max(MAD * float(np.median(errors)), TYPICAL_MIN)
        weights = np.sqrt(np.minimum(1.0, HUBER * typical / np.maximum(errors, TYPICAL_MIN)))
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
