"""The covering scheme of one broker: `step(now, source, message) -> effects`.

Advertisements are flooded over the tree; subscriptions go towards the advertisements they intersect, as far as the
policy lets them; publications follow subscriptions back. `source` is the neighbour a message came from, None for a
client of this broker.

The overlay is a tree. In a graph with cycles it is one of its spanning trees, chosen again after a failure
(spanning.py), and brokers hear of that at different times. A link is therefore open only while both ends are known
to be on the same tree, by a handshake: each says Join with the tree's epoch, a session number that grows with each tree
it joins, and the session it heard from the other. What arrives over a link that is not open is dropped. So every
message crosses links of one tree only, which has no cycles: nothing comes twice and nothing stale circulates. Opening
a link, a broker tells all it knows; closing one, it forgets all it heard there.
"""

from collections.abc import Iterable
from typing import TypeAlias, assert_never

from tidings.errors import UsageError
from tidings.model.covering import covers
from tidings.model.predicate import Predicate
from tidings.model.selector.program import run
from tidings.overlay.effects import Router
from tidings.routing.covering.messages import (
    AdvertisementId,
    Change,
    CoveringAdvertise,
    CoveringHandOver,
    CoveringMessage,
    CoveringPublication,
    CoveringSubscribe,
    CoveringUnadvertise,
    CoveringUnsubscribe,
    Join,
    Packed,
    Prune,
)
from tidings.routing.covering.policy import Policy
from tidings.routing.covering.tables import CoveringTable, Hop, NeighbourTable, SubscriptionEntry
from tidings.routing.effects import Send
from tidings.routing.message_views import batch_of

Effect: TypeAlias = Send | CoveringHandOver


class CoveringMachine:
    def __init__(self, router: Router, policy: Policy, *, cover_advertisements: bool = False) -> None:
        self.router = router
        self.policy = policy
        self.cover_advertisements = cover_advertisements  # do not pass on what a neighbour need not know
        self.table = CoveringTable()
        self.advertisements: dict[AdvertisementId, tuple[Predicate, Hop]] = {}  # the SRT
        self.borders: dict[Router, NeighbourTable] = {}  # open links
        self.publications_in_vain = 0  # came from a neighbour, and nobody here or beyond wanted them
        self.epoch = 0
        self.session = 1
        self._tree: dict[Router, None] = {}  # neighbours on the tree to whom a link is up
        self._joins: dict[Router, Join] = {}  # the latest from each neighbour
        self._joined: dict[Router, Join] = {}  # the latest to each
        self._effects: list[Effect] = []
        self._changes: dict[Router, list[Change]] = {}

    # The tree and its links.

    def link_up(self, now: float, neighbour: Router) -> list[Effect]:
        """A link of the tree has come up."""
        return self.join(now, self.epoch, (neighbour,))

    def link_down(self, now: float, neighbour: Router) -> list[Effect]:
        """A link is down; messages in flight on it are lost."""
        self._tree.pop(neighbour, None)
        self._joins.pop(neighbour, None)
        self._joined.pop(neighbour, None)
        self._shut(neighbour)
        return self._done()

    def join(self, now: float, epoch: int, neighbours: Iterable[Router]) -> list[Effect]:
        """Route on this tree, whose links to these neighbours are up. What they said belongs to the tree before it."""
        if epoch == self.epoch:  # the same as before; a link may have failed and come back
            for neighbour in neighbours:
                if neighbour not in self._tree:
                    self._tree[neighbour] = None
                    self._greet(neighbour)
                    self._maybe_open(neighbour)
            return self._done()
        for id in [id for id, entry in self.table.entries.items() if entry.hop is not None]:
            self.table.remove(id)
        self.advertisements = {id: one for id, one in self.advertisements.items() if one[1] is None}
        self.borders.clear()
        self.epoch, self.session = epoch, self.session + 1
        self._tree = dict.fromkeys(neighbours)
        for neighbour in self._tree:
            self._greet(neighbour)
            self._maybe_open(neighbour)
        return self._done()

    def _greet(self, neighbour: Router) -> None:
        """Say where we are, unless that was said."""
        heard = self._joins.get(neighbour)
        join = Join(self.epoch, self.session, heard.session if heard else 0)
        if self._joined.get(neighbour) != join:
            self._joined[neighbour] = join
            self._effects.append(Send(neighbour, join))

    def _hear_join(self, neighbour: Router, join: Join) -> None:
        before = self._joins.get(neighbour)
        self._joins[neighbour] = join
        if before is not None and before.session != join.session:
            self._shut(neighbour)
        if neighbour in self._tree:
            self._greet(neighbour)
            self._maybe_open(neighbour)

    def _maybe_open(self, neighbour: Router) -> None:
        join = self._joins.get(neighbour)
        if join is None or neighbour in self.borders:
            return
        if join.epoch == self.epoch and join.heard == self.session:
            border = self.borders[neighbour] = NeighbourTable(neighbour)
            for id, (filter, _) in self.advertisements.items():
                self._announce(border, CoveringAdvertise(id, filter))

    def _shut(self, neighbour: Router) -> None:
        if self.borders.pop(neighbour, None) is None:
            return
        gone = self.table.from_hop(neighbour)
        for entry in gone:  # all of them first, so that none is sent to others in place of another
            self.table.remove(entry.id)
        for entry in gone:
            self._withdraw(entry, None)
        for id in [id for id, (_, hop) in self.advertisements.items() if hop == neighbour]:
            filter, _ = self.advertisements.pop(id)
            for other in self.borders.values():
                self._renounce(other, id, filter)

    # Messages.

    def step(self, now: float, source: Hop, message: CoveringMessage) -> list[Effect]:
        if isinstance(message, Join):
            assert source is not None
            self._hear_join(source, message)
        elif source is None or source in self.borders:
            self._handle(now, source, message)
        return self._done()

    def _handle(self, now: float, source: Hop, message: CoveringMessage) -> None:
        match message:
            case CoveringPublication():
                self._publication(now, source, message)
            case CoveringSubscribe():
                self._subscribe(source, message)
            case CoveringUnsubscribe():
                self._unsubscribe(source, message)
            case Packed():
                for change in message.changes:
                    self._handle(now, source, change)
            case CoveringAdvertise():
                self._advertise(source, message)
            case CoveringUnadvertise():
                self._unadvertise(source, message)
            case Join():
                raise AssertionError("handled by step")
            case _:
                assert_never(message)

    def _done(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        for neighbour, changes in self._changes.items():
            if self.policy.packs and len(changes) > 1:
                effects.append(Send(neighbour, Packed(tuple(changes))))
            else:
                effects += [Send(neighbour, change) for change in changes]
        self._changes.clear()
        return effects

    def _say(self, border: NeighbourTable, changes: list[Change]) -> None:
        if changes:
            self._changes.setdefault(border.neighbour, []).extend(changes)

    def _others(self, source: Hop) -> list[NeighbourTable]:
        return [border for neighbour, border in self.borders.items() if neighbour != source]

    def _advertise(self, source: Hop, message: CoveringAdvertise) -> None:
        if message.id in self.advertisements:
            if source is None:
                raise UsageError("E_COVERING_ID", f"advertisement {message.id} exists already")
            return
        self.advertisements[message.id] = (message.filter, source)
        for border in self._others(source):
            self._announce(border, message)
        if source is not None:
            border = self.borders[source]
            border.advertised.add(message.id, message.filter)
            found = [self.table.entries[id] for id in self.table.index.intersecting(message.filter)]
            self._say(border, self.policy.fill(border, [entry for entry in found if entry.hop != source]))

    def _announce(self, border: NeighbourTable, message: CoveringAdvertise) -> None:
        if self.cover_advertisements:
            if next(border.announced.covering(message.filter), None) is not None:
                return
            border.announced.add(message.id, message.filter)
        self._effects.append(Send(border.neighbour, message))

    def _renounce(self, border: NeighbourTable, id: AdvertisementId, filter: Predicate) -> None:
        """Take an advertisement back, after telling of those that only it made needless."""
        if self.cover_advertisements:
            if id not in border.announced:
                return
            border.announced.remove(id)
            for other, (narrow, hop) in self.advertisements.items():
                if hop != border.neighbour and other not in border.announced and covers(filter, narrow):
                    self._announce(border, CoveringAdvertise(other, narrow))
        self._effects.append(Send(border.neighbour, CoveringUnadvertise(id)))

    def _unadvertise(self, source: Hop, message: CoveringUnadvertise) -> None:
        filter, hop = self.advertisements.get(message.id, (None, None))
        if filter is None or hop != source:
            if source is None:
                raise UsageError("E_COVERING_ID", f"advertisement {message.id} is unknown: no client here made it")
            return
        del self.advertisements[message.id]
        for border in self._others(source):
            self._renounce(border, message.id, filter)
        if source is not None:
            border = self.borders[source]
            border.advertised.remove(message.id)
            idle = [id for id in border.told.intersecting(filter) if not border.wants(border.told[id])]
            for id in idle:  # nothing takes their place: what they covered is not wanted either
                border.forget(id)
            self._say(border, [CoveringUnsubscribe(id) for id in idle])
            self._say(border, self.policy.tidy(border, self.table, border.told.intersecting(filter)))

    def _subscribe(self, source: Hop, message: CoveringSubscribe) -> None:
        if message.id in self.table.entries:
            if source is None:
                raise UsageError("E_COVERING_ID", f"subscription {message.id} exists already")
            return
        entry = self.table.add(message.id, message.filter, source)
        for border in self._others(source):
            self._say(border, self.policy.announce(border, entry))

    def _unsubscribe(self, source: Hop, message: CoveringUnsubscribe) -> None:
        entry = self.table.entries.get(message.id)
        if entry is None or entry.hop != source:
            if source is None:
                raise UsageError("E_COVERING_ID", f"subscription {message.id} is unknown: no client here made it")
            return
        self.table.remove(entry.id)
        self._withdraw(entry, self.policy.leave(entry.id) if source is None else message.prunes)

    def _withdraw(self, entry: SubscriptionEntry, prunes: tuple[Prune, ...] | None) -> None:
        for border in self._others(entry.hop):
            if entry.id in border.told:
                self._say(border, self.policy.retract(border, self.table, entry.id, prunes))
            self._say(border, self.policy.tidy(border, self.table, border.told.covering(entry.filter)))

    # Publications.

    def _publication(self, now: float, source: Hop, message: CoveringPublication) -> None:
        batch = batch_of(message.message)
        if source is None:
            filter, hop = self.advertisements.get(message.advertisement, (None, None))
            if filter is None or hop is not None or not filter.matches(batch.attributes(0), run):
                raise UsageError(
                    "E_COVERING_UNADVERTISED", f"no match for a local advertisement {message.advertisement}"
                )
        matched = [entry for entry in self.table.match(batch) if source is None or entry.hop != source]
        if source is None:
            message = CoveringPublication(message.advertisement, 0, 0, message.message)
        elif len(matched) > 1:
            message = CoveringPublication(message.advertisement, 0, message.count + 1, message.message)
        else:
            message = CoveringPublication(message.advertisement, message.distance + 1, message.count, message.message)
        local = sorted(entry.id for entry in matched if entry.hop is None)
        for id in local:
            self.policy.handed(now, id, message.advertisement, message.distance, message.count)
        if local:
            self._effects.append(CoveringHandOver(tuple(local), message))
        self._effects += [Send(hop, message) for hop in sorted({one.hop for one in matched if one.hop is not None})]
        if source is not None:
            self.publications_in_vain += not matched
            border = self.borders[source]
            self._say(border, self.policy.arrived(border, self.table, batch, bool(matched)))
