"""The parameter assistant: from wishes (accuracy, peak rate, memory) to m, n, k, T_p and T_s, or a refusal that helps.

Memory gives m. The accuracy, shared among |M| filters, gives the fpp each may have; for every k that allows n = ln(1 −
fpp^{1/k}) / (k · ln(1 − 1/m)) ids. The best k is the one with the largest n, but n is flat around it and each hash
costs time, so the smallest k within 2 % of the best is taken, if with that the wish can be held. n and the rate give
T_f, and T_s is what the bound leaves: 2·T_s + T_j < (|M| − 1)·T_n. Too little skew tolerance for the wish: try one more
filter in the matching set, which costs accuracy and so capacity. What is proposed a broker takes: times, rates and
accuracies are within its limits (limits.py).

>>> plan = propose(Wishes(efpp=1e-5, rate_per_s=5000, memory_bytes=8192 + FIXED_BYTES))
>>> plan.settings.bits, plan.settings.capacity, plan.settings.hashes, plan.matching_set_max
(65536, 2535, 14, 2)
>>> f"{plan.bytes_per_message:.2f} {plan.efpp:.2e}"
'3.23 9.99e-06'
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from tidings.errors import UsageError
from tidings.kernel.bloom import HASHES_MAX, false_positive_probability
from tidings.tracking.plan.limits import (
    BETWEEN_BROKERS_MS,
    BITS_MAX,
    CAPACITY_MAX,
    EFPP_MAX,
    EFPP_MIN,
    PERSIST_MS_MIN,
    RATE_MAX,
    RATE_MIN,
    SKEW_MS_MIN,
    TIME_MS_MAX,
)
from tidings.tracking.plan.matching_set import TICK_MS, check_efpp, fill_ms, matching_set_max
from tidings.tracking.recording.history import BloomSettings, Mode, efpp

FIXED_BYTES = 64  # of a filter in memory besides its bits
MATCHING_SET_LIMIT = 64
CAPACITY_SHARE = 0.98
PERSIST_SHARE = 1.1  # T_p is a little longer than T_f, so that filters are nearly always stored full


@dataclass(frozen=True, slots=True)
class Wishes:
    """For each history: how accurate, at what peak rate, in how much memory."""

    efpp: float
    rate_per_s: float
    memory_bytes: int
    jitter_ms: int = 0
    skew_ms: int = 10  # T_s must be at least this, or clients are corrected all the time
    persist_ms: int | None = None  # T_p must be at most this: what a crash may cost
    mode: Mode = Mode.RETAIN

    def __post_init__(self) -> None:
        check_efpp(self.efpp)
        fill_ms(1, self.rate_per_s)
        if self.memory_bytes <= 0 or self.memory_bytes > BITS_MAX // 8:
            raise UsageError("E_PLAN_MEMORY", f"memory must be 1 to {BITS_MAX // 8} bytes, not {self.memory_bytes}")
        if self.jitter_ms < 0 or self.skew_ms < 0 or (self.persist_ms is not None and self.persist_ms < 1):
            raise UsageError("E_TRACKING_TIME", "jitter and skew must not be negative, and T_p must be at least 1 ms")
        if reasons := list(self._beyond()):
            raise UsageError("E_PLAN_IMPOSSIBLE", f"no broker accepts these values: {'; '.join(reasons)}")

    def _beyond(self) -> Iterator[str]:
        """Lists the values that no configuration allows."""
        if not EFPP_MIN <= self.efpp <= EFPP_MAX:
            yield f"efpp must be {EFPP_MIN:g} to {EFPP_MAX:g}, not {self.efpp:g}"
        if not RATE_MIN <= self.rate_per_s <= RATE_MAX:
            yield f"the peak rate must be {RATE_MIN:g} to {RATE_MAX:g} messages per second, not {self.rate_per_s:g}"
        if self.jitter_ms + max(self.skew_ms, SKEW_MS_MIN) > TIME_MS_MAX:
            yield f"jitter and skew together must be at most {TIME_MS_MAX} ms"
        if self.persist_ms is not None and self.persist_ms < PERSIST_MS_MIN:
            yield f"T_p must be at least {PERSIST_MS_MIN} ms, not {self.persist_ms} ms"


@dataclass(frozen=True, slots=True)
class TrackingPlan:
    wishes: Wishes
    settings: BloomSettings
    persist_ms: int  # T_p
    fill_ms: float  # T_f
    lifetime_ms: float  # T_n
    matching_set_max: int
    fpp: float
    efpp: float

    @property
    def bytes_per_message(self) -> float:
        """On disk, of full filters, for each history that records the message."""
        return self.settings.bits / 8 / self.settings.capacity

    @property
    def skew_between_brokers_ms(self) -> int:
        """The smallest broker configuration for this plan."""
        return max(BETWEEN_BROKERS_MS, self.settings.skew_ms + self.settings.jitter_ms)

    @property
    def stores_per_second(self) -> float:
        """At the peak rate, of one history."""
        return 1000 / min(self.fill_ms, self.persist_ms)

    def as_row(self) -> dict[str, float | int | str]:
        settings = self.settings
        return {
            "bits": settings.bits,
            "capacity": settings.capacity,
            "hashes": settings.hashes,
            "persist_ms": self.persist_ms,
            "skew_ms": settings.skew_ms,
            "jitter_ms": settings.jitter_ms,
            "skew_between_brokers_ms": self.skew_between_brokers_ms,
            "mode": settings.mode.value,
            "fill_ms": self.fill_ms,
            "lifetime_ms": self.lifetime_ms,
            "matching_set_max": self.matching_set_max,
            "fpp": self.fpp,
            "efpp": self.efpp,
            "bytes_per_message": self.bytes_per_message,
            "stores_per_second": self.stores_per_second,
        }


def fpp_allowed(efpp_wanted: float, matching: int) -> float:
    """1 − (1 − efpp)^{1/|M|}."""
    return -math.expm1(math.log1p(-efpp_wanted) / matching)


def capacity(bits: int, hashes: int, fpp: float) -> int:
    """The most ids with which a filter keeps within fpp; 0 if not even one."""
    one = hashes * math.log1p(-1 / bits)
    n = max(0, math.floor(math.log1p(-(fpp ** (1 / hashes))) / one))
    while n and false_positive_probability(bits, hashes, n) > fpp:
        n -= 1  # at most once or twice: rounding
    return n


def best_shape(bits: int, fpp: float, share: float = CAPACITY_SHARE) -> tuple[int, int]:
    """(n, k): the smallest k whose capacity is this share of the largest."""
    found = _capacities(bits, fpp)
    most = max(found)
    return next((n, hashes) for hashes, n in enumerate(found, 1) if n >= share * most)


@lru_cache(maxsize=1024)
def _capacities(bits: int, fpp: float) -> tuple[int, ...]:
    """For k from 1."""
    return tuple(capacity(bits, hashes, fpp) for hashes in range(1, HASHES_MAX + 1))


def propose(wishes: Wishes) -> TrackingPlan:
    """Settings that hold the wishes; a UsageError that names what would be needed if there are none."""
    found = _search(wishes)
    if found is None:
        raise UsageError("E_PLAN_IMPOSSIBLE", _refusal(wishes))
    return found


def _search(wishes: Wishes) -> TrackingPlan | None:
    """With few hashes; if so no wish can be held, with as many as give the most room."""
    bits = min((wishes.memory_bytes - FIXED_BYTES) * 8 // 64 * 64, BITS_MAX)
    if bits < 64:
        return None
    for share in (CAPACITY_SHARE, 1.0):
        for matching in range(2, MATCHING_SET_LIMIT + 1):
            n, hashes = best_shape(bits, fpp_allowed(wishes.efpp, matching), share)
            if n == 0:
                return None
            if found := _held(wishes, min(n, CAPACITY_MAX), bits, hashes, matching):
                return found
    return None


def _held(wishes: Wishes, n: int, bits: int, hashes: int, matching: int) -> TrackingPlan | None:
    """The plan for filters of this shape and a matching set of this size."""
    full_ms = fill_ms(n, wishes.rate_per_s)
    longest_ms = min(wishes.persist_ms or TIME_MS_MAX, TIME_MS_MAX)
    persist_ms = min(max(math.ceil(full_ms * PERSIST_SHARE), PERSIST_MS_MIN), longest_ms)
    life_ms = min(full_ms, persist_ms) if wishes.mode is Mode.ROTATE else full_ms
    jitter_ms = wishes.jitter_ms + TICK_MS
    least_ms = max(wishes.skew_ms, SKEW_MS_MIN)
    if matching_set_max(least_ms, jitter_ms, life_ms) > matching:
        return None
    skew_ms = max(least_ms, min(int(((matching - 1) * life_ms - jitter_ms) // 2), _skew_ms_max(wishes)))
    if matching_set_max(skew_ms, jitter_ms, life_ms) > matching:
        skew_ms -= 1  # the product above was rounded up
    settings = BloomSettings(n, bits, hashes, skew_ms, wishes.jitter_ms, wishes.mode)
    assert matching_set_max(skew_ms, jitter_ms, life_ms) <= matching
    total = efpp([settings.fpp] * matching)
    return TrackingPlan(wishes, settings, persist_ms, full_ms, life_ms, matching, settings.fpp, total)


def _skew_ms_max(wishes: Wishes) -> int:
    """T_s and T_j together are what brokers' clocks may differ by: to raise that only because there is room makes every
    search longer."""
    return max(BETWEEN_BROKERS_MS - wishes.jitter_ms, wishes.skew_ms, SKEW_MS_MIN)


def _refusal(wishes: Wishes) -> str:
    """Each wish on its own, changed until the others can be held."""
    wish = (
        f"efpp {wishes.efpp:g} at {wishes.rate_per_s:,g} messages per second in {wishes.memory_bytes:,} bytes with "
        f"skew of {wishes.skew_ms} ms and jitter of {wishes.jitter_ms} ms cannot be held"
    )
    ways = list(_ways(wishes))
    return f"{wish}; it would need {', or '.join(ways)}" if ways else f"{wish}, and no single wish changed helps"


def _ways(wishes: Wishes) -> Iterator[str]:
    """Suggests single changes that make the plan possible; each rounded value was checked after rounding."""

    def holds(**change: object) -> bool:
        return _search(replace(wishes, **change)) is not None  # type: ignore[arg-type]

    memory = _least(lambda v: holds(memory_bytes=math.ceil(v)), wishes.memory_bytes, BITS_MAX // 8)
    if memory is not None:
        yield f"memory of {math.ceil(memory):,} bytes"
    slowness = _least(lambda v: holds(rate_per_s=1 / v), 1 / wishes.rate_per_s, 1 / RATE_MIN)
    if slowness is not None:
        rate = _rounded(max(1 / slowness, RATE_MIN), 3, math.floor, lambda v: v >= RATE_MIN and holds(rate_per_s=v))
        yield f"a peak rate of {rate} messages per second"
    accuracy = _least(lambda v: holds(efpp=v), wishes.efpp, EFPP_MAX)
    if accuracy is not None:
        yield f"an efpp of {_rounded(accuracy, 2, math.ceil, lambda v: v <= EFPP_MAX and holds(efpp=v))}"
    if wishes.persist_ms is not None:
        persist = _least(lambda v: holds(persist_ms=math.ceil(v)), wishes.persist_ms, TIME_MS_MAX)
        if persist is not None:
            yield f"T_p of {math.ceil(persist)} ms (persist)"
    skew = _most(lambda v: holds(skew_ms=v), wishes.skew_ms)
    if skew is not None:
        yield f"skew of {skew} ms"
    jitter = _most(lambda v: holds(jitter_ms=v), wishes.jitter_ms)
    if jitter is not None:
        yield f"jitter of {jitter} ms"
    if wishes.mode is not Mode.RETAIN and holds(mode=Mode.RETAIN):
        yield f"the mode {Mode.RETAIN.value}"


def _rounded(value: float, digits: int, whole: Callable[[float], int], holds: Callable[[float], bool]) -> str:
    """With few digits, rounded to the side that holds; with all of them if that does not."""
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    text = f"{whole(value / unit) * unit:.{digits}g}"
    return f"{float(text):,.{digits}g}" if holds(float(text)) else repr(value)


def _least(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least value that holds, to 1 %; None if the largest does not."""
    if not holds(high):
        return None
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _most(holds: Callable[[int], bool], high: int) -> int | None:
    """The most below a whole number that does not hold; None if 0 does not hold either."""
    if high == 0 or not holds(0):
        return None
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
