"""Non-negative least squares that goes on for ever: normal equations in which the past fades.

A k × k matrix and a vector, whatever the number of observations. While the load does not change, new observations
determine only one combination of the parameters and the others would drift on noise; so the equations carry a weak pull
to the last estimate: what is not seen keeps its value.
"""

from typing import TYPE_CHECKING

import numpy as np

from tidings.capacity.arrays import Array
from tidings.extras import lazy

if TYPE_CHECKING:
    from scipy import optimize
else:
    optimize = lazy("scipy.optimize")

WRONG_MAX = 1e3  # a relative error beyond is no worse
PULL = 1e-6  # weight of the last estimate against everything seen, per parameter


class FadingFit:
    """values ≈ argmin Σ weight·(row·values − target/weight)², over what has not faded."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self._matrix: Array = np.zeros((len(values), len(values)))
        self._vector: Array = np.zeros(len(values))
        self._errors: Array = np.zeros(2)  # weighted squares of relative errors, and weights

    def fade(self, factor: float) -> None:
        self._matrix *= factor
        self._vector *= factor
        self._errors *= factor

    def learn(self, row: Array, target: float, weight: float) -> None:
        """`weight` rows that together come to `target`. Before it is learnt, it is predicted."""
        if target > 0 and self._matrix.any():
            wrong = min(weight * float(row @ self.values) / target - 1, WRONG_MAX)
            self._errors += [weight * wrong**2, weight]
        self._matrix += weight * np.outer(row, row)
        self._vector += row * target
        self.values = self._solve()

    @property
    def error(self) -> float:
        """Root of the mean square of relative errors of predictions, each made before its target was seen."""
        return float(np.sqrt(self._errors[0] / self._errors[1])) if self._errors[1] else np.inf

    def _solve(self) -> Array:
        """min xᵀAx − 2bᵀx over x ≥ 0, as NNLS on the Cholesky factor of A, with columns scaled and the pull added."""
        scale = np.sqrt(np.diag(self._matrix))
        scale[scale == 0] = 1.0
        matrix = self._matrix / np.outer(scale, scale) + PULL * np.eye(len(scale))
        vector = self._vector / scale + PULL * self.values * scale
        factor = np.linalg.cholesky(matrix)
        target = np.linalg.solve(factor, vector)
        unit = float(np.linalg.norm(target)) or 1.0
        solution, _ = optimize.nnls(factor.T, target / unit)
        return np.asarray(solution * unit / scale, dtype=np.float64)
