"""A node among others: joins links, unicast, a routing scheme and the store-and-forward of persistent messages.

    inputs of the driver ──► links ──Arrived──► unicast, flood ──Deliver──► scheme ──► tables of the plane
                               ▲                     │ Install(routes) ─────┘  └─────► transit
                               └───────Send──────────┘

Every link is also a connection of the forwarding plane: control messages travel in CONTROL frames between the
FORWARD frames that the plane writes and reads by itself. The driver opens the plane's connection, says so (`opened`)
before it says Connected or Accepted, and closes it after Lost or Close.

Effects gather in `out`; the driver takes them after each call: Dial, Close, SetTimer, Authenticate, Report.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from random import Random
from typing import assert_never, cast

from tidings.delivery.store import Note, Recovered
from tidings.errors import CodecError, StoreError, TidingsError
from tidings.model.codec import decode_predicate, encode_frame
from tidings.model.event_type import EventType
from tidings.model.predicate import Predicate
from tidings.model.type_topics import is_event
from tidings.node.encoded import expires_ms_of
from tidings.node.event_post import EventPost
from tidings.node.intake import Copy, Intake, waiting_report
from tidings.node.journal import Journal
from tidings.node.network_settings import NetworkSettings
from tidings.node.pan_links import PanLinks
from tidings.node.plane import NetworkPlane
from tidings.node.transit import Transit
from tidings.overlay import effects as fx
from tidings.overlay.effects import ControlMessage, LinkEffect, Router
from tidings.overlay.links import Links
from tidings.overlay.pan.machine import TIMER as PAN_TIMER
from tidings.overlay.pan.messages import Answered, Arrived, Changed, Unanswered
from tidings.routing.codec import decode, encode
from tidings.routing.control import Control, FloodAck, FloodItem, FloodSummary, Letter, SchemeMessage, Taken, Topic
from tidings.routing.distance_vector import DistanceVector
from tidings.routing.effects import AskKey, Deliver, Effect, HandOver, Install, Passed, Report, Safe, Send, SetTimer
from tidings.routing.flood import Flood
from tidings.routing.hermes.codec import decode_types, encode_types
from tidings.routing.interests import Change, encode_change
from tidings.routing.link_state import LinkState
from tidings.routing.pan_codec import SCHEME as PAN
from tidings.routing.registry import Place
from tidings.routing.scheme import TIMER as SCHEME_TIMER
from tidings.routing.scheme import Carrier, EventCarrier
from tidings.routing.unicast import COST_MAX, Unicast
from tidings.routing.unicast import TIMER as UNICAST_TIMER

CONTROL_FRAME = 0x40
INTEREST_NOTE, TYPE_NOTE, INCARNATION_NOTE = "interest", "type", "incarnation"
FLOOD_TIMER = "flood"


class Network:
    def __init__(
        self,
        plane: NetworkPlane,
        settings: NetworkSettings,
        transit: Transit,
        event_post: EventPost,
        incarnation: int,
        rng: Random,
    ) -> None:
        self.settings, self.transit, self.event_post = settings, transit, event_post
        self.out: list[LinkEffect] = []
        plane.join(settings.shape())
        self._plane, self._rng = plane, rng
        self._arrange(incarnation)
        self._numbers: dict[str, int] = {}  # connection -> the plane's number for it
        self._names: dict[int, str] = {}
        self._peers: dict[Router, int] = {}  # linked: the plane's number of the link
        self._unnoted: set[Router] = set()  # whose interests changed since they were last written down
        self._intake = Intake(transit, lambda number, error: self.broken(self._now, number, error), self._waits)
        self.letters: list[tuple[Router, bytes]] = []  # that came for this broker: from whom, what
        self._handed: list[HandOver] = []  # messages that a carrier brought for subscribers here
        self.passed: list[tuple[bytes, Router | None]] = []  # ids of carried messages: came, or went to a neighbour
        self.neighbour_changes: list[tuple[bool, Router]] = []  # (came?, who) since they were last taken
        self._now = self._started = 0.0
        self.address = ""  # where links come in, as others see it; the driver knows it when it listens

    def _arrange(self, incarnation: int) -> None:
        """The machines of this life."""
        settings, rng = self.settings, self._rng
        self.incarnation = incarnation
        self.links = Links(settings.greeting(incarnation), settings.link, rng, authenticate=settings.authenticate)
        self.unicast, self.flood = self._make_unicast(incarnation)
        self.scheme = settings.kind.make(self._place())
        self.events = cast("EventCarrier", self.scheme) if settings.kind.typed else None
        self.carrier = self.events or (cast("Carrier", self.scheme) if settings.kind.carries else None)
        self._questions: dict[int, int] = {}  # Pan's token of a request -> the scheme's
        self._noted_types: dict[str, tuple[EventType, ...]] = {}  # by name, as written down
        self.pan: PanLinks | None = None
        if settings.pan is not None:
            self.pan = PanLinks(settings.router, settings.pan, self.links, rng, self._say)

    def _make_unicast(self, incarnation: int) -> tuple[Unicast, Flood]:
        settings = self.settings
        if settings.unicast == "link-state":
            link_state = LinkState(settings.router, incarnation, flood_options=settings.flood)
            return link_state, link_state.flood
        flood = Flood(settings.router, incarnation, settings.flood, FLOOD_TIMER)
        return DistanceVector(settings.router, incarnation), flood

    def _place(self) -> Place:
        settings = self.settings
        return Place(
            self.flood,
            self,
            settings.encoding,
            settings.bdrp,
            lambda: getattr(self.unicast, "links", {}),
            lambda neighbour: self._plane.link_waiting(neighbour) < settings.backlog_bytes_max,
            settings.policy,
            settings.advertise,
            settings.merge,
            settings.hermes,
            lambda key: None if self.pan is None else self.pan.next_hop(key),
            lambda: self.pan is not None and self.pan.pan.joined,
            lambda key: None if self.pan is None else self.pan.second(key),
        )

    def at(self, now: float) -> float:
        """The time of the links, in milliseconds: it never goes back, as the clock on the wall may, by which messages
        expire (`now_ms`). A driver tells it before each turn of the node."""
        self._now = max(self._now, now)
        return self._now

    # --- doors ----------------------------------------------------------------------------------------------------

    def recover(self, now: float, recovered: Recovered) -> None:
        """What was in transit, and whom it could be for: a broker that comes back must know before it hears of it.
        Its life before may have had a clock that was ahead: this one is later all the same."""
        before = int.from_bytes(recovered.notes.get(INCARNATION_NOTE, b""), "little")
        if self.incarnation <= before:
            self._arrange(before + 1)
        self.transit.recover(recovered)
        self.event_post.recover(recovered)
        self.at(now)
        for key, payload in recovered.notes.items():
            name, _, router = key.partition(":")
            if name == TYPE_NOTE and payload and self.events is not None:
                self._noted_types[router] = decode_types(payload)
                self.events.own(self._noted_types[router])
            if name == INTEREST_NOTE and payload:
                for known in (payload, None):  # known, and not heard of for now
                    self._routed(self.scheme.learn(now, Deliver(Topic.PREDICATES, int(router), True, known)))

    def incarnation_note(self) -> Note:
        """The next life is later than this one, and than whoever spoke in its name."""
        self.incarnation = max(self.incarnation, self.flood.incarnation, self.unicast.incarnation)
        return Note(INCARNATION_NOTE, self.incarnation.to_bytes(8, "little"))

    def start(self, now: float) -> None:
        self._now = self._started = now
        self._routed(self.unicast.start(now))
        self._routed(self.scheme.start(now))
        for address, expected in self.settings.dials:
            self._linked(self.links.dial(now, address, expected))
        if self.pan is not None:
            self._panned(self.pan.start(now, self.address))

    def stop(self, now: float, reason: str) -> None:
        if self.pan is not None:
            self.pan.stop(self.at(now))
        self._linked(self.links.stop(self.at(now), reason))

    def opened(self, connection: str, number: int) -> None:
        """The plane has this connection under that number."""
        self._numbers[connection], self._names[number] = number, connection

    def step(self, now: float, told: fx.Input) -> None:
        now = self.at(now)
        match told:
            case fx.Timer(name=name) if name == UNICAST_TIMER:
                self._routed(self.unicast.tick(now))
            case fx.Timer(name=name) if name == FLOOD_TIMER:
                self._routed(self.flood.tick(now))
            case fx.Timer(name=name) if name == SCHEME_TIMER:
                self._routed(self.scheme.tick(now))
            case fx.Timer(name=name) if name == PAN_TIMER and self.pan is not None:
                self._panned(self.pan.tick(now))
            case fx.Lost(connection=connection):
                self._linked(self.links.step(now, told))
                self._forget_connection(connection)
            case _:
                self._linked(self.links.step(now, told))

    def control(self, now: float, number: int, type: int, payload: bytes) -> None:
        """A control frame that came by a link."""
        connection = self._names.get(number)
        if connection is None:
            return
        try:
            if type != CONTROL_FRAME:
                raise CodecError("E_FRAME_TYPE", f"frame type {type:#04x} has no place on a link")
            message = decode(payload)
        except CodecError as error:
            self.broken(now, number, error)
        else:
            self.step(now, fx.Received(connection, message))

    def broken(self, now: float, number: int, error: TidingsError) -> None:
        """What came by this link makes no sense: give it up."""
        connection = self._names.get(number)
        if connection is not None:
            self.out.append(fx.Close(connection, error.code))
            self.step(now, fx.Lost(connection, str(error), code=error.code))

    def relayed(
        self, now_ms: int, number: int, hops: int, tag: int, routers: list[Router], expires_ms: int, message: bytes
    ) -> None:
        """A persistent copy from a neighbour. It is acknowledged when it is stored; the journal's flush follows."""
        if number in self._names:
            self._intake.relayed(now_ms, number, Copy(hops, tag, routers, expires_ms, message))

    def _waits(self, number: int, error: StoreError | None) -> None:
        """The store refuses what comes by a link, or takes it again: once, however often it is tried."""
        peer = next((router for router, at in self._peers.items() if at == number), 0)
        self.out.append(waiting_report(peer, error))

    def enter(self, now_ms: int, message: bytes, connection: int) -> None:
        """A message enters here that is not persistent."""
        if self.carrier is None or (self.events is not None and not is_event(message)):
            self._plane.enter(message, now_ms, connection)
        else:
            self._routed(self.carrier.publish(self._now, message))

    def advertise(self, made: bool, predicate: Predicate) -> bool:
        """A client here will publish such messages, or will no longer; whether the scheme uses that."""
        if self.carrier is None or self.events is not None:
            return False
        change = self.carrier.advertise if made else self.carrier.unadvertise
        self._routed(change(self._now, predicate))
        return True

    def congested(self, share: float) -> bool:
        """Whether a link that a Carrier fills has more waiting for it than this share of what may wait."""
        limit = self.settings.backlog_bytes_max * share
        return self.carrier is not None and any(self._plane.link_waiting(peer) >= limit for peer in self._peers)

    def settle(self, now_ms: int, interests: list[tuple[bool, bytes]]) -> None:
        """The end of a turn: pass on what changed here, acknowledge, send."""
        for added, predicate in interests:
            change = self.scheme.subscribe if added else self.scheme.unsubscribe
            self._routed(change(self._now, decode_predicate(predicate)))
        for number, tags in self._intake.take_acks().items():
            self._plane.send(number, control_frame(Taken(tuple(tags))))
        self._intake.settle(now_ms)
        self.transit.pump(now_ms)
        if self.events is not None:
            for message in self.event_post.take(now_ms):
                self._routed(self.events.post(self._now, message))
        handed, self._handed = self._handed, []
        for one in handed:  # by the clock on the wall, which only a turn knows
            self._hand_over(now_ms, one)

    def typed(self, ask: Callable[["EventCarrier", float], list[Effect]]) -> None:
        """Ask something of a scheme that knows types."""
        assert self.events is not None
        self._routed(ask(self.events, self._now))

    def note_types(self, journal: Journal) -> None:
        """Write down which types were added here."""
        owned = {chain[-1].name: chain for chain in self.events.owned()} if self.events is not None else {}
        for name, chain in owned.items():
            if self._noted_types.get(name) != chain:  # perhaps another form of it, if it was removed elsewhere
                journal.change(Note(f"{TYPE_NOTE}:{name}", encode_types(chain)))
        for name in self._noted_types.keys() - owned.keys():
            journal.change(Note(f"{TYPE_NOTE}:{name}", b""))
        self._noted_types = owned

    def tick(self, journal: Journal) -> None:
        """About once a second: note what was learned, try what rested, give up what is for routers long gone."""
        self.note_types(journal)
        if max(self.flood.incarnation, self.unicast.incarnation) > self.incarnation:
            journal.change(self.incarnation_note())
        self.transit.unpark()
        self._intake.tick()
        changed, self._unnoted = self._unnoted, set()
        for router in changed:
            rows = self.scheme.predicates.get(router)
            payload = b"" if rows is None else encode_change(Change(tuple(rows)), self.settings.encoding.row_bytes)
            journal.change(Note(f"{INTEREST_NOTE}:{router}", payload))
        if self._now - self._started > self.settings.bdrp.retain_ms:
            known = self.scheme.predicates.keys() | set(self.unicast.reachable())
            for router in [router for router in self.transit.waiting_for() if router not in known]:
                self._give_up(router)

    def _give_up(self, router: Router) -> None:
        """They were confirmed, so that somebody should hear of it."""
        if count := self.transit.abandon(router):
            told = f"broker {router} is given up: {count} persistent messages for it are dropped"
            self.out.append(Report("E_BROKER_GIVEN_UP", told))

    def take(self) -> list[LinkEffect]:
        out, self.out = self.out, []
        return out

    # --- letters: to one broker, by the routes there are -------------------------------------------------------------

    def topology(self) -> Mapping[Router, Collection[Router]]:
        """Who can be reached, with their links where these are known."""
        known = self.unicast.links if isinstance(self.unicast, LinkState) else {}
        return {router: tuple(known.get(router, ())) for router in (self.settings.router, *self.unicast.reachable())}

    def post(self, router: Router, payload: bytes) -> bool:
        return self._pass_on(Letter(router, self.settings.router, self.settings.hops_max, payload))

    def _pass_on(self, letter: Letter) -> bool:
        number = self._peers.get(self.unicast.next_hop(letter.target) or 0)
        if number is None:
            return False
        self._plane.send(number, control_frame(letter))
        return True

    def _letter(self, letter: Letter) -> None:
        if letter.target == self.settings.router:
            self.letters.append((letter.source, letter.payload))
        elif letter.hops_left > 0:
            self._pass_on(replace(letter, hops_left=letter.hops_left - 1))

    # --- tables: what the scheme installs goes to the plane ---------------------------------------------------------

    def interest(self, router: Router, added: Collection[bytes], removed: Collection[bytes]) -> None:
        if not self.settings.encoding.keyless:  # otherwise nothing that enters here could be compared with them
            self._plane.interest(router, added, removed)
        if not self.settings.kind.by_neighbour:
            self._unnoted.add(router)

    def forget(self, router: Router) -> None:
        if not self.settings.encoding.keyless:
            self._plane.forget(router)
        if not self.settings.kind.by_neighbour:
            self._unnoted.add(router)
            self._give_up(router)

    def routes(self, next_hops: Mapping[Router, Router]) -> None:
        self._plane.routes(next_hops)
        self.transit.routed(next_hops)

    # --- effects of the machines ----------------------------------------------------------------------------------

    def _linked(self, effects: list[LinkEffect]) -> None:
        for effect in effects:
            match effect:
                case fx.LinkUp(peer=peer, latency_ms=latency_ms):
                    self._link_up(peer)
                    self._cost(peer, latency_ms)
                case fx.LinkDown(peer=peer, silent=silent):
                    self._link_down(peer, silent)
                case fx.NobodyThere(address=address):
                    if self.pan is not None:
                        self._panned(self.pan.nobody_at(self._now, address))
                case fx.LatencyChanged(peer=peer, latency_ms=latency_ms):
                    self._cost(peer, latency_ms)
                case fx.Arrived(peer=peer, message=message):
                    self._arrived(peer, message)
                case fx.Transmit(connection=connection, message=message):
                    self._transmit(connection, message)
                case fx.Close(connection=connection):
                    self.out.append(effect)
                    self._forget_connection(connection)
                case fx.PushBack() | fx.Release():
                    pass  # the plane keeps the books of what it sends
                case fx.Dial() | fx.Authenticate() | fx.SetTimer() | fx.Report():
                    self.out.append(effect)
                case _:
                    assert_never(effect)

    def _link_up(self, peer: Router) -> None:
        link = self.links.link(peer)
        assert link is not None
        number = self._numbers[link.connection]
        self._plane.link(number, peer)
        self._peers[peer] = number
        self.transit.link_up(peer)
        self.neighbour_changes.append((True, peer))
        if self.flood is not getattr(self.unicast, "flood", None):
            self._routed(self.flood.link_up(self._now, peer))
        if self.carrier is not None:
            self._routed(self.carrier.link_up(self._now, peer))
        if self.pan is not None:
            self._panned(self.pan.link_up(self._now, peer))
        self.out.append(fx.Report("LINK_UP", f"router {peer}"))

    def _link_down(self, peer: Router, silent: bool) -> None:
        del self._peers[peer]
        self._plane.unlink(peer)
        self.transit.link_down(peer)
        self.neighbour_changes.append((False, peer))
        self._routed(self.unicast.link_down(self._now, peer))
        if self.flood is not getattr(self.unicast, "flood", None):
            self._routed(self.flood.link_down(self._now, peer))
        if self.carrier is not None:
            self._routed(self.carrier.link_down(self._now, peer))
        if self.pan is not None:
            self._panned(self.pan.link_down(self._now, peer, silent))
        self.out.append(fx.Report("LINK_DOWN", f"router {peer}"))

    def _cost(self, peer: Router, latency_ms: float) -> None:
        cost = self.settings.costs.get(peer) or min(COST_MAX, max(1, round(latency_ms * 10)))
        self._routed(self.unicast.link_up(self._now, peer, cost))

    def _arrived(self, peer: Router, message: ControlMessage) -> None:
        match message:
            case Taken(tags=tags):
                self.transit.taken(peer, tags)
            case Letter():
                self._letter(message)
            case SchemeMessage(scheme=scheme, payload=payload) if scheme == PAN and self.pan is not None:
                self._panned(self.pan.heard(self._now, peer, payload))
            case SchemeMessage():
                self._routed(self.scheme.learn(self._now, (peer, message)))
            case FloodItem() | FloodAck() | FloodSummary() if not isinstance(self.unicast, LinkState):
                self._routed(self.flood.receive(self._now, peer, message))
            case _:
                self._routed(self.unicast.receive(self._now, peer, message))

    def _routed(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(neighbour=neighbour, message=message):
                    self._say(neighbour, message)
                case Install(table=table):
                    self._routed(self.scheme.routed(self._now, table))
                case Deliver():
                    self._routed(self.scheme.learn(self._now, effect))
                case HandOver():
                    self._handed.append(effect)
                case AskKey(token=token, key=key, payload=payload):
                    assert self.pan is not None
                    number, said = self.pan.request(self._now, key, payload)
                    self._questions[number] = token
                    self._panned(said)
                case Safe(tag=tag):
                    self.event_post.safe(tag)
                case Passed(id=id, to=to):
                    self.passed.append((id, to))
                case SetTimer() | Report():
                    self.out.append(effect)
                case _:
                    assert_never(effect)

    def _hand_over(self, now_ms: int, one: HandOver) -> None:
        """To subscribers here. If a persistent event cannot be stored, the broker it came from keeps it."""

        def done() -> None:
            self.typed(lambda events, now: events.handed(now, one.type, one.tag))

        def failed(error: TidingsError) -> None:
            self.typed(lambda events, now: events.refused(now, one.type, one.tag))
            self.out.append(Report(error.code, f"an event of type {one.type!r} could not be stored: {error.reason}"))

        if one.tag:
            here, until_ms = [self.settings.router], expires_ms_of(one.message)
            self.transit.relayed(now_ms, 0, here, until_ms, one.message, done, failed)
        else:
            self.transit.deliver(now_ms, one.message)

    def _panned(self, effects: list[LinkEffect]) -> None:
        """What Pan wants done, and what it brought for the scheme."""
        assert self.pan is not None
        self._linked(effects)
        while self.pan.inbox and self.events is not None:
            match self.pan.inbox.pop(0):
                case Changed():
                    self._routed(self.events.reroute(self._now))
                case Arrived() as asked if asked.token:
                    answer, said = self.events.asked(self._now, asked.payload)
                    self._linked(self.pan.reply(self._now, asked, answer))
                    self._routed(said)
                case Answered(token=token, payload=payload):
                    self._routed(self.events.answered(self._now, self._questions.pop(token), payload))
                case Unanswered(token=token):
                    self._routed(self.events.answered(self._now, self._questions.pop(token), None))
        self.pan.inbox.clear()

    def _say(self, neighbour: Router, message: ControlMessage) -> None:
        number = self._peers.get(neighbour)
        if number is not None:
            self._plane.send(number, control_frame(message))

    def _transmit(self, connection: str, message: ControlMessage) -> None:
        number = self._numbers.get(connection)
        if number is not None:
            self._plane.send(number, control_frame(message))

    def _forget_connection(self, connection: str) -> None:
        number = self._numbers.pop(connection, None)
        if number is not None:
            del self._names[number]
            self._intake.forget(number)


def control_frame(message: ControlMessage) -> bytes:
    return encode_frame(CONTROL_FRAME, encode(cast("Control", message)))
