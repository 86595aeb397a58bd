"""Numbers and arrays of numbers, and the checks every formula of this package makes on its input."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidings.errors import UsageError

Array: TypeAlias = NDArray[np.float64]
Floats: TypeAlias = float | Array  # formulas that work element by element take and give either


def refuse(reason: str, code: str = "E_LAB_INPUT") -> UsageError:
    return UsageError(code, reason)


def check_finite(name: str, value: Floats, low: float, high: float = np.inf, *, open_low: bool = False) -> None:
    """Refuse anything outside [low, high] (or (low, high]), NaN and infinities included."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except OverflowError:  # an integer beyond all floats
        array = np.asarray(np.inf)
    inside = np.isfinite(array) & (array <= high) & (array > low if open_low else array >= low)
    if not bool(np.all(inside)):
        bracket = "(" if open_low else "["
        raise refuse(f"{name} must lie in {bracket}{low:g}, {high:g}] and be finite, not {value!s:.60}")


def check_probability(name: str, value: Floats) -> None:
    check_finite(name, value, 0.0, 1.0)
