"""Receivers among a group of subscribers: the probability that at least one gets a message, and their number.

A broker gets a message iff one of its subscribers does, a link carries it iff one of those behind it does. How probable
that is depends on more than the mean number R of receivers: if all get a message or nobody does, brokers get it
together or not at all. With n subscribers, of whom any R are equally likely to be the receivers, one of a given c is
among them with probability

    E[1 − C(n − c, R) / C(n, R)]

This is 1 − (1 − p)^c if R is binomial (each matches independently of the others), p if all get it or nobody does; with
a Poisson number of receivers, each anywhere, it is 1 − exp(−E[R]·c/n). A fixed number that is not whole is the mean of
the two whole ones beside it.

>>> Receivers.of(ScaledBernoulli(400, 0.01), 400).reached(50)
0.01
>>> round(Receivers.of(Empirical((0, 0, 1)), 4).reached(2), 4)  # two of four: these two miss it once in six times
0.8333
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tidings.capacity.arrays import Array, refuse
from tidings.capacity.replication import broker_match_probability
from tidings.capacity.service import (
    Binomial,
    Deterministic,
    Empirical,
    Moments,
    Poisson,
    Replication,
    ScaledBernoulli,
    raw_from_factorial,
    thinned,
)

GRADE_MAX = 10_000_000  # of a distribution that is gone through grade by grade


@dataclass(frozen=True, slots=True)
class Receivers:
    """Of a message, among subscribers of whom none is preferred."""

    reached: Callable[[int], float]  # probability that at least one of this number of subscribers is a receiver
    among: Callable[[int], Moments]  # the number of receivers among this number of subscribers

    @classmethod
    def of(cls, replication: Replication, subscribers: int) -> "Receivers":
        n = subscribers
        match replication:
            case Poisson(mean):
                return cls(
                    lambda c: -math.expm1(-mean * c / n), lambda c: thinned(replication.moments(), min(c / n, 1.0))
                )
            case Binomial(filters, p) if filters == n:
                return cls(lambda c: broker_match_probability(c, p), lambda c: Binomial(c, p).moments())
            case ScaledBernoulli(filters, p) if filters == n:
                return cls(lambda c: p if c else 0.0, lambda c: ScaledBernoulli(c, p).moments())
            case Deterministic(grade):
                return _drawn(_whole(grade), n)
            case Empirical():
                return _drawn(replication.probabilities(), n)
            case _:
                raise refuse(
                    f"the distribution {replication} does not say which of {n} subscribers get a message",
                    "E_PLAN_SPREAD",
                )


def _whole(grade: float) -> Array:
    if grade > GRADE_MAX:
        raise refuse(f"networks are computed for at most {GRADE_MAX:,} receivers of a message", "E_PLAN_SPREAD")
    low = math.floor(grade)
    probabilities = np.zeros(low + 2)
    probabilities[low], probabilities[low + 1] = low + 1 - grade, grade - low
    return probabilities


def _drawn(probabilities: Array, subscribers: int) -> Receivers:
    """The number of receivers has these probabilities; each subset of that size is equally likely."""
    probabilities = np.trim_zeros(probabilities, "b")
    most = len(probabilities) - 1
    if most > subscribers:
        raise refuse(f"a message has {most} receivers, but there are {subscribers} subscribers", "E_PLAN_SPREAD")
    grades = np.arange(most + 1, dtype=np.float64)
    factorial = [
        float(probabilities @ grades),
        float(probabilities @ (grades * (grades - 1))),
        float(probabilities @ (grades * (grades - 1) * (grades - 2))),
    ]

    @cache
    def reached(count: int) -> float:
        """C(n − c, R) / C(n, R) is the product of 1 − c/(n − i) for i < R, and 0 from R = n − c + 1."""
        possible = min(most, subscribers - count)
        logs = np.zeros(possible + 1)
        np.cumsum(np.log1p(-count / (subscribers - np.arange(possible))), out=logs[1:])
        surely = float(probabilities[possible + 1 :].sum())
        return min(1.0, surely - float(probabilities[: possible + 1] @ np.expm1(logs)))

    def among(count: int) -> Moments:
        """Factorial moments are those of all, times the chance that as many are all among these."""
        share, shares = 1.0, []
        for i in range(3):
            share *= max(count - i, 0) / max(subscribers - i, 1)
            shares.append(share)
        return raw_from_factorial(*(one * part for one, part in zip(factorial, shares, strict=True)))

    return Receivers(reached, among)
