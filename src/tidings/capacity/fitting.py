"""From measurements to a model: non-negative least squares on 1/throughput, and the choice among models.

The thesis's (4.8): min ‖Xβ − y‖ with β ≥ 0, where y is the measured processing time, the inverse of the received
throughput. A measurement that says how sure it is counts accordingly: its row is divided by the standard deviation
of y, which is σ/x² for a throughput x with standard deviation σ.

The choice is by cross-validation: each measurement is predicted by a fit that has not seen it. More terms always fit
better what was seen; only held-out points tell. Among models whose held-out error is within one standard error of
the best, the one with the fewest terms wins, then the first in the table.

>>> from tidings.capacity.thesis import BEA_PROPERTY as server
>>> loads = [Load(n, r) for n in (5, 20, 80, 160) for r in (1, 5, 20)]
>>> measured = [Measurement(load, server.received(load)) for load in loads]
>>> choose(measured).best.name
'base'
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array, check_finite, refuse
from tidings.capacity.processing import MODELS, Errors, Fitted, Load, Model, model_named
from tidings.errors import UsageError
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize, stats
else:
    optimize, stats = lazy("scipy.optimize"), lazy("scipy.stats")

FOLDS_MAX = 60  # beyond that many points, several are held out together
LEFT_MIN = 1e-9  # a row with less left of its residual alone decides a parameter


@dataclass(frozen=True, slots=True)
class Measurement:
    load: Load
    received: float  # messages per second
    deviation: float | None = None  # standard deviation of `received`, e.g. of the mean over runs

    def __post_init__(self) -> None:
        check_finite("received", self.received, 0, open_low=True)
        if self.deviation is not None:
            check_finite("deviation", self.deviation, 0, open_low=True)


@dataclass(frozen=True, slots=True)
class Score:
    model: str
    held_out: Errors | None  # None: these measurements are too few, or cannot tell the model's terms apart
    fitted: Fitted | None


@dataclass(frozen=True, slots=True)
class ModelChoice:
    best: Fitted
    scores: tuple[Score, ...]


def fit(name: str, measurements: Sequence[Measurement], level: float = 0.95) -> Fitted:
    """The model with its best non-negative parameters, and their confidence intervals from the covariance.

    The interval of a parameter that was held at zero by the constraint reaches from there as far up as its deviation
    allows. There are none if there are no more measurements than parameters, or if one alone decides a parameter.
    """
    check_finite("level", level, 0, 1, open_low=True)
    model = model_named(name)
    matrix, target = _system(model, measurements)
    _check_rank(model, matrix)
    values = _solve(matrix, target)
    intervals = _intervals(matrix, target, values, level)
    return replace(
        Fitted(name, tuple(values.tolist())),
        intervals=intervals,
        level=None if intervals is None else level,
        points=len(measurements),
        errors=_errors(_relative_errors(model, values, measurements)),
    )


def bootstrap(
    fitted: Fitted,
    measurements: Sequence[Measurement],
    rng: np.random.Generator,
    rounds: int = 400,
    level: float = 0.95,
) -> Fitted:
    """The same fit with percentile intervals: it is repeated on samples of the measurements, drawn with replacement."""
    check_finite("level", level, 0, 1, open_low=True)
    check_finite("rounds", rounds, 1, 1_000_000)
    matrix, target = _system(fitted.model, measurements)
    draws = rng.integers(0, len(target), size=(rounds, len(target)))
    values = np.array([_solve(matrix[rows], target[rows]) for rows in draws])
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    pairs = tuple((float(a), float(b)) for a, b in zip(low, high, strict=True))
    return replace(fitted, intervals=pairs, level=level)


def held_out_errors(name: str, measurements: Sequence[Measurement], folds: int | None = None) -> Array:
    """Relative errors of the received throughput at each measurement, predicted from a fit without its fold."""
    count = len(measurements)
    folds = min(count, FOLDS_MAX) if folds is None else folds
    check_finite("folds", folds, 2, count)
    model = model_named(name)
    matrix, target = _system(model, measurements)
    errors = np.empty(count)
    fold_of = np.arange(count) % folds
    for fold in range(folds):
        values = _solve(matrix[fold_of != fold], target[fold_of != fold])
        held = np.flatnonzero(fold_of == fold)
        errors[held] = _relative_errors(model, values, [measurements[i] for i in held.tolist()])
    return errors


def choose(measurements: Sequence[Measurement], models: Iterable[str] = tuple(MODELS)) -> ModelChoice:
    """The model that predicts held-out measurements best; see the top of this file for the rule."""
    names = tuple(models)
    scores: list[Score] = []
    squares: dict[str, Array] = {}
    for name in names:
        try:
            fitted = fit(name, measurements)
        except UsageError as error:
            if error.code != "E_LAB_RANK":
                raise
            scores.append(Score(name, None, None))
            continue
        relative = held_out_errors(name, measurements)
        squares[name], held_out = relative**2, _errors(relative)
        scores.append(Score(name, held_out, replace(fitted, held_out=held_out)))
    if not squares:
        raise refuse(
            f"these {len(measurements)} measurements determine no model; vary filters and receivers", "E_LAB_RANK"
        )
    if not any(np.isfinite(one).all() for one in squares.values()):
        nothing = "every model, fitted to all but one of these measurements, says that this one takes no time at all"
        raise refuse(f"{nothing}: measure more points, or others", "E_LAB_CHOICE")
    best = min(squares, key=lambda name: float(squares[name].mean()))
    bound = squares[best].mean() + squares[best].std() / math.sqrt(len(measurements)) + 1e-18
    good = [score.fitted for score in scores if score.fitted and squares[score.model].mean() <= bound]
    return ModelChoice(min(good, key=lambda fitted: len(fitted.values)), tuple(scores))


def _system(model: Model, measurements: Sequence[Measurement]) -> tuple[Array, Array]:
    if len(measurements) < len(model.terms):
        few = f"{model.name} needs at least {len(model.terms)} measurements, not {len(measurements)}"
        raise refuse(few, "E_LAB_RANK")
    given = [m.deviation for m in measurements if m.deviation is not None]
    if given and len(given) != len(measurements):
        raise refuse("give the deviation of all measurements or of none")
    matrix = np.array([model.row(m.load) for m in measurements], dtype=np.float64)
    received = np.array([m.received for m in measurements], dtype=np.float64)
    target = 1.0 / received
    if given:
        weights = received**2 / np.array(given, dtype=np.float64)
        weights /= weights.max()
        matrix, target = matrix * weights[:, None], target * weights
    return matrix, target


def _solve(matrix: Array, target: Array) -> Array:
    """NNLS with columns scaled to unit length: factors span many orders of magnitude, parameters as well."""
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    unit = float(np.linalg.norm(target)) or 1.0
    solution, _ = optimize.nnls(matrix / scale, target / unit)
    return np.asarray(solution * unit / scale, dtype=np.float64)


def _check_rank(model: Model, matrix: Array) -> None:
    scale = np.linalg.norm(matrix, axis=0)
    rank = int(np.linalg.matrix_rank(matrix / np.where(scale == 0, 1.0, scale), tol=1e-9))
    if rank < len(model.terms):
        raise refuse(
            f"the measurements do not determine the terms of {model.formula}; measure other points", "E_LAB_RANK"
        )


def _intervals(matrix: Array, target: Array, values: Array, level: float) -> tuple[tuple[float, float], ...] | None:
    """None: no measurement is left over to tell how much they scatter.

    Throughputs scatter in proportion, so slow points scatter more in seconds than fast ones. The covariance is thus
    the one that holds whatever the error of each row (HC3: every residual as if its row had not been fitted).
    """
    degrees = len(target) - len(values)
    if degrees <= 0:
        return None
    scale = np.linalg.norm(matrix, axis=0)
    unit = float(np.linalg.norm(target)) or 1.0
    inverse = np.linalg.pinv(matrix / scale)
    left = 1 - np.einsum("ij,ji->i", matrix / scale, inverse)  # of each residual, after its row took part in the fit
    if left.min() < LEFT_MIN:
        return None
    residual = target / unit - matrix / scale @ (inverse @ (target / unit))  # as without the constraint
    deviation = np.sqrt(np.square(inverse) @ np.square(residual / left)) / scale * unit
    spread = deviation * stats.t.ppf((1 + level) / 2, degrees)
    return tuple((max(0.0, float(v - s)), float(v + s)) for v, s in zip(values, spread, strict=True))


def _relative_errors(model: Model, values: Array, measurements: Sequence[Measurement]) -> Array:
    predicted = np.array([model.row(m.load) for m in measurements], dtype=np.float64) @ values
    received = np.array([m.received for m in measurements], dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (predicted * received) - 1.0, dtype=np.float64)


def _errors(relative: Array) -> Errors:
    return Errors(float(np.sqrt(np.mean(relative**2))), float(np.max(np.abs(relative))))
