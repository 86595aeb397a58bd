"""A broker whose links Pan decides on: it joins by one address, links to its neighbours, and lets go of others.

Pan speaks to anybody; here that takes a link. To whom there is none one is dialled, what is to be said waits for it,
and a link to a broker that is no neighbour is closed after a while, unless that one counts this broker among its own.
If it does not come up in time, Pan hears that the contact cannot be reached. The overlay is then a network like any
other, with redundant paths, for unicast and for every scheme.

A neighbour is given up as soon as it is known to be gone, since others wait for the overlay to be repaired: when its
link was silent for as long as a link may be, or broke and its machine says twice that nothing listens there any more.
Where nobody answers at all it has `reach_ms`. Who was given up is dialled now and then for an hour: a network that fell
apart becomes one again.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import assert_never

from tidings.errors import CodecError
from tidings.overlay.effects import LinkEffect, Report, Router, SetTimer
from tidings.overlay.link.links import Links
from tidings.overlay.pan import NETWORK_IDS, Contact, Pan, PanOptions
from tidings.overlay.pan.machine import TIMER
from tidings.overlay.pan.messages import (
    Changed,
    Joined,
    Missed,
    PanAnswered,
    PanArrived,
    PanEffect,
    PanMessage,
    PanReply,
    PanTell,
    Probe,
    Spare,
    Unanswered,
)
from tidings.routing.control.messages import SchemeMessage
from tidings.routing.control.pan_codec import SCHEME, decode, encode

Say = Callable[[Router, SchemeMessage], object]


@dataclass(frozen=True, slots=True)
class PanSettings:
    join: str = ""  # host:port of a broker of the network; empty: this one is its first
    options: PanOptions = field(default_factory=lambda: PanOptions(beat_ms=2000, fail_ms=10_000, tend_ms=10_000))
    linger_ms: float = 10_000  # how long a link is kept that no neighbour is at the other end of
    reach_ms: float = 3_000  # how long a contact may take to be linked
    rejoin_ms: float = 2_000
    retry_ms: float = 10_000  # how often one of those is dialled who were neighbours and were lost
    lost_ms: float = 3_600_000  # for so long


REFUSALS_MAX = 2  # in a row; one may be a broker that is just being restarted
LOST_MAX = 64


def id_of(router: Router) -> int:
    return NETWORK_IDS.hash(f"broker {router}")


class PanLinks:
    def __init__(self, router: Router, settings: PanSettings, links: Links, rng: Random, say: Say) -> None:
        self.settings, self._links, self._say = settings, links, say
        self._rng, self._router = rng, router
        self.pan = Pan(Contact(id_of(router), router), rng, NETWORK_IDS, settings.options)
        self._dialled: dict[str, float] = {}  # address -> when it was last needed
        self._waiting: dict[Router, list[tuple[float, Contact, PanMessage]]] = {}
        self._addresses: dict[Router, str] = {}
        self._refusals: Counter[str] = Counter()  # in a row, by address
        self._lost: dict[Router, tuple[Contact, float]] = {}  # who was given up, and until when that is remembered
        self._rejoin_at = self._retry_at = 0.0
        self.inbox: list[PanArrived | PanAnswered | Unanswered | Changed] = []  # for whoever routes by keys

    # --- doors ----------------------------------------------------------------------------------------------------

    def start(self, now: float, address: str) -> list[LinkEffect]:
        """`address`: where others reach this broker."""
        self.pan.me = self.pan.me._replace(address=address)
        self._rejoin_at = now + self.settings.rejoin_ms
        out = self._do(now, self.pan.start_timer(now))
        if not self.settings.join:
            return out + self._do(now, self.pan.found(now))
        return out + self._dial(now, self.settings.join)

    def stop(self, now: float) -> None:
        for effect in self.pan.leave(now):
            if isinstance(effect, PanTell) and self._links.link(effect.to.router) is not None:
                self._say(effect.to.router, SchemeMessage(SCHEME, encode(effect.message)))

    def link_up(self, now: float, peer: Router) -> list[LinkEffect]:
        link = self._links.link(peer)
        if link is not None and link.address:
            self._addresses[peer] = link.address
        self._refusals.pop(self._addresses.get(peer, ""), None)
        for _, contact, message in self._waiting.pop(peer, []):
            self._say(contact.router, SchemeMessage(SCHEME, encode(message)))
        if not self.pan.joined:
            return self._join(now)
        return self._meet(now, peer)

    def link_down(self, now: float, peer: Router, silent: bool) -> list[LinkEffect]:
        """A neighbour that was silent, or cannot be linked again in time, is gone."""
        contact = next((one for one in self.pan.neighbours() if one.router == peer), None)
        if contact is None:
            return []
        if silent:
            return self._give_up(now, contact)
        return self._tell(now, contact, Probe(0)) + self._links.hasten(now, contact.address)

    def nobody_at(self, now: float, address: str) -> list[LinkEffect]:
        """A dial was refused there."""
        self._refusals[address] += 1
        if self._refusals[address] < REFUSALS_MAX:
            return []
        del self._refusals[address]
        waiting = [one for some in self._waiting.values() for _, one, _ in some]
        there = {one.router: one for one in (*waiting, *self.pan.neighbours()) if one.address == address}
        out: list[LinkEffect] = []
        for router, contact in there.items():
            if self._links.link(router) is None:
                out += self._give_up(now, contact)
        return out

    def heard(self, now: float, peer: Router, payload: bytes) -> list[LinkEffect]:
        try:
            message = decode(payload)
        except CodecError as error:
            return [Report("E_SCHEME_MESSAGE", f"invalid message of router {peer}: {error}")]
        if isinstance(message, Spare):
            return self._spare(now, peer)
        return self._do(now, self.pan.hear(now, self._contact(peer), message))

    def tick(self, now: float) -> list[LinkEffect]:
        out = self._do(now, self.pan.tick(now))
        for router, waiting in list(self._waiting.items()):
            late = [one for one in waiting if one[0] + self.settings.reach_ms <= now]
            if late:
                self._waiting[router] = [one for one in waiting if one not in late]
                for _, contact, message in late:
                    out += self._do(now, self.pan.failed(now, contact, message))
        if self._rejoin_at <= now:
            self._rejoin_at = now + self.settings.rejoin_ms
            if self.settings.join and not (self.pan.joined and self.pan.neighbours()):  # not in yet, or all are gone
                out += self._dial(now, self.settings.join) + self._join(now)
        if self._retry_at <= now:
            self._retry_at = now + self.settings.retry_ms
            out += self._retry_lost(now)
        return out + self._tidy(now)

    def request(self, now: float, key: int, payload: bytes) -> tuple[int, list[LinkEffect]]:
        """To the broker closest to the key; the answer, or that there is none, will be in `inbox` under this token."""
        token, effects = self.pan.request(now, key, payload)
        return token, self._do(now, effects)

    def reply(self, now: float, asked: PanArrived, payload: bytes) -> list[LinkEffect]:
        if asked.origin.router == self._router:
            return self._do(now, self.pan.hear(now, self.pan.me, PanReply(asked.token, payload)))
        return self._do(now, self.pan.reply(now, asked, payload))

    def next_hop(self, key: int) -> Router | None:
        to = self.pan.next_hop(key)
        return None if to is None else to.router

    def second(self, key: int) -> Router | None:
        to = self.pan.second(key)
        return None if to is None else to.router

    def status(self) -> dict[str, object]:
        """For those who watch."""
        pan = self.pan
        neighbours = sorted(one.router for one in pan.neighbours())
        return {"id": NETWORK_IDS.text(pan.me.id), "joined": pan.joined, "neighbours": neighbours}

    # --- joining --------------------------------------------------------------------------------------------------

    def _join(self, now: float) -> list[LinkEffect]:
        peers = list(self._links.peers())
        if not self.settings.join or not peers:
            return []
        return self._do(now, self.pan.join(now, self._contact(self._rng.choice(peers))))

    def _contact(self, peer: Router) -> Contact:
        known = next((one for one in self.pan.neighbours() if one.router == peer), None)
        return known or Contact(id_of(peer), peer, self._addresses.get(peer, ""))

    # --- effects --------------------------------------------------------------------------------------------------

    def _do(self, now: float, effects: list[PanEffect]) -> list[LinkEffect]:
        out: list[LinkEffect] = []
        for effect in effects:
            match effect:
                case PanTell(to=contact, message=message):
                    out += self._tell(now, contact, message)
                case Changed():
                    self.inbox.append(effect)
                    for contact in self.pan.neighbours():
                        self._lost.pop(contact.router, None)
                    for contact in self.pan.neighbours():
                        out += self._reach(now, contact)
                case Missed(contact=contact):
                    if contact.address:
                        self._lost[contact.router] = (contact, now + self.settings.lost_ms)
                    if len(self._lost) > LOST_MAX:
                        del self._lost[next(iter(self._lost))]
                case SetTimer(at=at):
                    out.append(SetTimer(TIMER, at))
                case Joined():
                    out.append(Report("PAN_JOINED", f"node {NETWORK_IDS.text(self.pan.me.id)}"))
                case PanArrived() | PanAnswered() | Unanswered():
                    self.inbox.append(effect)
                case _:
                    assert_never(effect)
        return out

    def _tell(self, now: float, contact: Contact, message: PanMessage) -> list[LinkEffect]:
        if contact.router == self._router:
            return []
        if self._links.link(contact.router) is not None:
            self._say(contact.router, SchemeMessage(SCHEME, encode(message)))
            return []
        self._waiting.setdefault(contact.router, []).append((now, contact, message))
        return self._reach(now, contact)

    def _give_up(self, now: float, contact: Contact) -> list[LinkEffect]:
        """It is gone: what was to be said to it finds another way."""
        out: list[LinkEffect] = []
        for _, _, message in self._waiting.pop(contact.router, []):
            out += self._do(now, self.pan.failed(now, contact, message))
        return out + self._do(now, self.pan.failed(now, contact))

    def _retry_lost(self, now: float) -> list[LinkEffect]:
        self._lost = {router: one for router, one in self._lost.items() if one[1] > now}
        if not self._lost:
            return []
        contact, _ = self._rng.choice(list(self._lost.values()))
        if self._links.link(contact.router) is not None:
            return self._meet(now, contact.router)
        return self._dial(now, contact.address, contact.router) + self._links.hasten(now, contact.address)

    def _meet(self, now: float, peer: Router) -> list[LinkEffect]:
        contact, _ = self._lost.pop(peer, (None, 0.0))
        return [] if contact is None else self._do(now, self.pan.meet(now, contact))

    def _reach(self, now: float, contact: Contact) -> list[LinkEffect]:
        """Have a link to this contact, or try."""
        if contact.address and contact.router != self._router:
            self._addresses[contact.router] = contact.address
            if self._links.link(contact.router) is None:
                return self._dial(now, contact.address, contact.router)
        return []

    def _dial(self, now: float, address: str, expected: Router | None = None) -> list[LinkEffect]:
        known = address in self._dialled
        self._dialled[address] = now
        return [] if known else self._links.dial(now, address, expected)

    def _tidy(self, now: float) -> list[LinkEffect]:
        """Let go of links that no neighbour is at the other end of. What such a neighbour sends by them must not be
        lost, so the one at the other end is asked first."""
        needed = {one.address for one in self.pan.neighbours()}
        needed |= {contact.address for waiting in self._waiting.values() for _, contact, _ in waiting}
        if not (self.pan.joined and self.pan.neighbours()):
            needed.add(self.settings.join)
        out: list[LinkEffect] = []
        for address, since in list(self._dialled.items()):
            if address in needed:
                self._dialled[address] = now
            elif since + self.settings.linger_ms > now:
                pass
            elif (peer := self._links.peer_at(address)) is None:
                out += self._hang_up(now, address)
            else:
                self._dialled[address] = now  # to be asked again, if it needs the link
                self._say(peer, SchemeMessage(SCHEME, encode(Spare())))
        return out

    def _spare(self, now: float, peer: Router) -> list[LinkEffect]:
        """The peer does not need the link."""
        link = self._links.link(peer)
        if link is None or not self.pan.joined or any(one.router == peer for one in self.pan.neighbours()):
            return []
        if link.address is None:
            self._say(peer, SchemeMessage(SCHEME, encode(Spare())))
        elif link.address in self._dialled:
            return self._hang_up(now, link.address)
        return []

    def _hang_up(self, now: float, address: str) -> list[LinkEffect]:
        self._dialled.pop(address, None)
        self._refusals.pop(address, None)
        return self._links.hang_up(now, address)
