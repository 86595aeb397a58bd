"""Bounds on the size of a matching set, and the check of a configuration against them.

A filter is in use for at least T_n. Timestamps stray from the broker's clock by T_s either way, and by the jitter T_j
on the way through the network. If 2·T_s + T_j ≤ w·T_n, filter i cannot reach filter i + w + 1, so no time lies in
more than w + 1 of them (Theorem 1 and Corollary 2 of Jun and Astley, section 4.2). Messages of one origin keep their
order on the way; where they may overtake each other, jitter also makes bursts that fill filters faster: count T_j
twice.

T_n is the time T_f = n / peak rate that it takes to fill a filter, or T_p if that is less and filters rotate; filters
that are retained live until they are full. T_j is 0 where messages are published; it includes what the clocks of
brokers differ by. The peak rate includes retransmissions, and it is a promise: no more than n ids within any T_f.

>>> matching_set_max(skew_ms=250, jitter_ms=0, lifetime_ms=504.2)
2
>>> matching_set_max(skew_ms=250, jitter_ms=600, lifetime_ms=504.2)
4
"""

import math
from dataclasses import dataclass

from tidings.errors import UsageError
from tidings.tracking.recording.history import BloomSettings, Mode, efpp

TICK_MS = 1  # clocks tell whole milliseconds: two times that read the same may be this far apart


def matching_set_max(skew_ms: float, jitter_ms: float, lifetime_ms: float) -> int:
    """w + 1 for the least w with 2·T_s + T_j ≤ w·T_n."""
    if skew_ms < 0 or jitter_ms < 0 or not 0 < lifetime_ms < math.inf:
        raise UsageError("E_TRACKING_TIME", "skew and jitter must not be negative, and a lifetime must be positive")
    return math.ceil((2 * skew_ms + jitter_ms) / lifetime_ms) + 1


def fill_ms(capacity: int, rate_per_s: float) -> float:
    """T_f."""
    if not 0 < rate_per_s < math.inf:
        raise UsageError("E_TRACKING_RATE", f"a peak rate must be a positive number, not {rate_per_s}")
    return 1000 * capacity / rate_per_s


def lifetime_ms(settings: BloomSettings, rate_per_s: float, persist_ms: float) -> float:
    """T_n."""
    if persist_ms <= 0:
        raise UsageError("E_TRACKING_TIME", "the persistence interval T_p must be positive")
    full_ms = fill_ms(settings.capacity, rate_per_s)
    return min(full_ms, persist_ms) if settings.mode is Mode.ROTATE else full_ms


@dataclass(frozen=True, slots=True)
class Judgement:
    """The accuracy that a configuration reaches."""

    fpp: float
    lifetime_ms: float
    matching_set_max: int
    efpp: float
    problem: str = ""  # empty: the wish is held

    def demand(self) -> "Judgement":
        if self.problem:
            raise UsageError("E_TRACKING_ACCURACY", self.problem)
        return self


def judge(
    settings: BloomSettings, rate_per_s: float, persist_ms: float, efpp_wanted: float, *, publishing: bool = False
) -> Judgement:
    """Checks that histories with these settings reach the accuracy. `publishing`: of H_P, which has no jitter."""
    check_efpp(efpp_wanted)
    life_ms = lifetime_ms(settings, rate_per_s, persist_ms)
    jitter_ms = 0 if publishing else settings.jitter_ms
    size = matching_set_max(settings.skew_ms, jitter_ms, life_ms)
    found = efpp([settings.fpp] * size)
    problem = ""
    if found > efpp_wanted:
        alone = settings.fpp > efpp_wanted
        remedy = "fewer ids or more bits a filter" if alone else "less skew or jitter, or filters that live longer"
        problem = (
            f"efpp {found:.3g} is above the wanted {efpp_wanted:.3g}: a full filter has fpp {settings.fpp:.3g}, up to "
            f"{size} of them match (2·{settings.skew_ms} + {jitter_ms} ms of {life_ms:.0f} ms each); it needs {remedy}"
        )
    return Judgement(settings.fpp, life_ms, size, found, problem)


def check_efpp(wanted: float) -> None:
    if not 0 < wanted < 1:
        raise UsageError(
            "E_TRACKING_EFPP", f"an expected false-positive probability must be between 0 and 1, not {wanted}"
        )
