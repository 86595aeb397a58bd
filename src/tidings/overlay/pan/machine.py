"""A node of Pan, the overlay that arranges itself: Pastry's join, routing and repair as one machine.

    hear(now, sender, message)     what another node says
    failed(now, contact, message)  somebody cannot be reached; what was meant for it finds another way
    tick(now)                      when the timer "pan" rings

Join. A newcomer asks the nearest node it can find from its one bootstrap contact to route `Enter` to its own id. Nodes
on the way tell it rows of their tables, the last one its leaf set. The newcomer measures which are near, fills its
tables, says Hello to everybody in them and tells them of each other: O(log N) messages.

Repair. Leaves exchange heartbeats that carry their leaf sets, so a hole closes with the first that comes. Table entries
are probed now and then. A node looks itself up through a random acquaintance from time to time, which joins parts of
the ring that have lost sight of each other. A lost node is not believed to be back on others' word for a while.

`route` gives a message to the live node numerically closest to a key, ring distance, the smaller id of two as near. As
in Castro et al. (Exploiting network proximity in peer-to-peer overlay networks, 2002), less Pastry's neighbourhood set.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import assert_never

from tidings.overlay.effects import SetTimer
from tidings.overlay.pan.ids import NETWORK_IDS, Contact, IdSpace
from tidings.overlay.pan.messages import (
    Beat,
    Changed,
    Depart,
    Enter,
    Joined,
    Missed,
    Others,
    PanAnswered,
    PanArrived,
    PanAsk,
    PanEffect,
    PanHello,
    PanMessage,
    PanReply,
    PanTell,
    Probe,
    ProbeEcho,
    Routed,
    Spare,
    Unanswered,
)
from tidings.overlay.pan.tables import LeafSet, RoutingTable

TIMER = "pan"
HOPS_MAX = 64  # routes do not circle; while tables change they may for a moment
LEAVES, ALL = -1, -2  # whom an Ask is about
SEEK_CONTACTS = 24


@dataclass(frozen=True, slots=True)
class PanOptions:
    leaves: int = 8
    beat_ms: float = 1000
    fail_ms: float = 3500  # not heard of for so long: gone
    tend_ms: float = 5000  # one row of the table is looked after, and the own id looked up
    forget_ms: float = 20_000  # so long nobody else is believed that a node is back
    request_ms: float = 1500  # until a request is repeated
    request_tries: int = 3
    seek_rounds: int = 4  # how often a newcomer looks for a nearer node to enter by


class Pan:
    def __init__(
        self, me: Contact, rng: Random, space: IdSpace = NETWORK_IDS, options: PanOptions | None = None
    ) -> None:
        self.me, self.space, self.options = me, space, options or PanOptions()
        self.leaves = LeafSet(space, me.id, self.options.leaves)
        self.table = RoutingTable(space, me.id)
        self.joined = False
        self._introduced = False
        self._rng = rng
        self._out: list[PanEffect] = []
        self._members: dict[int, Contact] = {}  # the union of leaves and table
        self._versions = (0, 0)  # of which leaves and table
        self._known: dict[int, Contact] = self._members  # as last told by Changed
        self._heard: dict[int, float] = {}  # when each of them last said something
        self._gone: dict[int, float] = {}  # until when it counts as gone
        self._probes: dict[int, tuple[Contact, float]] = {}  # by token: whom, and when it was sent
        self._probed: set[int] = set()
        self._requests: dict[int, tuple[int, bytes, float, int]] = {}  # key, payload, when to repeat, tries left
        self._tokens = 0
        self._seek: _Seek | None = None
        self._waiting: dict[int, Contact] = {}  # while joining: heard of on the way
        self._beat_at = self._tend_at = 0.0

    # --- doors ----------------------------------------------------------------------------------------------------

    def found(self, now: float) -> list[PanEffect]:
        """The first node of a network."""
        self._enter_done()
        return self._done(now)

    def join(self, now: float, bootstrap: Contact, *, seek: bool = True) -> list[PanEffect]:
        """Join the network that this contact belongs to; `seek`: by a nearer node, if there is one. May be repeated."""
        if seek and self.options.seek_rounds:
            self._probes.clear()  # an earlier try's, sent over links that may be lost: this one does not wait for them
            self._probed.clear()
            self._seek = _Seek(bootstrap, self.options.seek_rounds)
            self._tell(bootstrap, PanAsk(ALL))
            self._probe(now, bootstrap)
        else:
            self._tell(bootstrap, Enter(self.me))
        return self._done()

    def start_timer(self, now: float) -> list[PanEffect]:
        self._beat_at, self._tend_at = (
            now + self.options.beat_ms,
            now + self._rng.uniform(0.5, 1) * self.options.tend_ms,
        )
        return [SetTimer(TIMER, self._beat_at)]

    def meet(self, now: float, contact: Contact) -> list[PanEffect]:
        """A node that was lost is there again. It may be in a ring of its own by now: looking this node up from there
        makes the two rings one."""
        self._gone.pop(contact.id, None)
        self._learn_all(now, [contact])
        self._tell(contact, Enter(self.me, self.space.digits))
        return self._done(now)

    def leave(self, now: float) -> list[PanEffect]:
        message = Depart(tuple(self.leaves))
        for contact in self.neighbours():
            self._tell(contact, message)
        self.joined = False
        return self._done()

    def tend(self, now: float) -> list[PanEffect]:
        """Look for nearer nodes for one row of the table; done from time to time by itself."""
        self._tend(now)
        return self._done(now)

    def route(self, now: float, key: int, payload: bytes) -> list[PanEffect]:
        self._forward(None, Routed(key, self.me, payload))
        return self._done()

    def request(self, now: float, key: int, payload: bytes) -> tuple[int, list[PanEffect]]:
        """A token, under which `PanAnswered` or `Unanswered` will come."""
        self._tokens += 1
        token = self._tokens
        self._requests[token] = (key, payload, now + self.options.request_ms, self.options.request_tries - 1)
        self._forward(None, Routed(key, self.me, payload, token))
        return token, self._done()

    def reply(self, now: float, asked: PanArrived, payload: bytes) -> list[PanEffect]:
        self._tell(asked.origin, PanReply(asked.token, payload))
        return self._done()

    def neighbours(self) -> list[Contact]:
        """The union of leaf set and routing table."""
        return list(self._union().values())

    def next_hop(self, key: int) -> Contact | None:
        """Returns the next node on the way to this key; None: this node is the closest."""
        return self._next_hop(key, None)

    def second(self, key: int) -> Contact | None:
        """Returns the node other than this one that is the closest to this key, as far as this node knows."""
        space = self.space
        return min(self.leaves, key=lambda one: (space.distance(one.id, key), one.id), default=None)

    def hear(self, now: float, sender: Contact, message: PanMessage) -> list[PanEffect]:
        self._gone.pop(sender.id, None)
        if sender.id in self._known:
            self._heard[sender.id] = now
        match message:
            case Routed():
                self._forward(sender, message)
            case PanReply(token=token, payload=payload):
                if self._requests.pop(token, None) is not None:
                    self._out.append(PanAnswered(token, payload))
            case Enter():
                # A node outside cannot let others in, and they ask again; but one that others count among them has come
                # back before it was missed: two of these, each the closest to the other, must not wait for each other.
                if self.joined or any(True for _ in self.leaves):
                    self._show_way(message)
            case Others():
                self._others(now, sender, message)
            case PanAsk(row=row):
                if self.joined:
                    self._tell(sender, Others(tuple(self._asked(row))))
            case PanHello(latency_ms=latency_ms, address=address):
                contact = sender._replace(address=address or sender.address)
                if self.leaves.offer(contact):  # let newcomers know of each other at once
                    self._tell(contact, Beat(tuple(self.leaves), False))
                self.table.offer(contact, inf if latency_ms is None else latency_ms)
            case Probe(token=token):
                self._tell(sender, ProbeEcho(token))
            case ProbeEcho(token=token):
                self._measured(now, token)
            case Beat(leaves=leaves, answer=answer):
                if answer:
                    self._tell(sender, Beat(tuple(self.leaves), False))
                self._learn_all(now, leaves)
            case Depart(leaves=leaves):
                self._lose(now, sender, departed=True)
                self._learn_all(now, leaves)
            case Spare():
                pass  # links are not this machine's
            case _:
                assert_never(message)
        return self._done(now)

    def failed(self, now: float, contact: Contact, message: PanMessage | None = None) -> list[PanEffect]:
        """This contact cannot be reached. A message on its way to somebody else takes another way."""
        self._lose(now, contact)
        for token in [token for token, (whom, _) in self._probes.items() if whom.id == contact.id]:
            self._unprobe(token)
        if isinstance(message, Routed) and message.hops < HOPS_MAX:
            self._forward(None, message)
        elif isinstance(message, Enter) and message.newcomer.id != self.me.id:
            self._show_way(message)
        self._maybe_enter(now)
        return self._done(now)

    def tick(self, now: float) -> list[PanEffect]:
        options = self.options
        for token in [token for token, (_, at) in self._probes.items() if at + options.fail_ms <= now]:
            self._lose(now, self._probes[token][0])
            self._unprobe(token)
        for id in [id for id in self._known if self._heard.get(id, now) + options.fail_ms <= now and id in self.leaves]:
            self._lose(now, self._known[id])
        self._gone = {id: until for id, until in self._gone.items() if until > now}
        if self._beat_at <= now:
            self._beat_at = now + options.beat_ms
            for leaf in self.leaves:
                self._tell(leaf, Beat(tuple(self.leaves), True))
        if self._tend_at <= now:
            self._tend_at = now + options.tend_ms
            self._tend(now)
            self._look_up_self()
        for token, (key, payload, at, left) in list(self._requests.items()):
            if at <= now and not left:
                del self._requests[token]
                self._out.append(Unanswered(token))
            elif at <= now:
                self._requests[token] = (key, payload, now + options.request_ms, left - 1)
                self._forward(None, Routed(key, self.me, payload, token))
        self._maybe_enter(now)
        return [*self._done(now), SetTimer(TIMER, now + options.beat_ms / 2)]

    # --- routing --------------------------------------------------------------------------------------------------

    def _next_hop(self, key: int, but: int | None) -> Contact | None:
        """As if there were no node `but`."""
        if key == self.me.id and but is None:
            return None
        if self.leaves.covers(key):
            return self.leaves.closest(key, but)
        space, row = self.space, self.space.shared(key, self.me.id)
        best, nearest = (space.distance(self.me.id, key), self.me.id), None
        for one in self._union().values():
            rank = (space.distance(one.id, key), one.id)
            if rank < best and one.id != but and space.shared(one.id, key) >= row:
                best, nearest = rank, one
        found = self.table.towards(key) if key != self.me.id else None
        if found is None or found.id == but or best[0] <= self.leaves.reach():
            return nearest  # of whose leaves the closest to the key should be one, if it is not itself
        return found

    def _forward(self, last_hop: Contact | None, message: Routed) -> None:
        to = self._next_hop(message.key, None)
        if to is None or message.hops >= HOPS_MAX:
            self._out.append(
                PanArrived(message.key, message.payload, message.origin, last_hop, message.hops, message.token)
            )
            return
        self._tell(to, Routed(message.key, message.origin, message.payload, message.token, message.hops + 1))

    # --- joining --------------------------------------------------------------------------------------------------

    def _show_way(self, message: Enter) -> None:
        newcomer = message.newcomer
        if newcomer.id == self.me.id or message.hops > HOPS_MAX:
            return
        to = self._next_hop(newcomer.id, newcomer.id)
        if to is None:
            self._tell(newcomer, Others((self.me, *self.leaves), closest=True))
            return
        last = self.space.shared(newcomer.id, self.me.id)
        rows = [one for row in range(message.row, last + 1) for one in self.table.row(row)]
        if message.row <= last:
            self._tell(newcomer, Others((self.me, *rows)))
        self._tell(to, Enter(newcomer, max(message.row, last + 1), message.hops + 1))

    def _others(self, now: float, sender: Contact, message: Others) -> None:
        if self._seek is not None:
            for contact in self._seek.candidates((sender, *message.contacts), self.me.id):
                self._probe(now, contact)
            self._maybe_enter(now)
        elif self.joined or message.closest:
            self._learn_all(now, message.contacts, curious=not message.introduction)
            if not self.joined:
                self._enter_done()
                self._learn_all(now, self._waiting.values(), curious=True)
                self._waiting = {}
        else:
            self._waiting.update((one.id, one) for one in message.contacts)

    def _enter_done(self) -> None:
        self.joined = True
        self._out.append(Joined())

    def _maybe_enter(self, now: float) -> None:
        """A newcomer that has measured all it heard of enters by the nearest, or asks that one for nearer ones."""
        if self._seek is None or self._probes or not self._seek.heard:
            return
        nearest = self._seek.nearest()
        if nearest is None:
            self._seek = None  # nobody answers; the owner tries again, or another contact
        elif self._seek.another_round(nearest):
            self._tell(nearest, PanAsk(ALL))
        else:
            self._seek = None
            self._tell(nearest, Enter(self.me))

    # --- learning of others ---------------------------------------------------------------------------------------

    def _learn_all(self, now: float, contacts: Iterable[Contact], *, curious: bool = False) -> None:
        """Take in those that belong to the leaf set, and measure those that have an empty slot in the table, or, if
        this node is curious, whether they are nearer than the one that has it."""
        for contact in contacts:
            if contact.id == self.me.id or contact.id in self._gone:
                continue
            if self.leaves.offer(contact):
                self.table.offer(contact)
                self._tell(contact, PanHello(None, self.me.address))
                self._probe(now, contact)
            elif self.table.wants(contact.id) and (curious or self.table.towards(contact.id) is None):
                self._probe(now, contact)

    def _probe(self, now: float, contact: Contact) -> None:
        if contact.id not in self._probed and contact.id != self.me.id:
            self._tokens += 1
            self._probes[self._tokens] = (contact, now)
            self._probed.add(contact.id)
            self._tell(contact, Probe(self._tokens))

    def _unprobe(self, token: int) -> None:
        contact, _ = self._probes.pop(token)
        self._probed.discard(contact.id)

    def _measured(self, now: float, token: int) -> None:
        if token not in self._probes:
            return
        contact, sent_at = self._probes[token]
        self._unprobe(token)
        latency_ms = (now - sent_at) / 2
        if self._seek is not None:
            self._seek.latency_ms[contact] = latency_ms
            self._maybe_enter(now)
        elif self.table.offer(contact, latency_ms):
            self._tell(contact, PanHello(latency_ms, self.me.address))
        if self.joined and not self._introduced and not self._probes:
            self._introduced = True
            union = tuple(self._union().values())
            for one in union:
                self._tell(one, Others(union, introduction=True))

    def _asked(self, row: int) -> list[Contact]:
        if row == ALL:
            union = list(self._union().values())
            return self._rng.sample(union, min(len(union), SEEK_CONTACTS))
        return list(self.leaves) if row == LEAVES else self.table.row(row)

    # --- repair ---------------------------------------------------------------------------------------------------

    def _lose(self, now: float, contact: Contact, *, departed: bool = False) -> None:
        self._gone[contact.id] = now + self.options.forget_ms
        if self._seek is not None:
            self._seek.latency_ms.pop(contact, None)
        was_leaf = contact.id in self.leaves
        self.leaves.remove(contact.id)
        slot = self.table.remove(contact.id)
        if not departed and (was_leaf or slot is not None):
            self._out.append(Missed(contact))
        if was_leaf:
            whom = self.leaves.ends() or list(self.table)[:2]
            for one in whom:
                self._tell(one, PanAsk(LEAVES))
            if self.leaves.lacking():
                self._look_up_self()
        if slot is not None:
            for one in self.table.row(slot[0])[:1]:
                self._tell(one, PanAsk(slot[0]))

    def _look_up_self(self) -> None:
        union = list(self._union().values())
        if union and self.joined:
            self._tell(self._rng.choice(union), Enter(self.me, self.space.digits))

    def _tend(self, now: float) -> None:
        union = list(self._union().values())
        if not union:
            return
        one = self._rng.choice(union)
        self._tell(one, PanAsk(self.space.shared(one.id, self.me.id)))
        for contact in self._rng.sample(union, min(len(union), SEEK_CONTACTS)):
            self._probe(now, contact)

    # --- bookkeeping ----------------------------------------------------------------------------------------------

    def _union(self) -> dict[int, Contact]:
        versions = (self.leaves.version, self.table.version)
        if versions != self._versions:
            self._versions = versions
            self._members = {one.id: one for one in self.table} | {one.id: one for one in self.leaves}
        return self._members

    def _tell(self, to: Contact, message: PanMessage) -> None:
        self._out.append(PanTell(to, message))

    def _done(self, now: float = 0.0) -> list[PanEffect]:
        union = self._union()
        if union is not self._known:  # even with the same members routes may differ: one may be a leaf now
            self._heard = {id: self._heard.get(id, now) for id in union}
            self._out.append(Changed())
            self._known = union
        out, self._out = self._out, []
        return out


class _Seek:
    """A newcomer's search for the nearest node."""

    def __init__(self, bootstrap: Contact, rounds: int) -> None:
        self.at, self.rounds = bootstrap, rounds
        self.latency_ms: dict[Contact, float] = {}
        self.heard = False

    def candidates(self, contacts: Iterable[Contact], me: int) -> list[Contact]:
        self.heard = True
        return [one for one in contacts if one not in self.latency_ms and one.id != me]

    def nearest(self) -> Contact | None:
        return min(self.latency_ms, key=lambda one: self.latency_ms[one], default=None)

    def another_round(self, nearest: Contact) -> bool:
        self.rounds -= 1
        moved, self.at = nearest != self.at, nearest
        self.heard = not (moved and self.rounds > 0)
        return not self.heard
