"""Spreads interests in types over the overlay: `Tell` and `Untell`, with the neighbours they come from and go to.

All brokers' next hops towards the key of a type form a tree whose root is the rendezvous node. Advertisements and
subscriptions go up that tree; filters also go down it to where events are advertised, and so does the word that
somebody wants all events (`FLOW`). The rendezvous node of a type asks, in the trees of the subtypes it knows of, for
everything that it is asked for itself: there it is a subscriber under the name of its own type.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Protocol

from tidings.model.predicate import Predicate
from tidings.overlay.effects import Router
from tidings.routing.effects import Send
from tidings.routing.hermes.messages import SUBSCRIPTIONS, HermesMessage, InterestKind, Tell, Untell
from tidings.routing.hermes.options import HermesOptions
from tidings.routing.hermes.tables import ALWAYS, Flow, Hop, ToldInterest

NextHop = Callable[[int], Router | None]


class TreeListener(Protocol):
    """Follows the changes by which events find their way."""

    def changed(self, tree: "Tree") -> None: ...

    def gone(self, name: str) -> None: ...

    def wanted(self, name: str, hop: Hop, filter: Predicate, *, on: bool) -> None: ...


class Tree:
    """One type's tables at one broker."""

    def __init__(self, name: str, key: int, up: Router | None, since: float) -> None:
        self.name, self.key, self.up = name, key, up  # up: None at the rendezvous node
        self.since = since  # when this broker first heard of it
        self.flows: dict[InterestKind, Flow] = {kind: Flow() for kind in InterestKind}
        self.subtypes: dict[str, float] = {}  # at the rendezvous node: subtypes, and until when they are known

    def idle(self) -> bool:
        flows = self.flows.values()
        return not self.subtypes and not any(flow or any(one.until for one in flow.told.values()) for flow in flows)

    def targets(self, kind: InterestKind) -> set[Router]:
        """Whom to tell of filters of this kind."""
        up = set() if self.up is None or kind is InterestKind.FLOW else {self.up}
        if kind in (InterestKind.ADVERTISED, InterestKind.TYPE):
            return up
        return up | {hop for hop in self.flows[InterestKind.ADVERTISED].hops() if isinstance(hop, int)}


class Trees:
    def __init__(self, router: Router, key_of: Callable[[str], int], next_hop: NextHop, options: HermesOptions) -> None:
        self.router, self.options = router, options
        self.trees: dict[str, Tree] = {}
        self.out: list[Send] = []
        self.listener: TreeListener | None = None
        self.moving = False  # what is taken back now is taken back because ways have changed
        self._key_of, self._next_hop = key_of, next_hop
        self._now = 0.0

    def tree(self, name: str, now: float | None = None) -> Tree:
        found = self.trees.get(name)
        if found is None:
            self._now = self._now if now is None else now
            key = self._key_of(name)
            found = self.trees[name] = Tree(name, key, self._next_hop(key), self._now)
            if self.listener is not None:
                self.listener.changed(found)
        return found

    # --- what changes ---------------------------------------------------------------------------------------------

    def add(self, now: float, name: str, kind: InterestKind, hop: Hop, filter: Predicate, until: float = inf) -> None:
        """This hop wants, or advertises, this filter until then."""
        pending = [(name, hop)]
        while pending:
            name, hop = pending.pop()
            heirs = self._add(now, name, kind, hop, filter, until)
            pending += [(heir, name) for heir in heirs if not self.tree(heir).flows[kind].has(name, filter)]
            until = inf

    def _add(
        self, now: float, name: str, kind: InterestKind, hop: Hop, filter: Predicate, until: float
    ) -> Iterable[str]:
        """In one tree; returns the subtypes in whose trees this broker wants the same for the type."""
        self._now = now
        tree = self.tree(name)
        flow = tree.flows[kind]
        if flow.has(hop, filter):
            flow.add(hop, filter, until)
            self._prolong(tree, kind, filter)
            return ()
        flow.add(hop, filter, until)
        self._listen(tree, kind, hop, filter, on=True)
        for neighbour in flow.told:
            if neighbour != hop:
                self._offer(tree, kind, neighbour, filter)
        self._follow(tree, kind)
        return tuple(tree.subtypes) if kind in SUBSCRIPTIONS and tree.up is None else ()

    def remove(self, now: float, name: str, kind: InterestKind, hop: Hop, filter: Predicate) -> None:
        pending = [(name, hop)]
        while pending:
            name, hop = pending.pop()
            pending += [(heir, name) for heir in self._remove(now, name, kind, hop, filter)]

    def _remove(self, now: float, name: str, kind: InterestKind, hop: Hop, filter: Predicate) -> Iterable[str]:
        """In one tree; returns the subtypes in whose trees this broker no longer wants the same for the type."""
        self._now = now
        tree = self.trees.get(name)
        if tree is None or not tree.flows[kind].has(hop, filter):
            return ()
        flow = tree.flows[kind]
        flow.remove(hop, filter)
        self._listen(tree, kind, hop, filter, on=False)
        for neighbour, told in flow.told.items():
            if filter in told.until and flow.until_without(filter, neighbour) == -inf:
                self._withdraw(tree, kind, neighbour, filter)
        self._follow(tree, kind)
        return tuple(tree.subtypes) if kind in SUBSCRIPTIONS and filter not in flow.sources else ()

    def heir(self, now: float, name: str, child: str) -> None:
        """At the rendezvous node of `name`: this is a subtype."""
        tree = self.tree(name, now)
        tree.subtypes[child] = now + self.options.lifetime_ms
        self._inherit(now, tree, child)

    def disinherit(self, now: float, name: str, child: str) -> None:
        tree = self.trees.get(name)
        if tree is not None and tree.subtypes.pop(child, None) is not None:
            self._drop_source(now, child, name)

    def link_lost(self, now: float, neighbour: Router) -> None:
        """Nothing that was said over this link holds any more."""
        self.moving = True
        for tree in list(self.trees.values()):
            for flow in tree.flows.values():
                flow.told.pop(neighbour, None)
            self._drop_source(now, tree.name, neighbour)
            self._retarget(now, tree)
        self.moving = False

    def link_made(self, now: float, neighbour: Router) -> None:
        """Say everything that is for this neighbour, as if for the first time."""
        for tree in list(self.trees.values()):
            for flow in tree.flows.values():
                flow.told.pop(neighbour, None)
            self._retarget(now, tree)

    def reroute(self, now: float) -> bool:
        """The overlay has changed; whether any type's way has."""
        self._now = now
        moved, self.moving = False, True
        for tree in list(self.trees.values()):
            up = self._next_hop(tree.key)
            if up != tree.up:
                moved = True
                tree.up = up
                if self.listener is not None:
                    self.listener.changed(tree)
                self._retarget(now, tree)
                for child in tree.subtypes:
                    if up is None:
                        self._inherit(now, tree, child)
                    else:
                        self._drop_source(now, child, tree.name)
                if up is not None:
                    tree.subtypes.clear()
        self.moving = False
        return moved

    def refresh(self, now: float) -> None:
        """Say everything again that holds longer than it was said to."""
        self._now = now
        for tree in self.trees.values():
            for kind, flow in tree.flows.items():
                for filter in flow.sources:
                    self._prolong(tree, kind, filter)

    def expire(self, now: float) -> None:
        for tree in list(self.trees.values()):
            for kind, flow in tree.flows.items():
                for hop, filter in flow.expired(now):
                    self.remove(now, tree.name, kind, hop, filter)
            for child in [child for child, until in tree.subtypes.items() if until <= now]:
                self.disinherit(now, tree.name, child)
            if tree.idle() and now >= tree.since + 2 * self.options.settle_ms:
                del self.trees[tree.name]
                if self.listener is not None:
                    self.listener.gone(tree.name)

    def take(self) -> list[Send]:
        """Takes out and returns the messages to neighbours."""
        out, self.out = self.out, []
        return out

    def _listen(self, tree: Tree, kind: InterestKind, hop: Hop, filter: Predicate, *, on: bool) -> None:
        if self.listener is None:
            return
        if kind is InterestKind.FILTER:
            self.listener.wanted(tree.name, hop, filter, on=on)
        else:
            self.listener.changed(tree)

    # --- telling neighbours ---------------------------------------------------------------------------------------

    def _say(self, neighbour: Router, message: HermesMessage) -> None:
        self.out.append(Send(neighbour, message))

    def _offer(self, tree: Tree, kind: InterestKind, neighbour: Router, filter: Predicate) -> None:
        flow = tree.flows[kind]
        needed, covered = flow.to_add(neighbour, filter)
        if needed:
            self._tell(tree, kind, neighbour, filter)
            for one in covered:
                flow.told[neighbour].remove(one)
                self._say(neighbour, Untell(tree.name, kind, one, self.moving))

    def _tell(self, tree: Tree, kind: InterestKind, neighbour: Router, filter: Predicate) -> None:
        flow = tree.flows[kind]
        until = min(self._now + self.options.lifetime_ms, flow.until_without(filter, neighbour))
        flow.told[neighbour].add(filter, until)
        self._say(neighbour, Tell(tree.name, kind, filter, max(0, round(until - self._now))))

    def _withdraw(self, tree: Tree, kind: InterestKind, neighbour: Router, filter: Predicate) -> None:
        for one in tree.flows[kind].to_remove(neighbour, filter):  # first what takes its place
            self._offer(tree, kind, neighbour, one)
        self._say(neighbour, Untell(tree.name, kind, filter, self.moving))

    def _prolong(self, tree: Tree, kind: InterestKind, filter: Predicate) -> None:
        flow = tree.flows[kind]
        for neighbour, told in flow.told.items():
            known = told.until.get(filter)
            if known is None:
                continue
            until = min(self._now + self.options.lifetime_ms, flow.until_without(filter, neighbour))
            if until >= known + self.options.refresh_ms / 2:
                self._tell(tree, kind, neighbour, filter)

    def _follow(self, tree: Tree, kind: InterestKind) -> None:
        """Keep up what depends on this kind of interest."""
        if kind is InterestKind.ADVERTISED:
            self._retarget(self._now, tree)
        else:
            if kind is InterestKind.TYPE:
                self._call_for_flow(tree)
            self._retarget_kind(tree, kind)

    def _call_for_flow(self, tree: Tree) -> None:
        """The rendezvous node asks publishers' brokers to send it events while somebody wants all of them."""
        wanted = tree.up is None and bool(tree.flows[InterestKind.TYPE])
        flow = tree.flows[InterestKind.FLOW]
        if wanted != flow.has(None, ALWAYS):
            if wanted:
                self.add(self._now, tree.name, InterestKind.FLOW, None, ALWAYS)
            else:
                self.remove(self._now, tree.name, InterestKind.FLOW, None, ALWAYS)

    def _retarget(self, now: float, tree: Tree) -> None:
        self._now = now
        self._call_for_flow(tree)
        for kind in InterestKind:
            self._retarget_kind(tree, kind)

    def _retarget_kind(self, tree: Tree, kind: InterestKind) -> None:
        """Tell those who are to be told now, and take back what others were told."""
        flow, targets = tree.flows[kind], tree.targets(kind)
        for neighbour in [one for one in flow.told if one not in targets]:
            for filter in flow.told.pop(neighbour).until:
                self._say(neighbour, Untell(tree.name, kind, filter, self.moving))
        for neighbour in targets:
            if neighbour not in flow.told:
                flow.told[neighbour] = ToldInterest()
                for filter in list(flow.for_neighbour(neighbour)):
                    self._offer(tree, kind, neighbour, filter)

    # --- subtypes -------------------------------------------------------------------------------------------------

    def _inherit(self, now: float, tree: Tree, child: str) -> None:
        if tree.up is None:
            for kind in SUBSCRIPTIONS:
                for filter in tree.flows[kind].sources:
                    if not self.tree(child).flows[kind].has(tree.name, filter):
                        self.add(now, child, kind, tree.name, filter)

    def _drop_source(self, now: float, name: str, hop: Hop) -> None:
        for kind in InterestKind:
            flow = self.tree(name).flows[kind]
            for filter in flow.from_hop(hop):
                self.remove(now, name, kind, hop, filter)
