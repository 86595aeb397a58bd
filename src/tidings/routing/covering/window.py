"""Memory of delivered publications at a subscriber's broker: a sliding window, bounded in age and in size.

For each publication handed to a subscription: when, under which advertisement, and the distance and count with which it
arrived (the paper's Table I, without the publication's id, which nothing reads). From it follows how far an
unsubscription should go: `prune_hops(S)[A]` is the smallest h such that at least φ of A's publications to S had a
distance below h; that many hops from here, nearly all that S let through is wanted by others too.

>>> window = DeliveryWindow(age_ms=60_000, size_max=100)
>>> sub, adv = FilterId(9, 1), AdvertisementId(1, 1)
>>> for distance, count in ((6, 1), (2, 2), (2, 2), (6, 1), (7, 1)): window.record(0.0, sub, adv, distance, count)
>>> window.prune_hops(sub, phi=0.8)[adv], window.prune_hops(sub, phi=0.4)[adv], window.count_max(sub)
(7, 3, 2)
"""

from collections import deque
from dataclasses import dataclass
from math import ceil

from tidings.routing.covering.messages import AdvertisementId, FilterId


@dataclass(frozen=True, slots=True)
class WindowSample:
    at_ms: float
    advertisement: AdvertisementId
    distance: int
    count: int


class DeliveryWindow:
    def __init__(self, age_ms: float, size_max: int) -> None:
        self.age_ms, self.size_max = age_ms, size_max
        self._samples: dict[FilterId, deque[WindowSample]] = {}
        self._order: deque[tuple[float, FilterId]] = deque()  # one for each sample, and for those purged since

    def __len__(self) -> int:
        return sum(map(len, self._samples.values()))

    def record(self, now: float, sub: FilterId, adv: AdvertisementId, distance: int, count: int) -> None:
        self._samples.setdefault(sub, deque()).append(WindowSample(now, adv, distance, count))
        self._order.append((now, sub))
        self._expire(now)

    def _expire(self, now: float) -> None:
        order = self._order
        while order and (len(order) > self.size_max or order[0][0] < now - self.age_ms):
            _, sub = order.popleft()
            samples = self._samples.get(sub)
            if samples is not None:  # ids are never used twice, so these samples stand in the same order
                samples.popleft()
                if not samples:
                    del self._samples[sub]

    def purge(self, sub: FilterId) -> None:
        self._samples.pop(sub, None)

    def count_max(self, sub: FilterId) -> int:
        return max((sample.count for sample in self._samples.get(sub, ())), default=0)

    def prune_hops(self, sub: FilterId, phi: float) -> dict[AdvertisementId, int]:
        distances: dict[AdvertisementId, list[int]] = {}
        for sample in self._samples.get(sub, ()):
            distances.setdefault(sample.advertisement, []).append(sample.distance)
        return {adv: sorted(some)[ceil(phi * len(some) - 1e-9) - 1] + 1 for adv, some in distances.items()}
