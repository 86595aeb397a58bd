"""Registers what clients announce to publish and passes it to routing schemes that need it (covering); others ignore
it.

An advertisement lives as long as its connection, or until it is withdrawn. It is taken under every scheme, so that the
same client runs anywhere; the answer says whether it is used.
"""

from collections.abc import Callable

from tidings.errors import LimitError, SecurityError, UsageError
from tidings.model.destination import DestinationPattern
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.session import Connection
from tidings.node.clients.subscription_plan import predicate_of
from tidings.node.requests import Advertise, Done, Unadvertise

ADVERTISEMENTS_MAX = 1000  # of one connection


class Advertisements:
    """`change(made, predicate)` tells the routing scheme; it says whether that uses advertisements."""

    def __init__(self, outbox: AnswerBatch, change: Callable[[bool, Predicate], bool]) -> None:
        self._outbox, self._change = outbox, change
        self._made: dict[int, dict[int, Predicate]] = {}  # by connection, by the client's number

    def carry_out(self, client: Connection, request: Advertise | Unadvertise) -> None:
        made = self._made.setdefault(client.number, {})
        if isinstance(request, Advertise):
            predicate = self._check(client, request, made)
            made[request.number] = predicate
            used = self._change(True, predicate)
        else:
            if request.number not in made:
                raise UsageError("E_ADVERTISEMENT_UNKNOWN", f"no advertisement {request.number} on this connection")
            used = self._change(False, made.pop(request.number))
        self._outbox.answer(client.number, Done(request.receipt, {"used": used}))

    def lost(self, connection: int) -> None:
        for predicate in self._made.pop(connection, {}).values():
            self._change(False, predicate)

    def _check(self, client: Connection, request: Advertise, made: dict[int, Predicate]) -> Predicate:
        if request.number in made:
            raise UsageError("E_ADVERTISEMENT_EXISTS", f"advertisement {request.number} exists on this connection")
        if len(made) >= ADVERTISEMENTS_MAX:
            raise LimitError("E_ADVERTISEMENTS", f"a connection has at most {ADVERTISEMENTS_MAX} advertisements")
        pattern = DestinationPattern.parse(request.destination)
        if pattern.queue:
            raise UsageError("E_ADVERTISE_QUEUE", "queues do not travel: advertise topics")
        if not client.principal.may("publish", str(pattern)):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not publish to {pattern}")
        return predicate_of(pattern, Selector(request.selector))
