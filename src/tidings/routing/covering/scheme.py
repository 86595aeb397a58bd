"""The covering machine as the routing scheme of a node (tidings.routing.scheme.Carrier).

The machine thinks in trees, ids and advertisements; a node in links and predicates. This stands between:

- The tree is a spanning tree of the map that link-state unicast has; it is looked at again every `REFRESH_MS`, and its
  links count alike, so that measured latencies do not make brokers change over all the time.
- Each local subscription gets an id. What clients may publish is advertised when the broker starts: the topics that
  its configuration names. Clients may advertise more, which counts for all clients of the broker.
- Messages travel in the machine's Publications. Where a link has no room, what only passes through is dropped, and
  counted; those who publish at this broker wait (the node holds them).
- Persistent messages need destinations that can be accounted for, which no scheme has that matches at every hop. They
  go the way of B-DRP, whose advertisements are kept beside: stored, acknowledged, delivered once.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import cast

from tidings.kernel.codec import MessageBatch, decode_predicate
from tidings.model.codec import ID
from tidings.model.destination import QUEUE_ATTRIBUTE
from tidings.model.predicate import Predicate
from tidings.model.selector.program import run
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.routing.bdrp.scheme import Bdrp
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.control.single_timer import without_timer
from tidings.routing.covering import machine as covering
from tidings.routing.covering.codec import SCHEME, decode, encode
from tidings.routing.covering.merged_subscriptions import MergedInterests
from tidings.routing.covering.messages import (
    AdvertisementId,
    CoveringAdvertise,
    CoveringHandOver,
    CoveringMessage,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnadvertise,
    CoveringUnsubscribe,
    FilterId,
    Packed,
)
from tidings.routing.covering.policy import Policy
from tidings.routing.covering.spanning import spanning_tree
from tidings.routing.covering.tables import SubscriptionEntry
from tidings.routing.effects import Deliver, Effect, HandOver, Passed, Router, Send, SetTimer, UnicastTable
from tidings.routing.message_views import batch_of, heard
from tidings.routing.scheme import TIMER

PACKED_BYTES_MAX = 1 << 20
REFRESH_MS = 200.0
NUMBER_BITS = 20  # incarnations are milliseconds: the next life counts on far beyond what this one used
Links = Callable[[], Mapping[Router, Mapping[Router, int]]]


class CoveringScheme:
    def __init__(
        self,
        bdrp: Bdrp,
        router: Router,
        incarnation: int,
        policy: Policy,
        advertised: Collection[Predicate],
        links: Links,
        room: Callable[[Router], bool],
        merge: bool = False,
        merge_in_vain_max: float = 0.0,
        cover_advertisements: bool = False,
    ) -> None:
        self.machine = covering.CoveringMachine(router, policy, cover_advertisements=cover_advertisements)
        self._bdrp, self._links, self._room = bdrp, links, room
        self._number = incarnation << NUMBER_BITS
        self._advertised = {AdvertisementId(router, self._take_number()): one for one in advertised}
        self._ids: dict[Predicate, list[FilterId]] = {}
        self._merged = MergedInterests(merge_in_vain_max) if merge else None
        self._counts: Counter[str] = Counter()
        self._joined: tuple[int, tuple[Router, ...]] | None = None

    def _take_number(self) -> int:
        self._number += 1
        return self._number

    # --- the face of all schemes ----------------------------------------------------------------------------------

    @property
    def predicates(self) -> Mapping[Router, Set[bytes]]:
        return self._bdrp.predicates

    def payloads(self, router: Router) -> Mapping[int, Sequence[bytes]]:
        return self._bdrp.payloads(router)

    @property
    def local(self) -> LocalInterests:
        return self._bdrp.local

    def local_rows(self) -> set[bytes]:
        return self._bdrp.local_rows()

    @property
    def announced(self) -> bool:
        return self._bdrp.announced

    @property
    def applied(self) -> bool:
        return self._bdrp.applied

    def counts(self) -> Mapping[str, int]:
        return {
            **self._counts,
            "entries": len(self.machine.table),
            "told": sum(len(border.told) for border in self.machine.borders.values()),
            "preserved": sum(len(border.preserved) for border in self.machine.borders.values()),
            "in_vain": self.machine.publications_in_vain,
            "merged_in_vain": 0 if self._merged is None else self._merged.in_vain,
        }

    def start(self, now: float) -> list[Effect]:
        out = without_timer(TIMER, self._bdrp.start(now))
        for id, filter in self._advertised.items():
            out += self._step(now, None, CoveringAdvertise(id, filter))
        return [*out, *self._refresh(now), SetTimer(TIMER, now + REFRESH_MS)]

    def subscribe(self, now: float, predicate: bytes) -> list[Effect]:
        out, filter = without_timer(TIMER, self._bdrp.subscribe(now, predicate)), decode_predicate(predicate)
        if _of_queues(filter):
            return out
        if self._merged is not None:  # told at the next tick, with what else has changed till then
            self._merged.add(filter)
            return out
        return out + self._subscribe(now, filter)

    def _subscribe(self, now: float, predicate: Predicate) -> list[Effect]:
        id = FilterId(self.machine.router, self._take_number())
        self._ids.setdefault(predicate, []).append(id)
        return self._step(now, None, CoveringSubscribe(id, predicate))

    def unsubscribe(self, now: float, predicate: bytes) -> list[Effect]:
        out, filter = without_timer(TIMER, self._bdrp.unsubscribe(now, predicate)), decode_predicate(predicate)
        if _of_queues(filter):
            return out
        if self._merged is not None:
            self._merged.remove(filter)
            return out
        return out + self._unsubscribe(now, filter)

    def _unsubscribe(self, now: float, predicate: Predicate) -> list[Effect]:
        id = self._ids[predicate].pop()
        if not self._ids[predicate]:
            del self._ids[predicate]
        return self._step(now, None, CoveringUnsubscribe(id))

    def _tell_merged(self, now: float) -> list[Effect]:
        """First what is new, so that nothing is missed in between."""
        if self._merged is None:
            return []
        fresh, gone = self._merged.changes()
        out = [effect for one in fresh for effect in self._subscribe(now, one)]
        return out + [effect for one in gone for effect in self._unsubscribe(now, one)]

    def narrow(self, now: float, predicates: Iterable[bytes]) -> list[Effect]:
        return without_timer(TIMER, self._bdrp.narrow(now, predicates))

    def learn(self, now: float, item: Deliver | tuple[Router, SchemeMessage]) -> list[Effect]:
        if isinstance(item, Deliver):
            return without_timer(TIMER, self._bdrp.learn(now, item))
        neighbour, said = item
        message, out = heard(neighbour, said, SCHEME, decode, _carried)
        if message is None:
            return out
        self._count(message)
        return out + self._step(now, neighbour, message)

    def forget(self, now: float, router: Router) -> list[Effect]:
        return self._bdrp.forget(now, router)

    def routed(self, now: float, table: UnicastTable) -> list[Effect]:
        return [*self._bdrp.routed(now, table), *self._refresh(now)]

    def tick(self, now: float) -> list[Effect]:
        """This scheme's clock ticks all the time, and takes B-DRP's along."""
        out = without_timer(TIMER, self._bdrp.tick(now))
        return [*out, *self._tell_merged(now), *self._refresh(now), SetTimer(TIMER, now + REFRESH_MS)]

    # --- what only those that carry messages have -----------------------------------------------------------------

    def link_up(self, now: float, neighbour: Router) -> list[Effect]:
        self._joined = None
        return self._refresh(now)

    def link_down(self, now: float, neighbour: Router) -> list[Effect]:
        self._joined = None
        return self._carry_out(self.machine.link_down(now, neighbour))

    def advertise(self, now: float, predicate: Predicate) -> list[Effect]:
        id = AdvertisementId(self.machine.router, self._take_number())
        self._advertised[id] = predicate
        return self._step(now, None, CoveringAdvertise(id, predicate))

    def unadvertise(self, now: float, predicate: Predicate) -> list[Effect]:
        id = next(id for id in reversed(self._advertised) if self._advertised[id] == predicate)  # the youngest
        del self._advertised[id]
        return self._step(now, None, CoveringUnadvertise(id))

    def publish(self, now: float, message: bytes) -> list[Effect]:
        batch = batch_of(message)
        advertisement = self._advertisement(batch)
        if advertisement is None:
            self._counts["unadvertised"] += 1
            return []
        effects = self.machine.step(now, None, CoveringPublication(advertisement, 0, 0, message))
        outward = [one for one in effects if not isinstance(one, CoveringHandOver)]  # the plane has served those here
        return self._carry_out(outward, own=True)

    def advertised(self, message: bytes) -> bool:
        """Reports whether somebody here has advertised such a message."""
        return self._advertisement(batch_of(message)) is not None

    def matching(self, message: bytes) -> list[SubscriptionEntry]:
        """The known subscriptions that want a message."""
        return self.machine.table.match(batch_of(message))

    def _advertisement(self, batch: MessageBatch) -> AdvertisementId | None:
        attributes = batch.attributes(0)
        return next((id for id, filter in self._advertised.items() if filter.matches(attributes, run)), None)

    def _refresh(self, now: float) -> list[Effect]:
        """Route on the tree of the links there are now; nothing is said if that is so already."""
        links, router = self._links(), self.machine.router
        known = [(a, b, 1) for a, ends in links.items() for b in ends if a < b and a in links.get(b, {})]
        tree = spanning_tree(router, known)
        alive = tuple(other for other in tree.neighbours if other in links.get(router, {}))
        if (tree.epoch, alive) == self._joined:
            return []
        self._joined = tree.epoch, alive
        self._counts["trees"] += 1
        return self._carry_out(self.machine.join(now, tree.epoch, alive))

    # --- the machine ----------------------------------------------------------------------------------------------

    def _step(self, now: float, source: Router | None, message: CoveringMessage) -> list[Effect]:
        return self._carry_out(self.machine.step(now, source, message))

    def _carry_out(self, effects: Iterable[covering.Effect], own: bool = False) -> list[Effect]:
        """`own`: a publication of this broker's clients, who are made to wait rather than to lose it."""
        out: list[Effect] = []
        for effect in effects:
            if isinstance(effect, CoveringHandOver):
                self._account(effect)
                out.append(HandOver(effect.publication.message))
                continue
            message = cast("CoveringMessage", effect.message)
            if isinstance(message, CoveringPublication) and not own and not self._room(effect.neighbour):
                self._counts["dropped_link"] += 1
                continue
            if isinstance(message, CoveringPublication):
                self._counts["copies"] += 1
                out.append(Passed(message.message[ID], effect.neighbour))
            out += [Send(effect.neighbour, SchemeMessage(SCHEME, data)) for data in encoded(message)]
        return out

    def _account(self, came: CoveringHandOver) -> None:
        """Mergers let through more than is wanted here: by how much is measured."""
        if self._merged is not None and self._merged.in_vain_max:
            attributes, entries = batch_of(came.publication.message).attributes(0), self.machine.table.entries
            for id in came.subscriptions:
                if id in entries:
                    self._merged.arrived(entries[id].filter, attributes)

    def _count(self, message: CoveringMessage) -> None:
        """Of neighbours: publications, messages with subscriptions (a packed one counts once), all others."""
        first = message.changes[0] if isinstance(message, Packed) else message
        if isinstance(first, CoveringPublication):
            self._counts["publications"] += 1
        else:
            self._counts["subscribes" if isinstance(first, CoveringSubscribe) else "controls"] += 1


def encoded(message: CoveringMessage) -> list[bytes]:
    """Usually one message; changes that are more than one may hold are said one part after the other."""
    data = encode(message)
    if len(data) <= PACKED_BYTES_MAX or not isinstance(message, Packed) or len(message.changes) == 1:
        return [data]
    half = len(message.changes) // 2
    return [*encoded(Packed(message.changes[:half])), *encoded(Packed(message.changes[half:]))]


def _of_queues(predicate: Predicate) -> bool:
    """Reports whether it is about queues. A queue belongs to one broker: no other needs to know of its consumers."""
    return any(one.name == QUEUE_ATTRIBUTE for each in predicate.conjunctions for one in each)


def _carried(message: object) -> bytes | None:
    return message.message if isinstance(message, CoveringPublication) else None
