"""A node among others: joins links, unicast, a routing scheme and the store-and-forward of persistent messages.

    inputs of the driver ──► links ──Arrived──► unicast, flood ──Deliver──► scheme ──► tables of the plane
                               ▲                     │ Install(routes) ─────┘  └─────► transit
                               └───────Send──────────┘

Every link is also a connection of the forwarding plane: control messages travel in CONTROL frames between the
FORWARD frames that the plane writes and reads. The driver opens the plane's connection, says so (`opened`)
before it says Connected or Accepted, and closes it after Lost or Close. Effects gather in `out`; the driver takes them.
"""

from collections.abc import Iterable, Mapping
from copy import copy as copy_of
from dataclasses import replace
from random import Random
from typing import assert_never

from tidings.delivery.store import Note, Recovered
from tidings.errors import CodecError, StoreError, TidingsError
from tidings.kernel.events import Relayed
from tidings.model.destination import Destination
from tidings.node.completions import Copy
from tidings.node.effects import LinkEffect as DriverEffect
from tidings.node.encoded_message import expires_ms_of
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.mailboxes.journal import Journal
from tidings.node.network.absences import Absences
from tidings.node.network.copy_numbers import CopyNumbers, new_epoch
from tidings.node.network.datagrams import Datagrams
from tidings.node.network.diversions import Diversions
from tidings.node.network.event_custody import EventCustody
from tidings.node.network.explain.vain_copies import VainCopies
from tidings.node.network.first_sync import FirstSync
from tidings.node.network.held_copies import HeldCopies
from tidings.node.network.link_channels import CONTROL_FRAME, LinkChannels, LinkClock, control_frame
from tidings.node.network.machines import FLOOD_TIMER, make_machines
from tidings.node.network.notes import (
    INCARNATION_NOTE,
    NetworkNotes,
    incarnation_note,
    noted_incarnation,
    noted_items,
)
from tidings.node.network.pan_links import PanLinks
from tidings.node.network.relay_inbox import RelayInbox, waiting_report
from tidings.node.network.scheme_forwarding import SchemeForwarding
from tidings.node.network.settings import Dials, NetworkSettings
from tidings.node.network.store_age import StoreAge
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.network.tables import CongestionTable, NetworkTables
from tidings.node.network_queues.homes import QueueHomes
from tidings.node.observed_plane import InterestChange
from tidings.node.plane import NetworkPlane
from tidings.overlay import effects as fx
from tidings.overlay.effects import ControlMessage, LinkEffect, Router
from tidings.overlay.pan.machine import TIMER as PAN_TIMER
from tidings.overlay.pan.messages import Changed, PanAnswered, PanArrived, Unanswered
from tidings.routing.control.codec import decode
from tidings.routing.control.flood import Whole
from tidings.routing.control.messages import (
    Congested,
    Datagram,
    FloodAck,
    FloodItem,
    FloodSummary,
    SchemeMessage,
    StoreMarks,
    Taken,
    Topic,
)
from tidings.routing.control.pan_codec import SCHEME as PAN
from tidings.routing.effects import AskKey, Deliver, Effect, HandOver, Install, Passed, Report, Safe, Send, SetTimer
from tidings.routing.scheme import TIMER as SCHEME_TIMER
from tidings.routing.scheme import EventCarrier
from tidings.routing.unicast.link_state import LinkStateUnicast
from tidings.routing.unicast.protocol import COST_MAX
from tidings.routing.unicast.protocol import TIMER as UNICAST_TIMER


class Network:
    def __init__(
        self,
        plane: NetworkPlane,
        settings: NetworkSettings,
        store_and_forward: StoreAndForward,
        event_custody: EventCustody,
        held_copies: HeldCopies,
        diversions: Diversions,
        backpressure: Backpressure,
        incarnation: int,
        rng: Random,
    ) -> None:
        self.settings, self.store_and_forward, self.event_custody = settings, store_and_forward, event_custody
        self.held_copies, self.diversions = held_copies, diversions
        self.leaving = False  # its interests are withdrawn
        self.out: list[DriverEffect] = []
        plane.join(settings.shape())
        self._plane, self._rng = plane, rng
        self.clock = LinkClock()
        self._channels, self._notes = LinkChannels(plane), NetworkNotes()
        self.congestion = CongestionTable(plane, settings, backpressure, self._channels)
        self._tables = NetworkTables(plane, settings, store_and_forward, self._notes, self._give_up)
        self.first_sync = FirstSync(plane, settings, store_and_forward)
        self.store_age = StoreAge()
        self.vain_copies = VainCopies(plane, lambda: self.scheme, settings.in_vain_max)
        self._arrange(incarnation)
        self.relay_inbox = RelayInbox(
            store_and_forward, lambda number, error: self.broken(self.clock.now, number, error), self._waits
        )
        self.datagrams = Datagrams(settings.router, settings.hops_max, self._channels, lambda: self.unicast)
        self.queue_homes = QueueHomes(settings.router)
        self.neighbour_changes: list[tuple[bool, Router]] = []  # (came?, who) since they were last taken
        self.started_at = 0.0
        self._panning = False  # what Pan has brought is being passed on already, further up the stack
        self.address = ""  # where links come in, as others see it; the driver knows it when it listens

    def _arrange(self, incarnation: int) -> None:
        """The machines of this life."""
        settings = self.settings
        machines = make_machines(settings, incarnation, self._rng, self._plane, self._channels, self._tables)
        self.links, self.unicast, self.flood, self.scheme, self.pan = machines
        self.incarnation = incarnation
        self.store_and_forward.numbering.begin(new_epoch(incarnation, copy_of(self._rng)))
        plane, store = self._plane, self.store_and_forward
        self.scheme_forwarding = SchemeForwarding(
            self.scheme, settings, self.clock, plane, self._channels, store, self.event_custody, self._routed
        )
        self._absences = Absences(max(2 * settings.hermes.refresh_ms, settings.hermes.settle_ms))
        self._questions: dict[int, int] = {}  # Pan's token of a request -> the scheme's

    # --- doors ----------------------------------------------------------------------------------------------------

    def recover(self, now: float, recovered: Recovered) -> None:
        """Restore what was in transit, and the interests it could be for, which must be known before they are heard of.
        An earlier run may have had a clock that was ahead: the incarnation of this one is later all the same."""
        if self.incarnation <= (before := noted_incarnation(recovered.notes)):
            self._arrange(before + 1)
        self.store_age.recover(recovered.notes)
        self.store_and_forward.recover(recovered)
        self.event_custody.recover(recovered)
        self.held_copies.recover(recovered, new=INCARNATION_NOTE not in recovered.notes)
        self.clock.at(now)
        if self.scheme_forwarding.events is not None:
            for chain in self._notes.recover_types(recovered.notes):
                self.scheme_forwarding.events.own(chain)
        remembered = list(noted_items(recovered.notes))
        self.first_sync.recover(recovered.notes, remembers=bool(remembered))
        for item in remembered:
            self._routed(self.scheme.learn(now, item))

    def incarnation_note(self) -> Note:
        """The next life is later than this one, and than whoever spoke in its name."""
        self.incarnation = max(self.incarnation, self.flood.incarnation, self.unicast.incarnation)
        return incarnation_note(self.incarnation)

    def start(self, now: float) -> None:
        self.clock.now = self.started_at = now
        self.first_sync.start()
        self._routed(self.unicast.start(now))
        self._routed(self.scheme.start(now))
        for address, expected in self.settings.dials:
            self._linked(self.links.dial(now, address, expected))
        if self.pan is not None:
            self._panned(self.pan.start(now, self.address))

    def stop(self, now: float, reason: str) -> None:
        if self.pan is not None:
            self.pan.stop(self.clock.at(now))
        self._linked(self.links.stop(self.clock.at(now), reason))

    def change_peers(self, now: float, dials: Dials, costs: Mapping[Router, int]) -> None:
        """Links to addresses that are no longer named end, unless their peers keep them; new ones are dialled."""
        self.clock.at(now)
        before, self.settings = self.settings, replace(self.settings, dials=dials, costs=costs)
        for address, expected in before.dials:
            if (address, expected) not in dials:
                self._linked(self.links.hang_up(self.clock.now, address))
        for address, expected in dials:
            if (address, expected) not in before.dials:
                self._linked(self.links.dial(self.clock.now, address, expected))
        for peer in self.links.peers():
            link = self.links.link(peer)
            if link is not None and before.costs.get(peer) != costs.get(peer):
                self._cost(peer, link.latency_ms or 0.0)

    def destinations(self, message: bytes) -> list[Router]:
        """The other brokers that a message is sent to when it enters here."""
        return self._plane.destinations(message)

    def leave(self, now: float, predicates: Iterable[bytes]) -> None:
        """Withdraw all interests, for good in this life: other brokers send nothing more, links stay."""
        self.clock.at(now)
        if not self.leaving:
            self.leaving = True
            for encoded in predicates:
                self._routed(self.scheme.unsubscribe(self.clock.now, encoded))

    def forget(self, now: float, router: Router, queue: Destination | None = None) -> None:
        """Nothing waits any longer for a router that cannot be reached: it goes to this queue, or is dropped."""
        self.clock.at(now)
        if router not in self.unicast.reachable():
            if queue is not None:
                self.diversions.divert(router, queue)
            self._routed(self.scheme.forget(self.clock.now, router))
            self._give_up(router)
            self.queue_homes.forget(router)

    def announce(self, topic: Topic, whole: Whole, difference: bytes | None = None) -> None:
        """Flood what this broker says under a topic: the whole of it, or a difference."""
        self._routed(self.flood.publish(self.clock.now, topic, whole, difference))

    def opened(self, connection: str, number: int, *, proven: bool) -> None:
        """The plane has this connection under that number. Until its peer is `proven` it hears nothing but refusals."""
        self._channels.opened(connection, number, proven=proven)

    def proven(self, connection: str) -> None:
        self._channels.proven(connection)

    def step(self, now: float, told: fx.Input) -> None:
        now = self.clock.at(now)
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
            case (
                fx.Timer()
                | fx.LinkAccepted()
                | fx.Connected()
                | fx.Received()
                | fx.Authenticated()
                | fx.Denied()
                | fx.Carried()
            ):
                self._linked(self.links.step(now, told))
            case _:
                assert_never(told)

    def control(self, now: float, number: int, type: int, payload: bytes) -> None:
        """A control frame that came by a link."""
        connection = self._channels.names.get(number)
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
        """Close a link whose peer sent something invalid."""
        connection = self._channels.names.get(number)
        if connection is not None:
            self.out.append(fx.CloseLink(connection, error.code))
            self.step(now, fx.Lost(connection, str(error), code=error.code))

    def relayed(self, now_ms: int, event: Relayed) -> None:
        """A persistent copy from a neighbour. It is acknowledged when it is stored; the journal's flush follows."""
        if event.connection in self._channels.names:
            by_router = dict(zip(event.routers, event.numbers, strict=True))
            numbers = CopyNumbers(event.origin, event.epoch, event.repeated, by_router)
            copy = Copy(event.hops, event.tag, numbers, event.expires_ms, event.message)
            self.relay_inbox.relayed(now_ms, event.connection, copy)

    def _waits(self, number: int, error: StoreError | None) -> None:
        """The store refuses what comes by a link, or takes it again: once, however often it is tried."""
        self.out.append(waiting_report(self._channels.peer_at(number), error))

    def settle(self, now_ms: int, interests: list[InterestChange]) -> None:
        """The end of a turn: pass on what changed here, acknowledge, send."""
        for added, encoded, mailbox in interests:
            self.held_copies.subscribed()
            if self.leaving:
                continue
            change = self.scheme.subscribe if added else self.scheme.unsubscribe
            self._routed(change(self.clock.now, encoded))
            if mailbox and self.scheme_forwarding.events is not None:
                self._routed(self.scheme_forwarding.events.lasting(self.clock.now, encoded, on=added))
        for number, tags in self.relay_inbox.take_acks().items():
            self._plane.send(number, control_frame(Taken(tuple(tags))))
        self.relay_inbox.settle(now_ms)
        self.out += self.first_sync.check(self.flood, self.unicast, self.scheme)
        self.store_and_forward.pump(now_ms)
        self.diversions.settle()
        self.congestion.settle(self.clock.now, self.links.peers())
        self.scheme_forwarding.settle(now_ms)

    def note_types(self, journal: Journal) -> None:
        """Write down which types were added here."""
        if (events := self.scheme_forwarding.events) is not None:
            self._notes.note_types(journal, events.owned())

    def note_interests(self, journal: Journal) -> None:
        """Write down which interests of other brokers changed: before a batch leaves, and about once a second."""
        self._notes.note_interests(journal, self.scheme.payloads)

    def tick(self, now_ms: int, journal: Journal) -> None:
        """About once a second: note what was learned, try what rested, give up what is late or has nowhere to go."""
        self.note_types(journal)
        self.first_sync.note(journal)
        if max(self.flood.incarnation, self.unicast.incarnation) > self.incarnation:
            journal.change(self.incarnation_note())
        self.store_and_forward.unpark()
        self.diversions.tick()
        self.store_and_forward.expire(now_ms)
        self.relay_inbox.tick()
        self.store_and_forward.forget_silent(now_ms, 2 * self.settings.bdrp.retain_ms)
        self.out += self.held_copies.tick(self.clock.now)
        if self.store_age.tick(self.clock.now, journal, self.held_copies.last_seq):
            for peer in self._channels.peers:
                self._channels.say(peer, self.store_age.marks(peer))
        self.note_interests(journal)
        self._routed(self.vain_copies.tick(self.clock.now))
        self.congestion.change()
        if self.clock.now - self.started_at > self.settings.bdrp.retain_ms:
            known = self.scheme.predicates.keys() | set(self.unicast.reachable())
            for router in [router for router in self.store_and_forward.waiting_for() if router not in known]:
                self._give_up(router)

    def _give_up(self, router: Router) -> None:
        """They were confirmed, so that somebody should hear of it."""
        if router in self.diversions:
            return
        if count := self.store_and_forward.abandon(router):
            told = f"broker {router} is given up: {count} persistent messages for it are dropped"
            self.out.append(Report("E_BROKER_GIVEN_UP", told))

    def take(self) -> list[DriverEffect]:
        out, self.out = self.out, []
        return out

    # --- effects of the machines ----------------------------------------------------------------------------------

    def _linked(self, effects: list[LinkEffect]) -> None:
        for effect in effects:
            match effect:
                case fx.LinkUp(peer=peer, latency_ms=latency_ms):
                    self._link_up(peer)
                    self._cost(peer, latency_ms)
                case fx.LinkDown(peer=peer, reason=reason, silent=silent):
                    self._link_down(peer, silent)
                    self.out.append(fx.Report("LINK_DOWN", f"router {peer}: {reason}"))
                case fx.NobodyThere(address=address):
                    if self.pan is not None:
                        self._panned(self.pan.nobody_at(self.clock.now, address))
                case fx.LatencyChanged(peer=peer, latency_ms=latency_ms):
                    self._cost(peer, latency_ms)
                case fx.Arrived(peer=peer, message=message):
                    self._arrived(peer, message)
                case fx.Transmit(connection=connection, message=message):
                    self._channels.transmit(connection, message)
                case fx.CloseLink(connection=connection):
                    self.out.append(effect)
                    self._forget_connection(connection)
                case fx.Dial() | fx.Authenticate() | fx.SetTimer() | fx.Report():
                    self.out.append(effect)
                case _:
                    assert_never(effect)

    def _link_up(self, peer: Router) -> None:
        link = self.links.link(peer)
        assert link is not None
        self._channels.link(peer, link.connection)
        self.store_and_forward.link_up(peer)
        self._channels.say(peer, self.store_age.marks(peer))
        self.neighbour_changes.append((True, peer))
        if self.flood is not getattr(self.unicast, "flood", None):
            self._routed(self.flood.link_up(self.clock.now, peer))
        if self.scheme_forwarding.linked is not None:
            self._routed(self.scheme_forwarding.linked.link_up(self.clock.now, peer))
        if self.pan is not None:
            self._panned(self.pan.link_up(self.clock.now, peer))
        self.out.append(fx.Report("LINK_UP", f"router {peer}"))

    def _link_down(self, peer: Router, silent: bool) -> None:
        self._channels.unlink(peer)
        self.congestion.link_down(peer)
        self.store_and_forward.link_down(peer)
        self.neighbour_changes.append((False, peer))
        self._routed(self.unicast.link_down(self.clock.now, peer))
        if self.flood is not getattr(self.unicast, "flood", None):
            self._routed(self.flood.link_down(self.clock.now, peer))
        if self.scheme_forwarding.linked is not None:
            self._routed(self.scheme_forwarding.linked.link_down(self.clock.now, peer))
        if self.pan is not None:
            self._panned(self.pan.link_down(self.clock.now, peer, silent))

    def _cost(self, peer: Router, latency_ms: float) -> None:
        cost = self.settings.costs.get(peer) or min(COST_MAX, max(1, round(latency_ms * 10)))
        self._routed(self.unicast.link_up(self.clock.now, peer, cost))

    def _arrived(self, peer: Router, message: ControlMessage) -> None:
        match message:
            case Taken(tags=tags):
                self.store_and_forward.taken(peer, tags)
            case Congested(routers=routers):
                self.congestion.heard(self.clock.now, peer, routers)
            case StoreMarks():
                if self.store_age.heard(peer, message):
                    self.out.append(self.held_copies.store_is_old(peer))
            case Datagram():
                self.datagrams.arrived(message)
            case SchemeMessage(scheme=scheme, payload=payload) if scheme == PAN and self.pan is not None:
                self._panned(self.pan.heard(self.clock.now, peer, payload))
            case SchemeMessage():
                self._routed(self.scheme.learn(self.clock.now, (peer, message)))
            case FloodItem() | FloodAck() | FloodSummary() if not isinstance(self.unicast, LinkStateUnicast):
                self._routed(self.flood.receive(self.clock.now, peer, message))
            case _:
                self._routed(self.unicast.receive(self.clock.now, peer, message))

    def _routed(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(neighbour=neighbour, message=message):
                    self._channels.say(neighbour, message)
                case Install(table=table):
                    self._plane.reverse_paths(table.takers)
                    self._absences.routed(self.clock.now, self.unicast.reachable())
                    self.diversions.reachable(self.unicast.reachable())
                    self.congestion.routed(table)
                    self._routed(self.scheme.routed(self.clock.now, table))
                case Deliver(topic=Topic.QUEUES):
                    self.queue_homes.learn(effect)
                case Deliver():
                    self._routed(self.scheme.learn(self.clock.now, effect))
                case HandOver():
                    self.scheme_forwarding.handed.append(effect)
                case AskKey(token=token, key=key, payload=payload):
                    assert self.pan is not None
                    number, said = self.pan.request(self.clock.now, key, payload)
                    self._questions[number] = token
                    self._panned(said)
                case Safe(tag=tag):
                    self._event_safe(tag)
                case Passed(id=id, to=to):
                    self.scheme_forwarding.passed.append((id, to))
                case SetTimer() | Report():
                    self.out.append(effect)
                case _:
                    assert_never(effect)

    def _event_safe(self, tag: bytes) -> None:
        """It is with all that the trees know of. Brokers that are away and have mailboxes for it get it as they get any
        other message."""
        event = self.event_custody.message(tag)
        routers = self._absences.away(self.clock.now, self._plane.destinations(event))
        if routers:
            self.store_and_forward.accept(event, routers, expires_ms_of(event))
        self.event_custody.safe(tag, kept=bool(routers))

    def _panned(self, effects: list[LinkEffect]) -> None:
        """Carry out effects of Pan, and pass on what it brought for the scheme: one after the other, for what this
        broker asks itself would otherwise nest as deep as there are levels of types."""
        assert self.pan is not None
        self._linked(effects)
        if self._panning:
            return
        self._panning = True
        try:
            self._pass_on_pan(self.pan, self.scheme_forwarding.events)
        finally:
            self._panning = False

    def _pass_on_pan(self, pan: PanLinks, events: EventCarrier | None) -> None:
        while pan.inbox and events is not None:
            effect = pan.inbox.pop(0)
            match effect:
                case Changed():
                    self._routed(events.reroute(self.clock.now))
                case PanArrived(token=0):
                    pass  # no request: nobody waits for an answer
                case PanArrived():
                    answer, said = events.asked(self.clock.now, effect.payload)
                    self._linked(pan.reply(self.clock.now, effect, answer))
                    self._routed(said)
                case PanAnswered(token=token, payload=payload):
                    self._routed(events.answered(self.clock.now, self._questions.pop(token), payload))
                case Unanswered(token=token):
                    self._routed(events.answered(self.clock.now, self._questions.pop(token), None))
                case _:
                    assert_never(effect)
        pan.inbox.clear()

    def _forget_connection(self, connection: str) -> None:
        if (number := self._channels.closed(connection)) is not None:
            self.relay_inbox.forget(number)
