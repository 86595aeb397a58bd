"""Non-negative least squares that goes on for ever: normal equations in which the past fades.

A k × k matrix and a vector, whatever the number of observations. Each observation says how far off it may be, and
counts in proportion. To these come weak equations that say where each parameter lies to begin with, and how far from
that it may be (`prior`, `spread`); they do not fade. So there is always an answer, and always an error bar: what the
observations leave open keeps the width of the prior.

The error bars are those of least squares, times how much worse than expected recent observations were predicted, each
before it was learnt.

>>> fit = FadingFit(np.array([1.0, 1.0]), np.array([1.0, 1.0]))
>>> for _ in range(100):
...     _ = fit.learn(np.array([1.0, 1.0]), 5.0, noise=0.1)
>>> bool(abs(fit.values.sum() - 5.0) < 0.01), round(fit.error(np.array([1.0, 1.0])), 2)
(True, 0.01)
>>> round(fit.error(np.array([1.0, -1.0])), 2)  # only their sum was observed
1.41
"""

from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = lazy("scipy.optimize")

WRONG_MAX = 16.0  # a square of an error, in units of its noise, beyond which an observation is no worse


class FadingFit:
    """values ≈ argmin Σ ((row·values − target)/noise)² over what has not faded, and the prior."""

    def __init__(self, prior: Array, spread: Array) -> None:
        self.values = prior
        self._scale = spread  # parameters are counted in these, so that the matrix is well conditioned
        self._prior = prior / spread
        self._matrix: Array = np.zeros((len(prior), len(prior)))
        self._vector: Array = np.zeros(len(prior))
        self._wrong: Array = np.zeros(2)  # squares of errors of predictions in units of their noise, and their number

    def fade(self, factor: float) -> None:
        self._matrix *= factor
        self._vector *= factor
        self._wrong *= factor

    def learn(self, row: Array, target: float, noise: float) -> float:
        """Before it is learnt, it is predicted; returns by how many times its standard error that was off."""
        expected = float(np.hypot(noise, self.error(row)))
        off = (float(row @ self.values) - target) / expected
        self._wrong += [min(off**2, WRONG_MAX), 1.0]
        scaled = row * self._scale / noise
        self._matrix += np.outer(scaled, scaled)
        self._vector += scaled * (target / noise)
        self._solve()
        return off

    def error(self, row: Array) -> float:
        """The standard error of row·values."""
        scaled = row * self._scale
        variance = float(scaled @ np.linalg.solve(self._matrix + np.eye(len(scaled)), scaled))
        return float(np.sqrt(variance * self._worse))

    @property
    def _worse(self) -> float:
        squares, number = self._wrong.tolist()
        return max(1.0, squares / number) if number > 1 else 1.0

    def _solve(self) -> None:
        """min xᵀAx − 2bᵀx over x ≥ 0, as NNLS on the Cholesky factor of A."""
        factor = np.linalg.cholesky(self._matrix + np.eye(len(self._vector)))
        target = np.linalg.solve(factor, self._vector + self._prior)
        unit = float(np.linalg.norm(target)) or 1.0
        solution, _ = optimize.nnls(factor.T, target / unit)
        self.values = np.asarray(solution * unit * self._scale, dtype=np.float64)
