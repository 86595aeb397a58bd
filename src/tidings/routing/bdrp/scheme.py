"""B-DRP, the control plane: every router knows the encoded interests of every other one.

LOCAL-PREDICATES are aggregated, encoded and flooded (topic PREDICATES of the reliable flood): first whole, then by
differences, with changes of a short while told together. What others flood fills PREDICATES, and with the unicast
routes that is all the forwarding plane needs: it matches a message where it enters the network, once, and then only
divides the set of destinations along the routes (forwarding.py).

A router that vanishes (the flood says so when its state has aged out) is kept for a while longer: what is published
for its durable subscriptions meanwhile waits for it, where it is persistent, and is counted as without a route, where
it is not.

Interests are told in one message, which has its limits. Beyond them a router asks for everything, and its neighbours
work in vain for it, but nothing is lost.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidings.errors import CodecError
from tidings.model.predicate import Predicate
from tidings.routing.bdrp.interests import Change, InterestEncoding, LocalInterests, decode_change, encode_change
from tidings.routing.control.codec import CONTROL_BYTES_MAX
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import SchemeMessage, Topic
from tidings.routing.control.single_timer import SingleTimer
from tidings.routing.effects import Deliver, Effect, Report, Router, UnicastTable
from tidings.routing.scheme import TIMER, Tables

WHOLE_BYTES_MAX = CONTROL_BYTES_MAX - 1024  # one message must hold it


@dataclass(frozen=True, slots=True)
class BdrpOptions:
    coalesce_ms: float = 50  # changes within this time are one advertisement
    retain_ms: float = 7 * 24 * 3_600_000  # how long the interests of a vanished router are kept


class Bdrp:
    def __init__(
        self, flood: Flood, encoding: InterestEncoding, tables: Tables, options: BdrpOptions | None = None
    ) -> None:
        self.options = options or BdrpOptions()
        self.encoding = encoding
        self._flood = flood
        self._tables = tables
        self._alarm = SingleTimer(TIMER)
        self._local = LocalInterests(encoding)
        self._also: set[bytes] = set()  # what is advertised beside
        self._advertised: set[bytes] | None = None
        self._publish_at: float | None = None
        self._predicates: dict[Router, set[bytes]] = {}
        self._forget_at: dict[Router, float] = {}

    @property
    def predicates(self) -> Mapping[Router, set[bytes]]:
        """PREDICATES: the rows of every other router that is known."""
        return MappingProxyType(self._predicates)

    def local_rows(self) -> set[bytes]:
        return self._local.rows()

    def counts(self) -> Mapping[str, int]:
        return {"rows": sum(map(len, self._predicates.values()))}

    def start(self, now: float) -> list[Effect]:
        return self._later(now)  # also if there is nothing to say: what an earlier life said is then void

    def subscribe(self, now: float, predicate: Predicate) -> list[Effect]:
        self._local.add(predicate)
        return self._later(now)

    def also(self, now: float, rows: set[bytes]) -> list[Effect]:
        """Advertise these beside the local interests: what others want that are reached through this router."""
        if rows == self._also:
            return []
        self._also = rows
        return self._later(now)

    def unsubscribe(self, now: float, predicate: Predicate) -> list[Effect]:
        self._local.remove(predicate)
        return self._later(now)

    def learn(self, now: float, item: Deliver | tuple[Router, SchemeMessage]) -> list[Effect]:
        if not isinstance(item, Deliver):
            return [Report("E_SCHEME_MESSAGE", f"router {item[0]} said something that B-DRP does not know")]
        if item.topic != Topic.PREDICATES:
            return []
        if item.payload is None:
            self._forget_at[item.origin] = now + self.options.retain_ms
            return [*self._alarm.arm(self._forget_at[item.origin])]
        self._forget_at.pop(item.origin, None)
        try:
            change = decode_change(item.payload, self.encoding.row_bytes)
        except CodecError as error:
            # What it said before goes on: to forget the router would be to throw away what is stored for it.
            return [Report("E_PREDICATES_PAYLOAD", f"the interests of router {item.origin} make no sense: {error}")]
        self._apply(item.origin, change, full=item.full)
        return []

    def routed(self, now: float, table: UnicastTable) -> list[Effect]:
        self._tables.routes({router: route.next_hop for router, route in table.routes.items()})
        return []

    def tick(self, now: float) -> list[Effect]:
        self._alarm.rang()
        out: list[Effect] = []
        if self._publish_at is not None and self._publish_at <= now:
            out += self._publish(now)
        for router in [router for router, at in self._forget_at.items() if at <= now]:
            del self._forget_at[router]
            self._forget(router)
        due = [*self._forget_at.values(), *([] if self._publish_at is None else [self._publish_at])]
        return [*out, *self._alarm.arm(min(due, default=None))]

    def _apply(self, router: Router, change: Change, *, full: bool) -> None:
        known = self._predicates.setdefault(router, set())
        added = set(change.added) - known
        removed = known - set(change.added) if full else known & set(change.removed)
        known -= removed
        known |= added
        self._tables.interest(router, added, removed)

    def _forget(self, router: Router) -> None:
        if self._predicates.pop(router, None) is not None:
            self._tables.forget(router)

    def _later(self, now: float) -> list[Effect]:
        if self._publish_at is None:
            self._publish_at = now + self.options.coalesce_ms
        return [*self._alarm.arm(self._publish_at)]

    def _publish(self, now: float) -> list[Effect]:
        self._publish_at = None
        rows, before = self._local.rows(), self._advertised
        if self._also:
            rows = self.encoding.minimal(rows | self._also)
        if rows == before:
            return []
        whole = self._encoded(rows)
        told: list[Effect] = []
        if len(whole) > WHOLE_BYTES_MAX:
            rows = self.encoding.everything()
            if rows == before:
                return []
            reason = (
                f"the interests here take {len(whole)} bytes, of {WHOLE_BYTES_MAX} that can be told: all is asked for"
            )
            told, whole = [Report("E_PREDICATES_SIZE", reason)], self._encoded(rows)
        self._advertised = rows
        difference = None
        if before is not None:
            difference = self._encoded(rows - before, before - rows)
            if len(difference) >= len(whole):
                difference = None
        return [*told, *self._flood.publish(now, Topic.PREDICATES, whole, difference)]

    def _encoded(self, added: set[bytes], removed: Collection[bytes] = ()) -> bytes:
        return encode_change(Change(tuple(added), tuple(removed)), self.encoding.row_bytes)
