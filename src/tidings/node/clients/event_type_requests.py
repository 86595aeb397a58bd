"""Carries out what clients ask about event types, and checks their events.

Figure 3 of the Hermes paper: add and remove types, advertise and unadvertise them, subscribe to them, publish their
events. Each request is checked against the rights of the connection's user, by the topics of the type it concerns
(tidings.model.event_type_topics). Answers may come later: the type book may have to ask other brokers.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import assert_never

from tidings.errors import SecurityError, TidingsError, UsageError
from tidings.kernel.codec import decode_message
from tidings.model.destination import NAME_BYTES_MAX
from tidings.model.event_type import AttributeType, EventType, EventTypeError, TypeTree
from tidings.model.event_type_json import types_to_json
from tidings.model.event_type_topics import path_of, pattern_of, topic_of
from tidings.model.message import reserved
from tidings.model.selector import Selector
from tidings.model.selector.kinds import check_kinds
from tidings.model.selector.printer import to_text
from tidings.model.selector.times import with_times
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.event_type_registry import EventTypeRegistry
from tidings.node.clients.session import Connection
from tidings.node.completions import AnswerRequest
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.plane import Plane
from tidings.node.requests import (
    AddType,
    AdvertiseType,
    Done,
    Failed,
    RemoveType,
    ShowTypes,
    Subscribe,
    TypeDeskRequest,
    UnadvertiseType,
)
from tidings.routing.hermes.type_forms import evolved
from tidings.routing.scheme import Then

Chain = tuple[EventType, ...]
KINDS = tuple(AttributeType)  # their numbers in the plane are their places
ADVERTISED_MAX = 1000  # types that one connection publishes
OPERATIONS = ("define", "advertise", "publish", "subscribe")


class EventTypeRequests:
    def __init__(self, book: EventTypeRegistry, outbox: AnswerBatch, backpressure: Backpressure, plane: Plane) -> None:
        self._book, self._outbox, self._backpressure, self._plane = book, outbox, backpressure, plane
        self._publishers: dict[str, set[Connection]] = {}  # of types: connections whose events the plane lets through

    def carry_out(self, client: Connection, request: TypeDeskRequest) -> None:
        match request:
            case AddType():
                self._add(client, request)
            case RemoveType(receipt, name):
                self._known(client, receipt, name, lambda chain: self._remove(client, receipt, chain))
            case ShowTypes(receipt, ""):
                tree = TypeTree(self._book.types())
                shown = [one for one in tree if self._may_see(client, (*_ancestors(tree, one.name), one))]
                self._done(client, receipt, tuple(shown))
            case ShowTypes(receipt, name):
                self._known(client, receipt, name, lambda chain: self._show(client, receipt, chain))
            case AdvertiseType(receipt, name):
                self._advertise(client, name, partial(self._answer_advertised, client, receipt, name))
            case UnadvertiseType(receipt, name):
                if (ended := client.advertised.pop(name, None)) is None:
                    raise UsageError("E_TYPE_UNADVERTISED", f"this connection does not advertise event type {name!r}")
                self._stop(client, name, ended)
                self._book.unadvertise(name)
                self._done(client, receipt)
            case _:
                assert_never(request)

    def subscribe(self, client: Connection, request: Subscribe, then: Callable[[Subscribe], None]) -> None:
        """A subscription to a type: `then` gets it as one to topics."""
        if request.destination:
            raise UsageError("E_SUBSCRIBE_TYPE", "a subscription has a destination or an event type, not both")

        def known(chain: Chain) -> None:
            selector = _selector(chain, request.selector)
            then(replace(request, destination=pattern_of(_path(chain)), type="", selector=selector))

        self._known(client, request.receipt, request.type, known)

    def check(self, client: Connection, message: bytes) -> None:
        """An error says what is wrong with an event that this client publishes."""
        decoded = decode_message(message)
        path = path_of(decoded.destination.name)
        tree = client.advertised.get(path[-1]) if path else None
        if tree is None or _path(_ancestors(tree, path[-1])) != path[:-1]:
            named = f"event type {path[-1]!r}" if path else f"topic {decoded.destination.name!r}"
            raise UsageError("E_TYPE_UNADVERTISED", f"{named} is not advertised on this connection: advertise it first")
        if evolved(self._book.chain(path[-1]), tuple(tree)):
            tree = client.advertised[path[-1]] = TypeTree(self._book.chain(path[-1]))
        else:
            reason = f"event type {path[-1]!r} was removed, and perhaps added in another form: advertise it again"
            raise EventTypeError("E_TYPE_REDEFINED", reason)
        problems = tree.check(path[-1], decoded.properties)
        if decoded.type != path[-1]:
            reason = f"JMSType of an event of type {path[-1]!r} must be the type's name, not {decoded.type!r}"
            problems.append(EventTypeError("E_EVENT_TYPE", reason))
        if problems:
            raise EventTypeError(problems[0].code, "; ".join(one.reason for one in problems))

    def imply(self, client: Connection, message: bytes, then: Then) -> bool:
        """Publishing to the topic of a type advertises it, for clients of protocols that know no types; `then` goes on.
        False: the connection advertises the type already."""
        path = path_of(decode_message(message).destination.name)
        name = path[-1] if path else ""
        if not name or name in client.advertised:
            return False
        if name in client.implied:
            client.implied[name].append(then)
            return True
        client.implied[name] = [then]

        def go_on(error: TidingsError | None) -> None:
            for one in client.implied.pop(name):
                one(error)

        self._advertise(client, name, go_on)
        return True

    def lost(self, client: Connection) -> None:
        for name in client.advertised:
            self._book.unadvertise(name)
            self._forget(client, name)
        client.advertised.clear()

    def settle(self) -> None:
        """The end of a turn: the plane learns of types that have more attributes now; events of a type that has any
        other form are looked at again one by one (`check`)."""
        for name in self._book.take_changed():
            chain = self._book.chain(name)
            for client in tuple(self._publishers.get(name, ())):
                if evolved(chain, tuple(tree := client.advertised[name])):
                    self._let_through(client, name, TypeTree(chain))
                else:
                    self._stop(client, name, tree)

    # --- one request each -----------------------------------------------------------------------------------------

    def _add(self, client: Connection, request: AddType) -> None:
        def with_parent(chain: Chain) -> None:
            self._need(client, "define", (*chain, request.event_type))
            _check_depth((*chain, request.event_type))
            self._book.add(request.event_type, AnswerRequest(client.number, Done(request.receipt)))

        if request.event_type.parent is None:
            with_parent(())
        else:
            self._known(client, request.receipt, request.event_type.parent, with_parent)

    def _remove(self, client: Connection, receipt: int, chain: Chain) -> None:
        self._need(client, "define", chain)
        self._book.remove(chain[-1].name, AnswerRequest(client.number, Done(receipt)))

    def _show(self, client: Connection, receipt: int, chain: Chain) -> None:
        if not self._may_see(client, chain):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may do nothing with {_named(chain)}")
        self._done(client, receipt, chain)

    def _advertise(self, client: Connection, name: str, then: Then) -> None:
        """Events that follow wait meanwhile: they must not overtake it."""
        waiting = ("advertising", client.number, name)
        self._backpressure.hold(client.number, waiting)

        def done(error: TidingsError | None) -> None:
            if not client.gone:
                then(error)
            self._backpressure.release(waiting)

        def found(error: TidingsError | None) -> None:
            if error is not None or client.gone:
                done(error)
                return
            try:
                if self._may_advertise(client, self._book.chain(name)):
                    self._book.advertise(name, advertised)
                    return
            except TidingsError as wrong:
                error = wrong
            done(error)

        def advertised(error: TidingsError | None) -> None:
            done(self._advertised(client, name) if error is None else error)

        self._book.get(name, found)

    def _may_advertise(self, client: Connection, chain: Chain) -> bool:
        """False: it does already, in this form."""
        self._need(client, "advertise", chain)
        name = chain[-1].name
        if name in client.advertised and tuple(client.advertised[name]) == chain:
            return False
        if len(client.advertised) >= ADVERTISED_MAX and name not in client.advertised:
            raise UsageError("E_TYPE_ADVERTISED", f"a connection advertises at most {ADVERTISED_MAX} event types")
        return True

    def _answer_advertised(self, client: Connection, receipt: int, name: str, error: TidingsError | None) -> None:
        if error is None:
            tree = client.advertised[name]
            self._done(client, receipt, (*_ancestors(tree, name), tree[name]))
        else:
            self._outbox.answer(client.number, Failed(receipt, error))

    def _advertised(self, client: Connection, name: str) -> TidingsError | None:
        """In the form that the type has now, which need not be the one it had when it was asked for."""
        chain, wrong = self._book.chain(name), None
        try:
            if not chain:
                raise EventTypeError("E_TYPE_UNKNOWN", f"there is no event type {name!r}")
            self._need(client, "advertise", chain)
        except TidingsError as error:
            wrong = error
        if client.gone or wrong is not None or name in client.advertised:  # each counts once
            self._book.unadvertise(name)
        if not client.gone and wrong is None:
            if (former := client.advertised.get(name)) is not None:
                self._stop(client, name, former)
            self._let_through(client, name, TypeTree(chain))
        return wrong

    def _let_through(self, client: Connection, name: str, tree: TypeTree) -> None:
        """The plane knows from now on what events of this type have."""
        client.advertised[name] = tree
        self._publishers.setdefault(name, set()).add(client)
        optional = tree.optional(name)
        declared = [(one, kind_number(kind), one in optional) for one, kind in tree.attributes(name).items()]
        self._plane.advertise_event(
            client.number, topic_of(_path((*_ancestors(tree, name), tree[name]))), name, declared
        )

    def _stop(self, client: Connection, name: str, tree: TypeTree) -> None:
        """The plane lets no events of a type through any more."""
        if self._forget(client, name):
            self._plane.withdraw_event(client.number, topic_of(_path((*_ancestors(tree, name), tree[name]))))

    def _forget(self, client: Connection, name: str) -> bool:
        clients = self._publishers.get(name, set())
        if client not in clients:
            return False
        clients.remove(client)
        if not clients:
            del self._publishers[name]
        return True

    # --- common to them -------------------------------------------------------------------------------------------

    def _known(
        self,
        client: Connection,
        receipt: int,
        name: str,
        then: Callable[[Chain], None],
    ) -> None:
        """Go on with the type and its ancestors, or say why not."""

        def found(error: TidingsError | None) -> None:
            if client.gone:
                return
            try:
                if error is not None:
                    raise error
                then(self._book.chain(name))
            except TidingsError as wrong:
                self._outbox.answer(client.number, Failed(receipt, wrong))

        self._book.get(name, found)

    def _done(self, client: Connection, receipt: int, types: Chain | None = None) -> None:
        fields = {} if types is None else {"types": types_to_json(types)}
        self._outbox.answer(client.number, Done(receipt, fields))

    def _need(self, client: Connection, operation: str, chain: Chain) -> None:
        if not client.principal.may(operation, topic_of(_path(chain))):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not {operation} {_named(chain)}")

    def _may_see(self, client: Connection, chain: Chain) -> bool:
        return any(client.principal.may(operation, topic_of(_path(chain))) for operation in OPERATIONS)


def kind_number(kind: AttributeType) -> int:
    """The plane's number of a type; to it times are whole numbers."""
    return KINDS.index(AttributeType.INT if kind is AttributeType.TIME else kind)


def _ancestors(tree: TypeTree, name: str) -> Chain:
    """The root first."""
    return tuple(tree[one] for one in reversed(tree.ancestors(name)))


def _path(chain: Chain) -> tuple[str, ...]:
    return tuple(one.name for one in chain)


def _named(chain: Chain) -> str:
    return f"event type {'.'.join(_path(chain))!r}"


def _check_depth(chain: Chain) -> None:
    """Events need a topic that names the type and all its ancestors."""
    if (size := len(topic_of(_path(chain)).encode())) > NAME_BYTES_MAX:
        named = f"event type {chain[-1].name!r} and its {len(chain) - 1} ancestors"
        reason = f"the topic of {named} would have {size} bytes, at most {NAME_BYTES_MAX} are possible"
        raise EventTypeError("E_TYPE_DEPTH", reason)


def _selector(chain: Chain, text: str) -> str:
    """A filter asks only for attributes that events of the type have, and compares each with values of its kind; text
    that is compared with a time becomes the number that it stands for."""
    declared = TypeTree(chain).attributes(chain[-1].name)
    selector = Selector(text)
    for name in sorted(selector.identifiers):
        if name not in declared and not reserved(name):
            raise EventTypeError("E_EVENT_UNKNOWN", f"event type {chain[-1].name!r} has no attribute {name!r}")
    times = {name for name, type in declared.items() if type is AttributeType.TIME}
    tree = with_times(selector.tree, times) if times else selector.tree
    check_kinds(tree, {name: type.kind for name, type in declared.items()})
    return text if tree == selector.tree else to_text(tree)
