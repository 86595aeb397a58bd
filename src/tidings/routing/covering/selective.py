"""Selective pruning: an unsubscription goes only as far as the subscription's traffic was nearly its own.

After Chen, Hu, Muthusamy, Jacobsen and Liu, "Congestion avoidance with selective filter aggregation in content-based
routing networks", sections III and IV. When S goes, all that only S covered would have to be forwarded, at every
broker on its way, and that burst grows towards the publishers. But the nearer a broker is to them, the more of what S
let through is wanted by others as well (Property 3). So S is replaced near its subscriber and preserved beyond:

    subscriber ── S replaced by what it covered ──┤ S stays told ── S preserved ──── publisher

How far the first part reaches, for each advertisement, follows from the window (window.py) and travels with the
unsubscription; each hop takes one off (Algorithm 1). The broker where it stops keeps S towards the next one in
`NeighbourTable.preserved`. It lets S go when S covers nothing there any more, or when too much of what S lets through
is in vain (preserved_subscriptions.py), and does so by one hop: the next broker then finds itself where this one was,
with its own table and its own count. What the first estimate had wrong is thus corrected step by step, and never by a
burst over many hops.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch
from tidings.routing.covering.active import Active
from tidings.routing.covering.messages import AdvertisementId, Change, FilterId, Prune
from tidings.routing.covering.preserved_subscriptions import Bucket
from tidings.routing.covering.tables import CoveringTable, NeighbourTable
from tidings.routing.covering.window import DeliveryWindow


@dataclass(frozen=True, slots=True)
class SelectiveOptions:
    phi: float = 0.9  # similarity from which on a subscription is preserved; 1 − φ bounds false positives
    count_small: int = 1  # where no publication met more brokers with other subscribers to it, prune nothing
    window_age_ms: float = 3_600_000.0
    window_size_max: int = 20_000
    bucket_depth: float = 10.0  # false positives borne in a row

    def __post_init__(self) -> None:
        if not 0 <= self.phi <= 1:
            raise UsageError("E_COVERING_OPTION", f"phi is a share from 0 to 1, not {self.phi}")
        if self.count_small < 0 or self.window_age_ms <= 0 or self.window_size_max < 1 or self.bucket_depth < 0:
            raise UsageError("E_COVERING_OPTION", f"an option of selective pruning is out of range: {self}")


class Selective(Active):
    name = "selective"

    def __init__(self, options: SelectiveOptions | None = None) -> None:
        self.options = options or SelectiveOptions()
        self.window = DeliveryWindow(self.options.window_age_ms, self.options.window_size_max)

    def handed(self, now: float, id: FilterId, adv: AdvertisementId, distance: int, count: int) -> None:
        self.window.record(now, id, adv, distance, count)

    def leave(self, id: FilterId) -> tuple[Prune, ...] | None:
        congesting = self.window.count_max(id) > self.options.count_small
        hops = self.window.prune_hops(id, self.options.phi)
        self.window.purge(id)
        return tuple(Prune(adv, some) for adv, some in sorted(hops.items())) if congesting else None

    def retract(
        self, border: NeighbourTable, table: CoveringTable, id: FilterId, prunes: tuple[Prune, ...] | None
    ) -> list[Change]:
        """Algorithm 1 for one neighbour."""
        if prunes is None:
            return self.replace(border, table, id, None)
        further = tuple(Prune(adv, hops - 1) for adv, hops in prunes if hops > 0 and adv in border.advertised)
        if further or not self._useful(border, table, id):
            return self.replace(border, table, id, further)
        border.preserved.add(id, border.told[id], Bucket(self.options.phi, self.options.bucket_depth))
        return []

    def _useful(self, border: NeighbourTable, table: CoveringTable, id: FilterId) -> bool:
        return next(border.quenched_by(table, border.told[id]), None) is not None

    def tidy(self, border: NeighbourTable, table: CoveringTable, suspects: Iterable[FilterId]) -> list[Change]:
        if not len(border.preserved):  # a suspect is found only when asked for
            return []
        suspects = [id for id in suspects if id in border.preserved]
        return self._collect(border, table, [id for id in suspects if not self._useful(border, table, id)])

    def arrived(self, border: NeighbourTable, table: CoveringTable, batch: MessageBatch, needed: bool) -> list[Change]:
        if not len(border.preserved):
            return []
        return self._collect(border, table, border.preserved.account(batch, needed))

    def _collect(self, border: NeighbourTable, table: CoveringTable, ids: list[FilterId]) -> list[Change]:
        """Let them go, by one hop: no prune is left, so the next broker preserves them if they are of use there."""
        return [change for id in ids if id in border.told for change in self.replace(border, table, id, ())]
