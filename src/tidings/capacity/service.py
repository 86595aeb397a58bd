"""The service time of a message: B = D + R·t_tx, with R the replication grade, and its first three raw moments.

D is what every message costs (receiving and filtering), R·t_tx what its copies cost. How much B varies decides how
long messages wait, and all that `tidings.capacity.waiting` needs of B is E[B], E[B²], E[B³].

R is one of the thesis's three distributions (section 5.2.2), Poisson (for when only the mean is known), or what was
counted. The thesis prints some moments wrongly: (5.34) lacks a factor 2, and (5.43) is the variance of the binomial
distribution, not its second moment, from which (5.44) follows wrongly as well. Here are the corrected forms.

>>> moments = service_moments(fixed=1.0, t_tx=1.0, replication=Binomial(4, 0.5).moments())
>>> moments.first, moments.second, moments.third
(3.0, 10.0, 36.0)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidings.capacity.arrays import Array, Floats, check_finite, check_probability, refuse


@dataclass(frozen=True, slots=True)
class Moments:
    """The first three raw moments of a distribution, or of many at once when the fields are arrays."""

    first: Floats
    second: Floats
    third: Floats

    @property
    def variance(self) -> Floats:
        return np.maximum(self.second - self.first**2, 0.0)[()]

    @property
    def c_var(self) -> Floats:
        """(5.36): standard deviation over mean."""
        return np.sqrt(self.variance) / self.first

    def scaled(self, factor: Floats) -> "Moments":
        return Moments(self.first * factor, self.second * factor**2, self.third * factor**3)


class Replication(Protocol):
    """Interface of a distribution of replication grades."""

    def moments(self) -> Moments: ...
    def generating(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """E[z^R], for the transform of the service time."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> Array: ...


@dataclass(frozen=True, slots=True)
class Deterministic:
    """(5.37), (5.38): every message is sent to the same number of receivers."""

    grade: float

    def __post_init__(self) -> None:
        check_finite("grade", self.grade, 0)

    def moments(self) -> Moments:
        return Moments(float(self.grade), float(self.grade) ** 2, float(self.grade) ** 3)

    def generating(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.power(z, self.grade)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.full(size, float(self.grade))


@dataclass(frozen=True, slots=True)
class ScaledBernoulli:
    """(5.39) to (5.41): a message goes to all filters with probability p, else to none."""

    filters: float
    match_probability: float

    def __post_init__(self) -> None:
        check_finite("filters", self.filters, 0)
        check_probability("match_probability", self.match_probability)

    @classmethod
    def from_moments(cls, first: float, second: float) -> "ScaledBernoulli":
        """The inverse below (5.40): n = E[R²]/E[R], p = E[R]/n."""
        check_finite("first", first, 0, open_low=True)
        return cls(second / first, first**2 / second)

    def moments(self) -> Moments:
        n, p = self.filters, self.match_probability
        return Moments(p * n, p * n**2, p * n**3)

    def generating(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.asarray(1 - self.match_probability + self.match_probability * z**self.filters, dtype=np.complex128)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.where(rng.random(size) < self.match_probability, float(self.filters), 0.0)


@dataclass(frozen=True, slots=True)
class Binomial:
    """(5.42) with corrected (5.43), (5.44): each of n filters matches independently with probability p.

    Raw moments from the factorial ones, E[R(R−1)…(R−k+1)] = n(n−1)…(n−k+1)·p^k.
    """

    filters: int
    match_probability: float

    def __post_init__(self) -> None:
        check_finite("filters", self.filters, 0)
        if self.filters != int(self.filters):
            raise refuse(f"filters must be a whole number, not {self.filters}")
        check_probability("match_probability", self.match_probability)

    def moments(self) -> Moments:
        n, p = float(self.filters), self.match_probability
        return raw_from_factorial(n * p, n * (n - 1) * p**2, n * (n - 1) * (n - 2) * p**3)

    def generating(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.power(1 - self.match_probability + self.match_probability * z, self.filters)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.binomial(int(self.filters), self.match_probability, size).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Many filters, each of which matches rarely; the choice when only the mean grade is known."""

    mean: float

    def __post_init__(self) -> None:
        check_finite("mean", self.mean, 0)

    def moments(self) -> Moments:
        return raw_from_factorial(self.mean, self.mean**2, self.mean**3)

    def generating(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.exp(self.mean * (z - 1))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.poisson(self.mean, size).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Empirical:
    """Measured distribution: `counts[k]` messages were sent to k receivers."""

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        check_finite("counts", np.asarray(self.counts, dtype=np.float64), 0)
        if sum(self.counts) <= 0:
            raise refuse("an empirical distribution needs at least one message")

    @classmethod
    def of(cls, grades: Sequence[int]) -> "Empirical":
        """From the replication grade of each message."""
        if len(grades) == 0 or min(grades) < 0:
            raise refuse("grades must be whole numbers from 0, at least one")
        return cls(tuple(np.bincount(np.asarray(grades, dtype=np.int64)).tolist()))

    def probabilities(self) -> Array:
        counts = np.asarray(self.counts, dtype=np.float64)
        return np.asarray(counts / counts.sum(), dtype=np.float64)

    def moments(self) -> Moments:
        p, k = self.probabilities(), np.arange(len(self.counts), dtype=np.float64)
        return Moments(float(p @ k), float(p @ k**2), float(p @ k**3))

    def generating(self, z: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.asarray(np.polynomial.polynomial.polyval(z, self.probabilities()), dtype=np.complex128)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.choice(len(self.counts), size=size, p=self.probabilities()).astype(np.float64)


def raw_from_factorial(f1: Floats, f2: Floats, f3: Floats) -> Moments:
    """Raw moments from E[R], E[R(R−1)], E[R(R−1)(R−2)]."""
    return Moments(f1, f2 + f1, f3 + 3 * f2 + f1)


def thinned(moments: Moments, share: float) -> Moments:
    """Moments of the grade when each copy stays, independently, with probability `share`.

    Factorial moments shrink by powers of the share. This is what one of several servers sees of a message's receivers.
    """
    check_probability("share", share)
    first, second, third = moments.first, moments.second, moments.third
    f2, f3 = second - first, third - 3 * second + 2 * first
    return raw_from_factorial(first * share, f2 * share**2, f3 * share**3)


def service_moments(fixed: Floats, t_tx: Floats, replication: Moments) -> Moments:
    """(5.33), (5.34) corrected, (5.35): moments of D + R·t_tx."""
    v = replication.scaled(t_tx)
    return Moments(
        fixed + v.first,
        fixed**2 + 2 * fixed * v.first + v.second,
        fixed**3 + 3 * fixed**2 * v.first + 3 * fixed * v.second + v.third,
    )


def replication_needed(mean: float, c_var: float, fixed: float, t_tx: float) -> tuple[float, float]:
    """E[R] from (5.33) and E[R²] from (5.34), for a service time of this mean and coefficient of variation."""
    check_finite("mean", mean, fixed)
    check_finite("t_tx", t_tx, 0, open_low=True)
    first = (mean - fixed) / t_tx
    return first, first**2 + (c_var * mean / t_tx) ** 2


def gamma_moments(mean: Floats, c_var: Floats) -> Moments:
    """Moments of a Gamma-distributed service time (5.20) to (5.22); c_var = 0 is the constant."""
    square = c_var**2
    return Moments(mean, mean**2 * (1 + square), mean**3 * (1 + square) * (1 + 2 * square))


def discrete_moments(values: Sequence[float], probabilities: Sequence[float]) -> Moments:
    """Moments of a service time that takes few values, as in Table 5.2."""
    v, p = np.asarray(values, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if v.shape != p.shape or abs(float(p.sum()) - 1) > 1e-9:
        raise refuse("give one probability per value; they must sum to 1")
    check_probability("probabilities", p)
    return Moments(float(p @ v), float(p @ v**2), float(p @ v**3))
