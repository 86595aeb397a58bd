"""B-DRP, the control plane: every router knows the encoded interests of every other one.

LOCAL-PREDICATES are aggregated, encoded and flooded (topic PREDICATES of the reliable flood): first whole, then by
differences, with changes of a short while in one advertisement. What others flood fills PREDICATES, and with the
unicast routes that is all the forwarding plane needs: it matches a message where it enters the network, once, and then
only divides the set of destinations along the routes (forwarding.py).

A router that vanishes (the flood says so when its state has aged out) is kept for a while longer: what is published
for its durable subscriptions meanwhile waits for it, where it is persistent, and is counted as without a route, where
it is not.

Interests are advertised in one message, which has its limits. Beyond them a router asks for everything: it gets
messages that it does not need, but nothing is lost.

Parameters of the encoding are changed by restarting one broker after the other. Meanwhile rows of another form
(interests.py), from the flood or remembered in the store, cannot be compared with messages: such a *foreign* router
counts as one that asks for everything, until it advertises in this router's form. So every message reaches a superset
of the routers that want it, and links stay up.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidings.errors import TidingsError
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import TOPIC_ATTRIBUTE
from tidings.model.predicate import Predicate
from tidings.model.predicate_text import abridged
from tidings.routing.bdrp.filter_rows import is_filter
from tidings.routing.bdrp.interests import (
    Change,
    InterestEncoding,
    LocalInterests,
    decode_advertisement,
    encode_advertisement,
)
from tidings.routing.control.codec import CONTROL_BYTES_MAX
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import SchemeMessage, Topic
from tidings.routing.control.single_timer import SingleTimer
from tidings.routing.effects import Deliver, Effect, Report, Router, UnicastTable
from tidings.routing.scheme import TIMER, Tables

_UNBOUNDED = (Predicate.always(), Predicate.of(Constraint(TOPIC_ATTRIBUTE, Op.TOPIC, ">")))
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
        self._form = encoding.form
        self._alarm = SingleTimer(TIMER)
        self._local = LocalInterests(encoding)
        self._also: set[bytes] = set()  # advertised beside the local interests
        self._advertised: set[bytes] | None = None
        self._publish_at: float | None = None
        self._predicates: dict[Router, set[bytes]] = {}
        self._forget_at: dict[Router, float] = {}
        self._foreign: set[Router] = set()
        self._filters = 0  # rows among the predicates that are exact filters

    @property
    def predicates(self) -> Mapping[Router, set[bytes]]:
        """PREDICATES: the rows of every other known router; for a foreign one, the row that asks for everything."""
        return MappingProxyType(self._predicates)

    @property
    def foreign(self) -> frozenset[Router]:
        """Routers whose rows are of another form."""
        return frozenset(self._foreign)

    def local_rows(self) -> set[bytes]:
        return self._local.rows()

    def counts(self) -> Mapping[str, int]:
        return {
            "rows": sum(map(len, self._predicates.values())),
            "filters": self._filters,
            "foreign": len(self._foreign),
            "unbounded": self._local.unbounded,
        }

    def start(self, now: float) -> list[Effect]:
        return self._later(now)  # even if there are no rows: it replaces the advertisement of an earlier life

    def subscribe(self, now: float, predicate: Predicate) -> list[Effect]:
        before = self._local.unbounded
        self._local.add(predicate)
        reports: list[Effect] = []
        if self._local.unbounded > before and predicate not in _UNBOUNDED:
            reason = (
                f"every message is sent to this broker because of one subscription that the encoding cannot narrow: "
                f"{abridged(predicate)}"
            )
            reports.append(Report("E_INTEREST_UNBOUNDED", reason))
        return [*reports, *self._later(now)]

    def also(self, now: float, rows: set[bytes]) -> list[Effect]:
        """Advertise these beside the local interests: the interests of routers that are reached through this one."""
        if rows == self._also:
            return []
        self._also = rows
        return self._later(now)

    def unsubscribe(self, now: float, predicate: Predicate) -> list[Effect]:
        self._local.remove(predicate)
        return self._later(now)

    def learn(self, now: float, item: Deliver | tuple[Router, SchemeMessage]) -> list[Effect]:
        if not isinstance(item, Deliver):
            return [Report("E_SCHEME_MESSAGE", f"unexpected scheme message from router {item[0]}")]
        if item.topic != Topic.PREDICATES:
            return []
        if item.payload is None:
            self._forget_at[item.origin] = now + self.options.retain_ms
            return [*self._alarm.arm(self._forget_at[item.origin])]
        self._forget_at.pop(item.origin, None)
        try:
            return self._heard(item.origin, *decode_advertisement(item.payload), full=item.full)
        except TidingsError as error:
            # To forget the router would be to discard messages that are stored for it.
            self._take_all(item.origin)
            return [Report("E_PREDICATES_PAYLOAD", f"invalid advertisement from router {item.origin}: {error}")]

    def _heard(self, router: Router, form: bytes, change: Change, *, full: bool) -> list[Effect]:
        own = form == self._form or self.encoding.keyless  # without the key no rows are compared at all
        if (own and (full or router not in self._foreign)) or (full and not change.added):
            self._apply(router, change, full=full)
            return self._judged(router)
        return self._take_all(router) if change.added or own else []

    def forget(self, now: float, router: Router) -> list[Effect]:
        self._forget_at.pop(router, None)
        self._forget(router)
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
        self._tables.interest(router, added, removed)  # refuses invalid filters, then nothing has changed
        known -= removed
        known |= added
        self._filters += sum(map(is_filter, added)) - sum(map(is_filter, removed))

    def _take_all(self, router: Router) -> list[Effect]:
        """Count the router as one that asks for everything."""
        self._apply(router, Change(tuple(self.encoding.everything())), full=True)
        if router in self._foreign:
            return []
        self._foreign.add(router)
        reason = (
            f"router {router} advertises under another encoding, key or parameters; every message is sent to it until "
            "it is restarted with the same ones as this broker"
        )
        return [Report("E_ENCODING_DIFFERS", reason)]

    def _judged(self, router: Router) -> list[Effect]:
        if router not in self._foreign:
            return []
        self._foreign.discard(router)
        if self._foreign:
            return []
        return [Report("ENCODING_AGREED", "all known brokers advertise under this broker's encoding and key")]

    def _forget(self, router: Router) -> None:
        self._foreign.discard(router)
        if (rows := self._predicates.pop(router, None)) is not None:
            self._filters -= sum(map(is_filter, rows))
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
        reports: list[Effect] = []
        if len(whole) > WHOLE_BYTES_MAX:
            rows = self.encoding.everything()
            if rows == before:
                return []
            reason = (
                f"local interests take {len(whole)} bytes, more than the {WHOLE_BYTES_MAX} of one advertisement; "
                "this broker now receives every message"
            )
            reports, whole = [Report("E_PREDICATES_SIZE", reason)], self._encoded(rows)
        self._advertised = rows
        difference = None
        if before is not None:
            difference = self._encoded(rows - before, before - rows)
            if len(difference) >= len(whole):
                difference = None
        return [*reports, *self._flood.publish(now, Topic.PREDICATES, whole, difference)]

    def _encoded(self, added: set[bytes], removed: Collection[bytes] = ()) -> bytes:
        change = Change(tuple(added), tuple(removed))
        return encode_advertisement(change, self._form, self.encoding.row_bytes)
