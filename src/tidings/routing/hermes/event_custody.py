"""Persistent events at one broker: the hops that have them from here, and those that have yet to confirm their safety.

A broker keeps a persistent event until everybody it passed it to has answered `Settled`, which they do when the same is
true for them; so the broker where it was published has it as long as anyone on its way still needs it. Whoever
crashes, what it held is with the one before it. When the overlay has changed, tables may lack for a while what they
will have after repair; until then the event is kept and the tables are asked again (`Hermes._review`). In the end it is
passed on once more to all, for one who had it long ago may have taken the place of one that was lost.

If an event arrives again while it is kept, the broker answers Settled at once; otherwise an event on a cycle would wait
for itself. One that comes again later is passed on again, but handed to no subscription twice.

So from every broker that has it leads a chain, by whoever waits for whom, to the publisher's broker. It must never
become a ring, in which each waits for the next for ever:

- A publisher's broker may get its own event from others after a restart. Once it publishes it, nobody is before it, and
  those others wait for it no longer.
- When the link to the source of an event is lost, nobody there waits any more, whoever comes to be at its other end
  later. What is kept is an orphan. The next from whom it comes is its source, unless other brokers have it from here,
  for the next may be one of them.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidings.overlay.effects import Router
from tidings.routing.hermes.messages import HermesPublication, HermesSubscriptionId
from tidings.routing.hermes.tables import Hop

Flags = tuple[bool, bool]


@dataclass(slots=True)
class Item:
    event: HermesPublication
    source: Hop
    since: float  # when it came, or was passed on once more
    passed: dict[Hop, Flags] = field(default_factory=dict)  # to whom, and for which subscriptions there
    waiting: set[Hop] = field(default_factory=set)
    answered: set[Hop] = field(default_factory=set)
    orphan: bool = False  # the source no longer waits for an answer

    def comes_from(self, source: Hop, flags: Flags) -> None:
        """Records that this hop has the event for these subscriptions: it need not be passed there for them."""
        if isinstance(source, int):
            before = self.passed.get(source, (False, False))
            self.passed[source] = (before[0] or flags[0], before[1] or flags[1])

    def sends(self, hop: Hop, flags: Flags) -> bool:
        """Reports whether it is to be passed on to this hop now, for more than it was passed on for already."""
        before = self.passed.get(hop)
        if before is not None and before[0] >= flags[0] and before[1] >= flags[1]:
            return False
        self.passed[hop] = flags if before is None else (before[0] or flags[0], before[1] or flags[1])
        self.waiting.add(hop)
        return True

    def relieves(self, source: Hop) -> list[Hop]:
        """Records a repeated arrival from this source; returns the hops that no longer wait for this broker."""
        if source == self.source and not self.orphan:
            return []
        before, orphan = self.source, self.orphan
        if source is None or (orphan and self.waiting <= {None}):
            self.source, self.orphan = source, False
            return [] if orphan else [before]
        return [source]

    def once_more(self, now: float, unsettled_until: float) -> bool:
        """Reports whether it has to be passed on again to all that have it, because routes have changed since."""
        if unsettled_until <= self.since:
            return False
        self.since = now
        for hop in self.answered:
            self.passed.pop(hop, None)
        self.answered.clear()
        return True


class Custodian:
    def __init__(self, handed_max: int) -> None:
        self._items: dict[bytes, dict[str, Item]] = {}  # by tag and tree
        self._handed: OrderedDict[bytes, set[HermesSubscriptionId]] = OrderedDict()
        self._handed_max = handed_max

    def __len__(self) -> int:
        return sum(len(trees) for trees in self._items.values())

    def take(self, now: float, source: Hop, event: HermesPublication) -> list[Hop]:
        """Keep it; returns the hops that have to keep it no longer, because it was kept already."""
        trees = self._items.setdefault(event.tag, {})
        known = trees.get(event.type)
        if known is None:
            known = trees[event.type] = Item(event, source, now)
            known.comes_from(source, (event.by_type, event.by_filter))
            return []
        known.comes_from(source, (event.by_type, event.by_filter))
        flags = (known.event.by_type or event.by_type, known.event.by_filter or event.by_filter)
        known.event = HermesPublication(event.type, *flags, event.rising, event.tag, event.message)
        return known.relieves(source)

    def items(self, tag: bytes | None = None) -> list[Item]:
        found = self._items.values() if tag is None else [self._items.get(tag, {})]
        return [item for trees in found for item in trees.values()]

    def holds(self, item: Item) -> bool:
        return self._items.get(item.event.tag, {}).get(item.event.type) is item

    def settled(self, tree: str, tag: bytes, hop: Hop) -> None:
        item = self._items.get(tag, {}).get(tree)
        if item is not None and hop in item.waiting:
            item.waiting.remove(hop)
            item.answered.add(hop)

    def refused(self, tree: str, tag: bytes) -> None:
        """It could not be stored here: it is handed over again at the next review."""
        self._handed.pop(tag, None)
        item = self._items.get(tag, {}).get(tree)
        if item is not None:
            item.passed.pop(None, None)

    def lost(self, neighbour: Router) -> None:
        """Forgets what was passed to this neighbour, which may have lost it. Neither waits for the other any longer."""
        for item in self.items():
            item.waiting.discard(neighbour)
            item.answered.discard(neighbour)
            item.passed.pop(neighbour, None)
            item.orphan = item.orphan or item.source == neighbour

    def drop(self, event: HermesPublication) -> None:
        trees = self._items[event.tag]
        del trees[event.type]
        if not trees:
            del self._items[event.tag]

    def not_handed(self, tag: bytes, ids: Iterable[HermesSubscriptionId]) -> list[HermesSubscriptionId]:
        """Those that have not been given this event; from now on they have."""
        handed = self._handed.setdefault(tag, set())
        self._handed.move_to_end(tag)
        fresh = [id for id in ids if id not in handed]
        handed.update(fresh)
        while len(self._handed) > self._handed_max:
            self._handed.popitem(last=False)
        return fresh
