"""B-DRP, the control plane: every router knows the encoded interests of every other one.

LOCAL-PREDICATES are aggregated, encoded and flooded (topic PREDICATES of the reliable flood): first whole, then by
differences, with changes of a short while in one advertisement. What others flood fills PREDICATES, and with the
unicast routes that is all the forwarding plane needs: it matches a message where it enters the network, once, and then
only divides the set of destinations along the routes (forwarding.py).

A router that vanishes (the flood says so when its state has aged out) is kept for a while longer: what is published
for its durable subscriptions meanwhile waits for it, where it is persistent, and is counted as without a route, where
it is not.

Interests are advertised in parts of bounded size (parts.py), which has its limits too. Beyond them a router asks for
everything: it gets messages that it does not need, but nothing is lost.

Parameters of the encoding are changed by restarting one broker after the other. Meanwhile rows of another form
(interests.py), from the flood or remembered in the store, cannot be compared with messages: such a *foreign* router
counts as one that asks for everything, until it advertises in this router's form. So every message reaches a superset
of the routers that want it, and links stay up.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

from tidings.errors import TidingsError
from tidings.model.codec import decode_predicate, encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import TOPIC_ATTRIBUTE
from tidings.model.predicate import Predicate
from tidings.model.predicate_text import abridged
from tidings.routing.bdrp.advertisement import Change, InterestAdvertisement, decode_advertisement, encode_advertisement
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.known_interests import KnownInterests, KnownPart, change_of, filter_change
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.routing.bdrp.parts import PARTS_MAX, Parts, part_of, topic_of
from tidings.routing.control.codec import CONTROL_BYTES_MAX
from tidings.routing.control.flood import Flood
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.control.single_timer import SingleTimer
from tidings.routing.effects import Deliver, Effect, Report, Router, UnicastTable
from tidings.routing.scheme import TIMER, Tables

_UNBOUNDED = tuple(
    map(encode_predicate, (Predicate.always(), Predicate.of(Constraint(TOPIC_ATTRIBUTE, Op.TOPIC, ">"))))
)


@dataclass(frozen=True, slots=True)
class BdrpOptions:
    coalesce_ms: float = 50  # changes within this time are one advertisement
    retain_ms: float = 7 * 24 * 3_600_000  # how long the interests of a vanished router are kept
    part_bytes_max: int = 2 << 20  # of rows in one part
    parts_max: int = PARTS_MAX
    first_bytes_max: int = CONTROL_BYTES_MAX - 1024  # of the first part, which has all encoded rows


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
        self._life = flood.incarnation
        self._local = LocalInterests(encoding)
        self._parts = Parts(self.options.part_bytes_max, self.options.parts_max, self.options.first_bytes_max)
        self._published = self._all = False  # has advertised; asks for everything, since the parts are full
        self._publish_at: float | None = None
        self._known = KnownInterests()
        self.changes = 0  # of what is known, so far
        self._forget_at: dict[Router, float] = {}
        self._foreign: set[Router] = set()

    @property
    def predicates(self) -> Mapping[Router, Set[bytes]]:
        """PREDICATES: the rows of every other known router; for a foreign one, the row that asks for everything."""
        return self._known

    def payloads(self, router: Router) -> Mapping[int, Sequence[bytes]]:
        """Returns what a router advertised, by part: the whole and the differences since. An unknown one: nothing."""
        return self._known.payloads(router)

    @property
    def foreign(self) -> frozenset[Router]:
        """Routers whose rows are of another form."""
        return frozenset(self._foreign)

    @property
    def local(self) -> LocalInterests:
        return self._local

    def local_rows(self) -> set[bytes]:
        return self._local.rows()

    @property
    def announced(self) -> bool:
        return self._publish_at is None

    @property
    def applied(self) -> bool:
        return True

    def counts(self) -> Mapping[str, int]:
        rows, filters = self._known.counts()
        return {
            "rows": rows,
            "filters": filters,
            "foreign": len(self._foreign),
            "unbounded": self._local.unbounded,
            "parts": len(self._parts),
            "advertised": sum(map(len, self._parts.rows)),
            "advertised_bytes": self._parts.size,
        }

    def start(self, now: float) -> list[Effect]:
        return self._later(now)  # even if there are no rows: it replaces the advertisement of an earlier life

    def subscribe(self, now: float, predicate: bytes) -> list[Effect]:
        before = self._local.unbounded
        self._local.add(predicate)
        reports: list[Effect] = []
        if self._local.unbounded > before and predicate not in _UNBOUNDED:
            reason = (
                f"every message is sent to this broker because of one subscription that the encoding cannot narrow: "
                f"{abridged(decode_predicate(predicate))}"
            )
            reports.append(Report("E_INTEREST_UNBOUNDED", reason))
        return [*reports, *self._later(now)]

    def also(self, now: float, rows: set[bytes]) -> list[Effect]:
        """Advertise these beside the local interests: the interests of routers that are reached through this one."""
        self._local.also(rows)
        return self._later(now)

    def unsubscribe(self, now: float, predicate: bytes) -> list[Effect]:
        self._local.remove(predicate)
        return self._later(now)

    def narrow(self, now: float, predicates: Iterable[bytes]) -> list[Effect]:
        changed = [self._local.narrow(one) for one in predicates]
        return self._later(now) if any(changed) else []

    def learn(self, now: float, item: Deliver | tuple[Router, SchemeMessage]) -> list[Effect]:
        if not isinstance(item, Deliver):
            return [Report("E_SCHEME_MESSAGE", f"unexpected scheme message from router {item[0]}")]
        part = part_of(item.topic)
        if part is None:
            return []
        if item.payload is None:
            if part:
                return []  # the router is forgotten with its first part
            self._forget_at[item.origin] = now + self.options.retain_ms
            return [*self._alarm.arm(self._forget_at[item.origin])]
        self._forget_at.pop(item.origin, None)
        try:
            heard = decode_advertisement(item.payload)
            return self._heard(item.origin, part, item, heard)
        except TidingsError as error:
            # To forget the router would be to discard messages that are stored for it.
            self._take_all(item.origin, part, item, 0)
            return [Report("E_PREDICATES_PAYLOAD", f"invalid advertisement from router {item.origin}: {error}")]

    def _heard(self, router: Router, part: int, item: Deliver, heard: InterestAdvertisement) -> list[Effect]:
        assert item.payload is not None
        own = heard.form == self._form or self.encoding.keyless  # without the key no rows are compared at all
        known = self._known.part(router, part)
        judged = known is None or known.instead is None
        if (own and (item.full or judged)) or (item.full and not heard.change.added):
            self._apply(router, part, item, heard)
            if part == 0:
                for void in self._known.void(router, heard.life, heard.parts):
                    self._install(router, void, Change(removed=tuple(self._rows_of(router, void))))
                    self._known.drop(router, void)
            return self._judged(router)
        return self._take_all(router, part, item, heard.life) if heard.change.added or own else []

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

    def _rows_of(self, router: Router, part: int) -> Set[bytes]:
        known = self._known.part(router, part)
        return set() if known is None else known.read()

    def _install(self, router: Router, part: int, change: Change) -> None:
        """Change the tables by what has changed in a part."""
        self._tables.interest(router, change.added, change.removed)  # refuses invalid filters, then nothing has changed
        self.changes += 1
        known = self._known.part(router, part)
        if known is not None:
            known.count(len(change.added), len(change.removed), filter_change(change))

    def _apply(self, router: Router, part: int, item: Deliver, heard: InterestAdvertisement) -> None:
        assert item.payload is not None
        known = self._known.part(router, part)
        if known is not None and not item.full and known.payloads:
            self._install(router, part, heard.change)
            known.payloads.append(item.payload)
            return
        change = change_of(self._rows_of(router, part), heard.change.added)
        self._replace(router, part, change, KnownPart([item.payload], heard.life))

    def _replace(self, router: Router, part: int, change: Change, new: KnownPart) -> None:
        known = self._known.part(router, part)
        self._install(router, part, change)
        if known is None:
            new.count(len(change.added), 0, filter_change(change))
        else:
            new.rows, new.filters = known.rows, known.filters
        self._known.put(router, part, new)

    def _take_all(self, router: Router, part: int, item: Deliver, life: int) -> list[Effect]:
        """Count the part as one that asks for everything."""
        assert item.payload is not None
        known = self._known.part(router, part)
        payloads = [item.payload] if item.full or known is None else [*known.payloads, item.payload]
        everything = frozenset(self.encoding.everything(part))
        change = change_of(self._rows_of(router, part), tuple(everything))
        self._replace(router, part, change, KnownPart(payloads, life, everything))
        if router in self._foreign:
            return []
        self._foreign.add(router)
        reason = (
            f"router {router} advertises under another encoding, key or parameters; every message is sent to it until "
            "it is restarted with the same ones as this broker"
        )
        return [Report("E_ENCODING_DIFFERS", reason)]

    def _judged(self, router: Router) -> list[Effect]:
        if router not in self._foreign or self._known.foreign(router):
            return []
        self._foreign.discard(router)
        if self._foreign:
            return []
        return [Report("ENCODING_AGREED", "all known brokers advertise under this broker's encoding and key")]

    def _forget(self, router: Router) -> None:
        self._foreign.discard(router)
        if self._known.forget(router):
            self.changes += 1
            self._tables.forget(router)

    def _later(self, now: float) -> list[Effect]:
        if self._publish_at is None:
            self._publish_at = now + self.options.coalesce_ms
        return [*self._alarm.arm(self._publish_at)]

    def _publish(self, now: float) -> list[Effect]:
        self._publish_at = None
        changes = self._parts.change(*self._local.take_changes())
        full = self._parts.full
        if self._published and full == self._all:
            some = {} if full else changes
            return [effect for part, change in some.items() for effect in self._flood_part(now, part, change)]
        self._published, self._all = True, full
        out: list[Effect] = []
        if full:
            reason = (
                f"local interests take {self._parts.size} bytes, more than the {self.options.parts_max} parts of "
                f"{self.options.part_bytes_max} bytes hold; this broker now receives every message"
            )
            out.append(Report("E_PREDICATES_SIZE", reason))
        for part in range(len(self._parts)):
            out += self._flood_part(now, part, None)
        return out

    def _flood_part(self, now: float, part: int, change: Change | None) -> list[Effect]:
        """Flood a change of a part; None: the whole of it."""
        difference = None
        if change is not None and len(change.added) + len(change.removed) < len(self._parts.rows[part]):
            difference = self._encoded(change)
        return self._flood.publish(now, topic_of(part), partial(self._whole, part), difference)

    def _whole(self, part: int) -> bytes:
        if not self._all:
            return self._encoded(Change(tuple(self._parts.rows[part])))
        return self._encoded(Change(() if part else tuple(self.encoding.everything())))

    def _encoded(self, change: Change) -> bytes:
        return encode_advertisement(change, self._form, self.encoding.row_bytes, self._life, len(self._parts))
