"""The Hermes machine as the routing scheme of a node (tidings.routing.scheme.EventCarrier).

The machine thinks in types, subscriptions and requests to rendezvous nodes; a node in links, predicates and messages.
This stands between:

- A subscription to the topics of a type (tidings.model.event_type_topics) is one to the type; with a selector, one by
  type and attributes. All others are B-DRP's, as are messages to other topics: its tables are kept beside.
- Events that are not persistent are the forwarding plane's: it has the machine's tables (`event_tables`). Persistent
  ones may come by several trees, for several subscriptions here; the first that comes is for all of them, and those
  after it are known again where they are stored.
- What cannot be done because nobody answers (a subscription recovered from the store while the network is still out of
  reach) is tried again with every tick.
- While persistent events of a type wait here for others, this broker advertises the type, whoever published them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import assert_never, cast

from tidings.errors import CodecError, TidingsError
from tidings.kernel.codec import decode_message
from tidings.model.codec import ID, decode_predicate
from tidings.model.event_type import EventType, TypeTree
from tidings.model.event_type_topics import path_of, typed_interest
from tidings.model.predicate import Predicate
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.routing.bdrp.scheme import Bdrp
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.control.single_timer import without_timer
from tidings.routing.effects import (
    AskKey,
    Deliver,
    Effect,
    HandOver,
    Passed,
    Report,
    Router,
    Safe,
    Send,
    SetTimer,
    UnicastTable,
)
from tidings.routing.hermes import messages as hermes
from tidings.routing.hermes.codec import SCHEME, decode, decode_answer, decode_request, encode
from tidings.routing.hermes.event_tables import PlaneTrees
from tidings.routing.hermes.machine import Hermes
from tidings.routing.hermes.messages import (
    HermesEffect,
    HermesMessage,
    HermesPublication,
    HermesSubscriptionId,
    TypeAnswer,
)
from tidings.routing.message_views import batch_of, heard
from tidings.routing.scheme import TIMER, EventTables, Then

TICK_MS = 100.0
UNASKED_MS = 30_000  # how long requests wait for this broker to be in the network


class HermesScheme:
    def __init__(
        self,
        bdrp: Bdrp,
        machine: Hermes,
        ready: Callable[[], bool],
        tables: EventTables | None = None,
    ) -> None:
        self.machine = machine
        self._bdrp, self._ready = bdrp, ready
        if tables is not None:
            machine.trees.listener = PlaneTrees(tables)
        self._ids: dict[bytes, list[HermesSubscriptionId]] = {}
        self._unmade: dict[HermesSubscriptionId, tuple[str, Predicate | None]] = {}  # not confirmed by the machine
        self._retry: set[HermesSubscriptionId] = set()  # of these: refused, for now
        self._numbers = 0  # of subscriptions, and tokens
        self._then: dict[int, Callable[[float, TidingsError | None], None]] = {}
        self._unasked: list[tuple[float, AskKey]] = []
        self._posted: dict[bytes, bytes] = {}  # persistent events on their way, by tag
        self._unposted: set[bytes] = set()  # of these: not given to the machine yet
        self._counts: Counter[str] = Counter()
        self._out: list[Effect] = []
        self._machine_at = 0.0
        self._entered = False  # the machine knows that this broker is in the network

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
        advertised, subscribed = self.machine.table_sizes()
        return {
            **self._counts,
            **self._bdrp.counts(),
            "advertised": advertised,
            "subscribed": subscribed,
            "types": len(self.types()),
            "unsettled": len(self._posted),
        }

    @property
    def waiting(self) -> int:
        """Number of subscriptions not made yet plus requests not answered yet."""
        return len(self._unmade) + self.machine.waiting

    def start(self, now: float) -> list[Effect]:
        self._machine_at = now
        out = without_timer(TIMER, self._bdrp.start(now)) + self._do(now, self.machine.start(now))
        return [*out, SetTimer(TIMER, now + TICK_MS)]

    def subscribe(self, now: float, predicate: bytes) -> list[Effect]:
        typed = typed_interest(decode_predicate(predicate))
        if typed is None:
            return without_timer(TIMER, self._bdrp.subscribe(now, predicate))
        id = HermesSubscriptionId(self.machine.router, self._number())
        self._ids.setdefault(predicate, []).append(id)
        self._unmade[id] = typed
        return self._subscribe(now, id)

    def unsubscribe(self, now: float, predicate: bytes) -> list[Effect]:
        ids = self._ids.get(predicate)
        if ids is None:
            return without_timer(TIMER, self._bdrp.unsubscribe(now, predicate))
        id = ids.pop()
        if not ids:
            del self._ids[predicate]
        if self._unmade.pop(id, None) is None:
            return self._do(now, self.machine.unsubscribe(now, id))
        self._retry.discard(id)  # what is under way is undone when it is answered
        return []

    def lasting(self, now: float, predicate: bytes, *, on: bool) -> list[Effect]:
        """Interests of the trees end with their broker. Those of its mailboxes are also told by B-DRP, which remembers
        them: persistent events wait for the broker as other messages do."""
        if typed_interest(decode_predicate(predicate)) is None:
            return []  # known to B-DRP in any case
        change = self._bdrp.subscribe if on else self._bdrp.unsubscribe
        return without_timer(TIMER, change(now, predicate))

    def narrow(self, now: float, predicates: Iterable[bytes]) -> list[Effect]:
        return without_timer(TIMER, self._bdrp.narrow(now, predicates))

    def learn(self, now: float, item: Deliver | tuple[Router, SchemeMessage]) -> list[Effect]:
        if isinstance(item, Deliver):
            return without_timer(TIMER, self._bdrp.learn(now, item))
        neighbour, said = item
        message, out = heard(neighbour, said, SCHEME, decode, _carried)
        if message is None:
            return out
        if isinstance(message, HermesPublication) and not message.tag:
            return [*out, Report("E_SCHEME_MESSAGE", f"router {neighbour}: an event without a tag is not persistent")]
        self._counts["publications" if isinstance(message, HermesPublication) else "controls"] += 1
        return out + self._do(now, self.machine.hear(now, neighbour, message))

    def forget(self, now: float, router: Router) -> list[Effect]:
        return self._bdrp.forget(now, router)

    def routed(self, now: float, table: UnicastTable) -> list[Effect]:
        return self._bdrp.routed(now, table)

    def tick(self, now: float) -> list[Effect]:
        """This scheme's clock ticks all the time, and takes B-DRP's along."""
        out = without_timer(TIMER, self._bdrp.tick(now)) + self._ask_late(now)
        if self._machine_at <= now:
            self._machine_at = now + self.machine.options.refresh_ms / 4
            out += self._do(now, self.machine.tick(now))
            for id in list(self._retry):
                out += self._subscribe(now, id)
            for tag in list(self._unposted):
                out += self._post(now, tag)
        return [*out, SetTimer(TIMER, now + TICK_MS)]

    # --- links, and the overlay -----------------------------------------------------------------------------------

    def link_up(self, now: float, neighbour: Router) -> list[Effect]:
        return self._do(now, self.machine.link_up(now, neighbour))

    def link_down(self, now: float, neighbour: Router) -> list[Effect]:
        return self._do(now, self.machine.link_down(now, neighbour))

    def reroute(self, now: float) -> list[Effect]:
        return self._do(now, self.machine.reroute(now)) + self._ask_late(now)

    def asked(self, now: float, payload: bytes) -> tuple[bytes, list[Effect]]:
        try:
            request = decode_request(payload)
        except CodecError as error:
            return encode(TypeAnswer((), "E_TYPE_REQUEST", str(error))), []
        answer, effects = self.machine.asked(now, request)
        return encode(answer), self._do(now, effects)

    def answered(self, now: float, token: int, payload: bytes | None) -> list[Effect]:
        try:
            answer = None if payload is None else decode_answer(payload)
        except CodecError as error:
            return [
                Report("E_SCHEME_MESSAGE", f"invalid answer of a rendezvous node: {error}"),
                *self.answered(now, token, None),
            ]
        return self._do(now, self.machine.answered(now, token, answer))

    def _ask_late(self, now: float) -> list[Effect]:
        """Ask what could not be asked while this broker was not in the network yet."""
        out: list[Effect] = []
        if self._ready() and not self._entered:
            self._entered = True
            out += self._do(now, self.machine.entered(now))
        waiting, self._unasked = self._unasked, []
        for until, ask in waiting:
            if self._ready():
                out.append(ask)
            elif until <= now:
                out += self.answered(now, ask.token, None)
            else:
                self._unasked.append((until, ask))
        return out

    # --- types ----------------------------------------------------------------------------------------------------

    def types(self) -> list[EventType]:
        return self.machine.registry.types()

    def chain(self, name: str) -> tuple[EventType, ...]:
        return self.machine.registry.chain(name)

    def take_changed(self) -> set[str]:
        return self.machine.registry.take_changed()

    def owned(self) -> list[tuple[EventType, ...]]:
        return self.machine.registry.owned()

    def own(self, chain: tuple[EventType, ...]) -> None:
        self.machine.registry.own(chain)

    def add_type(self, now: float, event_type: EventType, then: Then) -> list[Effect]:
        return self._do(now, self.machine.add_type(now, self._token(then), event_type))

    def remove_type(self, now: float, name: str, then: Then) -> list[Effect]:
        return self._do(now, self.machine.remove_type(now, self._token(then), name))

    def get_type(self, now: float, name: str, then: Then) -> list[Effect]:
        return self._do(now, self.machine.get_type(now, self._token(then), name))

    def advertise_type(self, now: float, name: str, then: Then) -> list[Effect]:
        return self._do(now, self.machine.advertise(now, self._token(then), name))

    def unadvertise_type(self, now: float, name: str) -> list[Effect]:
        return self._do(now, self.machine.unadvertise(now, name))

    # --- events ---------------------------------------------------------------------------------------------------

    def post(self, now: float, message: bytes) -> list[Effect]:
        self._posted[message[ID]] = message
        return self._post(now, message[ID])

    def handed(self, now: float, type: str, tag: bytes) -> list[Effect]:
        return self._do(now, self.machine.handed(now, type, tag))

    def refused(self, now: float, type: str, tag: bytes) -> list[Effect]:
        return self._do(now, self.machine.refused(type, tag))

    def _post(self, now: float, tag: bytes) -> list[Effect]:
        self._unposted.discard(tag)
        message = self._posted[tag]
        name = _type_of(message)

        def advertised(now: float, error: TidingsError | None) -> None:
            if error is None and not _fits(self.chain(name), message):  # the type it was of was removed
                self._out += self._safe(now, tag)
            elif error is None:
                self._out += self._do(now, self.machine.publish(now, name, message, tag))
            elif error.code == "E_TYPE_UNKNOWN":  # it was removed, so nobody can have subscribed to it
                del self._posted[tag]
                self._out.append(Safe(tag))
            else:
                self._unposted.add(tag)

        return self._do(now, self.machine.advertise(now, self._token_at(advertised), name))

    def _safe(self, now: float, tag: bytes) -> list[Effect]:
        message = self._posted.pop(tag, None)
        if message is None:
            return []
        return [Safe(tag), *self._do(now, self.machine.unadvertise(now, _type_of(message)))]

    # --- the machine ----------------------------------------------------------------------------------------------

    def _subscribe(self, now: float, id: HermesSubscriptionId) -> list[Effect]:
        self._retry.discard(id)
        name, filter = self._unmade[id]

        def made(now: float, error: TidingsError | None) -> None:
            if id not in self._unmade:
                if error is None:
                    self._out += self._do(now, self.machine.unsubscribe(now, id))
            elif error is None:
                del self._unmade[id]
            else:
                self._retry.add(id)

        return self._do(now, self.machine.subscribe(now, self._token_at(made), id, name, filter))

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _token(self, then: Then) -> int:
        return self._token_at(lambda now, error: then(error))

    def _token_at(self, then: Callable[[float, TidingsError | None], None]) -> int:
        token = self._number()
        self._then[token] = then
        return token

    def _do(self, now: float, effects: Iterable[HermesEffect]) -> list[Effect]:
        out: list[Effect] = []
        for effect in effects:
            match effect:
                case hermes.Send(neighbour=neighbour, message=message):
                    out += self._send(neighbour, cast("HermesMessage", message))
                case hermes.HermesHandOver(message=message, tag=tag, type=name):
                    out.append(HandOver(message, tag, name))
                case hermes.Request(token=token, key=key, request=request):
                    ask = AskKey(token, key, encode(request))
                    if self._ready():
                        out.append(ask)
                    else:
                        self._unasked.append((now + UNASKED_MS, ask))
                case hermes.RequestDone(token=token, error=error):
                    self._then.pop(token)(now, error)
                    out += self._take()
                case hermes.HermesSafe(tag=tag):
                    out += self._safe(now, tag)
                case SetTimer():
                    pass  # it ticks with this scheme's clock
                case _:
                    assert_never(effect)
        return out

    def _take(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def _send(self, neighbour: Router, message: HermesMessage) -> list[Effect]:
        if isinstance(message, HermesPublication):
            self._counts["copies"] += 1
        went: list[Effect] = [Passed(message.message[ID], neighbour)] if isinstance(message, HermesPublication) else []
        return [Send(neighbour, SchemeMessage(SCHEME, encode(message))), *went]


def _carried(message: object) -> bytes | None:
    return message.message if isinstance(message, HermesPublication) else None


def _type_of(message: bytes) -> str:
    return path_of(str(batch_of(message).attributes(0)["@topic"]))[-1]


def _fits(chain: tuple[EventType, ...], message: bytes) -> bool:
    """Reports whether the message is an event of this type in this form."""
    decoded = decode_message(message)
    path = tuple(one.name for one in chain)
    return path_of(decoded.destination.name) == path and not TypeTree(chain).check(path[-1], decoded.properties)
