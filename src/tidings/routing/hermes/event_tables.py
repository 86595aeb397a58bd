"""Keeps the forwarding plane's tables of events equal to the trees of the machine (`Trees.listener`).

A row of the plane is a filter and the name of its tree, which the plane adds to the attributes of an event there
(native/include/tidings/forwarding/event_trees.hpp). Interests of clients here are not among them: the plane matches
those as subscriptions to topics.
"""

from tidings.errors import TidingsError
from tidings.model.codec import encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.routing.effects import Router
from tidings.routing.hermes.messages import InterestKind
from tidings.routing.hermes.tables import Hop
from tidings.routing.hermes.trees import Tree
from tidings.routing.scheme import EventTables

TREE_ATTRIBUTE = "@tree"


class PlaneTrees:
    def __init__(self, tables: EventTables) -> None:
        self._tables = tables
        self._numbers: dict[tuple[str, Router | str, Predicate], int] = {}

    def changed(self, tree: Tree) -> None:
        """The hops that want all events of a type have changed, or the way to its rendezvous node."""
        wanting = tree.flows[InterestKind.TYPE].hops()
        neighbours = [hop for hop in wanting if isinstance(hop, int)]
        parents = [hop for hop in wanting if isinstance(hop, str)]
        calls = bool(tree.flows[InterestKind.FLOW] and tree.flows[InterestKind.ADVERTISED])
        self._tables.event_tree(tree.name, tree.up or 0, calls, neighbours, parents)

    def gone(self, name: str) -> None:
        self._tables.drop_event_tree(name)

    def wanted(self, name: str, hop: Hop, filter: Predicate, *, on: bool) -> None:
        """A hop wants what matches this filter from now on, or no longer."""
        if hop is None:
            return
        if not on:
            self._tables.drop_event_filter(self._numbers.pop((name, hop, filter)))
            return
        neighbour, parent = (hop, "") if isinstance(hop, int) else (0, hop)
        try:
            number = self._put(name, neighbour, parent, filter)
        except TidingsError:  # it is beyond the plane's limits: all events go there, where they are looked at again
            number = self._put(name, neighbour, parent, Predicate.always())
        self._numbers[name, hop, filter] = number

    def _put(self, name: str, neighbour: Router, parent: str, filter: Predicate) -> int:
        placed = encode_predicate(filter.within(Constraint(TREE_ATTRIBUTE, Op.EQ, name)))
        return self._tables.event_filter(name, neighbour, parent, placed, encode_predicate(filter))
