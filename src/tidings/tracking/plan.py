"""The parameter assistant: from wishes (accuracy, peak rate, memory) to m, n, k, T_p and T_s, or a refusal that helps.

Memory gives m. The accuracy, shared among |M| filters, gives the fpp each may have; for every k that allows
n = ln(1 − fpp^{1/k}) / (k · ln(1 − 1/m)) ids. The best k is the one with the largest n, but n is flat around it and
each hash costs time, so the smallest k within 2 % of the best is taken. n and the rate give T_f, and T_s is what the
bound leaves: 2·T_s + T_j < (|M| − 1)·T_n. Too little skew tolerance for the wish: try one more filter in the
matching set, which costs accuracy and so capacity.

>>> plan = propose(Wishes(efpp=1e-5, rate_per_s=5000, memory_bytes=8192 + FIXED_BYTES))
>>> plan.settings.bits, plan.settings.capacity, plan.settings.hashes, plan.matching_set_max
(65536, 2535, 14, 2)
>>> f"{plan.bytes_per_message:.2f} {plan.efpp:.2e}"
'3.23 9.99e-06'
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tidings.errors import UsageError
from tidings.kernel.bloom import BITS_MAX, HASHES_MAX, false_positive_probability
from tidings.tracking.bound import TICK_MS, check_efpp, fill_ms, matching_set_max
from tidings.tracking.history import BloomSettings, Mode, efpp

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
            raise UsageError("E_PLAN_MEMORY", f"{self.memory_bytes} bytes are not from 1 to {BITS_MAX // 8}")
        if self.jitter_ms < 0 or self.skew_ms < 0 or (self.persist_ms is not None and self.persist_ms < 1):
            raise UsageError("E_TRACKING_TIME", "jitter and skew are not negative, T_p is at least 1 ms")


@dataclass(frozen=True, slots=True)
class Plan:
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


def best_shape(bits: int, fpp: float) -> tuple[int, int]:
    """(n, k): the smallest k whose capacity is within 2 % of the largest."""
    found = [(capacity(bits, hashes, fpp), hashes) for hashes in range(1, HASHES_MAX + 1)]
    most = max(n for n, _ in found)
    return next((n, hashes) for n, hashes in found if n >= CAPACITY_SHARE * most)


def propose(wishes: Wishes) -> Plan:
    """Settings that hold the wishes; a UsageError that names what would be needed if there are none."""
    found = _search(wishes)
    if found is None:
        raise UsageError("E_PLAN_IMPOSSIBLE", _refusal(wishes))
    return found


def _search(wishes: Wishes) -> Plan | None:
    bits = (wishes.memory_bytes - FIXED_BYTES) * 8 // 64 * 64
    if bits < 64:
        return None
    needed_ms = 2 * wishes.skew_ms + wishes.jitter_ms + TICK_MS
    for matching in range(2, MATCHING_SET_LIMIT + 1):
        n, hashes = best_shape(bits, fpp_allowed(wishes.efpp, matching))
        if n == 0:
            return None
        full_ms = fill_ms(n, wishes.rate_per_s)
        persist_ms = math.ceil(full_ms * PERSIST_SHARE)
        if wishes.persist_ms is not None:
            persist_ms = min(persist_ms, wishes.persist_ms)
        life_ms = min(full_ms, persist_ms) if wishes.mode is Mode.ROTATE else full_ms
        room_ms = (matching - 1) * life_ms
        if room_ms >= needed_ms:
            skew_ms = int((room_ms - wishes.jitter_ms - TICK_MS) // 2)
            settings = BloomSettings(n, bits, hashes, skew_ms, wishes.jitter_ms, wishes.mode)
            assert matching_set_max(skew_ms, wishes.jitter_ms + TICK_MS, life_ms) <= matching
            total = efpp([settings.fpp] * matching)
            return Plan(wishes, settings, persist_ms, full_ms, life_ms, matching, settings.fpp, total)
    return None


def _refusal(wishes: Wishes) -> str:
    """Each wish on its own, changed until the others can be held."""

    def holds(change: Callable[[float], dict[str, object]]) -> Callable[[float], bool]:
        return lambda value: _search(replace(wishes, **change(value))) is not None  # type: ignore[arg-type]

    ways = []
    memory = _least(holds(lambda v: {"memory_bytes": math.ceil(v)}), wishes.memory_bytes, BITS_MAX // 8)
    if memory is not None:
        ways.append(f"memory of {math.ceil(memory):,} bytes")
    rate = _least(holds(lambda v: {"rate_per_s": 1 / v}), 1 / wishes.rate_per_s, 1e9)
    if rate is not None:
        ways.append(f"a peak rate of {1 / rate:,.3g} messages per second")
    accuracy = _least(holds(lambda v: {"efpp": v}), wishes.efpp, 0.5)
    if accuracy is not None:
        ways.append(f"an efpp of {accuracy:.2g}")
    wish = (
        f"efpp {wishes.efpp:g} at {wishes.rate_per_s:,g} messages per second in {wishes.memory_bytes:,} bytes with "
        f"skew of {wishes.skew_ms} ms and jitter of {wishes.jitter_ms} ms cannot be held"
    )
    return f"{wish}; it would need {', or '.join(ways)}" if ways else f"{wish}, and no single wish changed helps"


def _least(holds: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least value that holds, to 1 %; None if the largest does not."""
    if not holds(high):
        return None
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
