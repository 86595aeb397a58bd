"""All links of a broker: admits peers, and keeps exactly one link to each.

Two brokers that dial each other, or one that dials again before the other noticed that the old connection died,
have two connections for a moment. Both ends must drop the same one without asking each other, so both rank a
connection by what both greetings say: the connection that the broker with the smaller number dialled wins, then the
later attempt. The loser is refused with E_LINK_DUPLICATE, and is not dialled again while the winner is live.

Another incarnation of a linked peer has been started again, or is another broker that was given the same number by
mistake: a *rival*. It waits while the linked one is pinged. If that one answers, both live: the rival is refused with
E_LINK_NUMBER, which is reported on both sides. If it falls, or is silent until it is suspect, the rival is let in.

    links = Links(Greeting("net", router=1, incarnation=7), LinkOptions(), rng)
    effects = links.dial(now, "10.0.0.2:7300") + links.step(now, Accepted("in:1"))

Effects `LinkUp`, `LinkDown`, `LatencyChanged` and `Arrived` are for the machine above, the others for the driver.
"""

from collections.abc import Iterable
from itertools import count
from random import Random
from typing import assert_never

from tidings.errors import UsageError
from tidings.overlay import effects as fx
from tidings.overlay.effects import LinkEffect, Router
from tidings.overlay.link.greeting import Greeting, Refuse
from tidings.overlay.link.link_table import LIVE, LinkState
from tidings.overlay.link.machine import NUMBER, Link, LinkOptions

DUPLICATE = "E_LINK_DUPLICATE"
ACCEPTED_MAX = 1024  # strangers at the door at the same time


class Links:
    def __init__(self, greeting: Greeting, options: LinkOptions, rng: Random, *, authenticate: bool = False) -> None:
        self.greeting, self.options = greeting, options
        self._rng = rng
        self._authenticate = authenticate
        self._attempts = count(1)
        self._links: dict[str, Link] = {}  # by name
        self._chosen: dict[Router, Link] = {}  # admitted, at most one for each peer
        self._rivals: dict[Router, tuple[Link, float]] = {}  # of a chosen peer, and since when it waits
        self._last_peer: dict[str, Router] = {}  # who answered at a dialled link, by name

    def dial(self, now: float, address: str, expected: Router | None = None) -> list[LinkEffect]:
        """Keep a link to this address from now on."""
        name = f"to:{address}"
        if name in self._links:
            raise UsageError("E_LINK_STATE", f"a link to {address} exists already")
        link = Link(name, self.greeting, self.options, self._rng, address, expected, self._attempts)
        self._links[name] = link
        return link.start(now)

    def hang_up(self, now: float, address: str) -> list[LinkEffect]:
        """No longer keep a link to this address. One that the peer dialled stays."""
        link = self._links.get(f"to:{address}")
        return [] if link is None else self._settle(link, link.stop(now, "not needed any more"))

    def hasten(self, now: float, address: str) -> list[LinkEffect]:
        """This address is wanted: if it is waiting to be dialled again, dial it soon."""
        link = self._links.get(f"to:{address}")
        return [] if link is None else link.hasten(now)

    def stop(self, now: float, reason: str) -> list[LinkEffect]:
        """Say goodbye to all."""
        return [effect for link in list(self._links.values()) for effect in self._settle(link, link.stop(now, reason))]

    def peers(self) -> Iterable[Router]:
        """Peers with a live link."""
        return [peer for peer, link in self._chosen.items() if link.state in LIVE]

    def link(self, peer: Router) -> Link | None:
        found = self._chosen.get(peer)
        return found if found is not None and found.state in LIVE else None

    def peer_at(self, address: str) -> Router | None:
        """Returns the peer at the other end of the live link that was dialled to this address."""
        link = self._links.get(f"to:{address}")
        return link.peer.router if link is not None and link.peer is not None and link.state in LIVE else None

    def send(self, peer: Router, message: fx.ControlMessage) -> list[LinkEffect]:
        """Transmit to a peer; nothing if its link has gone, as every protocol above must expect."""
        link = self.link(peer)
        return [fx.Transmit(link.connection, message)] if link else []

    def step(self, now: float, told: fx.Input) -> list[LinkEffect]:
        if isinstance(told, fx.LinkAccepted):
            return self._accept(now, told.connection)
        name = told.name.removeprefix("link ") if isinstance(told, fx.Timer) else told.connection.partition("#")[0]
        link = self._links.get(name)
        if link is None:
            return []  # of a link that has ended
        match told:
            case fx.Authenticated():
                return self._authenticated(now, link) if told.connection == link.connection else []
            case fx.Denied(code=code, reason=reason):
                stale = told.connection != link.connection or link.state is not LinkState.GREETING
                return [] if stale else self._settle(link, link.refuse(now, Refuse(code, reason)))
            case fx.Timer() if link.state is LinkState.DOWN and self.link(self._last_peer.get(name, 0)):
                return [fx.SetTimer(told.name, now + self.options.backoff_max_ms)]  # linked by another connection
            case fx.Timer() | fx.Connected() | fx.Lost() | fx.Received() | fx.Carried():
                pass  # for the link itself
            case _:
                assert_never(told)
        out = self._settle(link, link.step(now, told))
        if not self._authenticate and any(isinstance(effect, fx.Authenticate) for effect in out):
            out = [effect for effect in out if not isinstance(effect, fx.Authenticate)]
            out += self._authenticated(now, link)
        return out + self._judge_rivals(now) if self._rivals else out

    def _accept(self, now: float, connection: str) -> list[LinkEffect]:
        if connection in self._links or "#" in connection or connection.startswith("to:"):
            raise UsageError("E_LINK_STATE", f"connection name {connection!r} is in use already")
        if len(self._links) - len(self._chosen) >= ACCEPTED_MAX:
            return [fx.CloseLink(connection, "E_LINK_LIMIT")]
        link = Link(connection, self.greeting, self.options, self._rng)
        self._links[connection] = link
        return link.accept(now)

    def _authenticated(self, now: float, link: Link) -> list[LinkEffect]:
        if link.state is not LinkState.GREETING or link.peer is None or link.admitted:
            return []
        peer = link.peer.router
        if link.dialled:
            self._last_peer[link.name] = peer
        old = self._chosen.get(peer)
        if old is None or old is link:
            return self._choose(now, link)
        assert old.peer is not None
        if old.peer.incarnation != link.peer.incarnation and old.state in LIVE:
            return self._challenge(now, old, link)
        if self._rank(old) > self._rank(link):
            return self._settle(link, link.refuse(now, Refuse(DUPLICATE, f"{peer} is linked already")))
        return self._replace(now, old, link)

    def _choose(self, now: float, link: Link) -> list[LinkEffect]:
        assert link.peer is not None
        self._chosen[link.peer.router] = link
        return self._settle(link, link.admit(now))

    def _replace(self, now: float, old: Link, link: Link) -> list[LinkEffect]:
        assert link.peer is not None
        refusal = Refuse(DUPLICATE, f"{link.peer.router} has a better link now")
        return self._settle(old, old.refuse(now, refusal)) + self._choose(now, link)

    def _rank(self, link: Link) -> tuple[int, int, int]:
        """Both ends know these, and they differ for any two connections: the greater stays."""
        assert link.peer is not None
        dialler = self.greeting.router if link.dialled else link.peer.router
        return (link.peer.incarnation, -dialler, link.dial)

    # Two incarnations of a peer.

    def _challenge(self, now: float, old: Link, link: Link) -> list[LinkEffect]:
        """Checks that the linked incarnation still answers. Of two rivals that wait for this, the greater stays."""
        assert link.peer is not None
        peer, out = link.peer.router, old.ping(now)
        other, _ = self._rivals.get(peer, (None, 0.0))
        if other is not None and other is not link and other.state is LinkState.GREETING:
            loser = link if self._rank(other) > self._rank(link) else other
            out += self._settle(loser, loser.refuse(now, Refuse(DUPLICATE, f"{peer} has a better link now")))
            if loser is link:
                return out
        self._rivals[peer] = (link, now)
        return out + self._judge_rivals(now)

    def _judge_rivals(self, now: float) -> list[LinkEffect]:
        out: list[LinkEffect] = []
        for peer, (rival, since) in list(self._rivals.items()):
            old = self._chosen.get(peer)
            if rival.state is not LinkState.GREETING or rival.peer is None:
                del self._rivals[peer]
            elif old is None:
                del self._rivals[peer]
                out += self._choose(now, rival)
            elif old.state is not LinkState.UP:
                del self._rivals[peer]
                out += self._replace(now, old, rival)
            elif old.asked_and_answered(since):
                del self._rivals[peer]
                out += self._refuse_twin(now, peer, old, rival)
        return out

    def _refuse_twin(self, now: float, peer: Router, old: Link, rival: Link) -> list[LinkEffect]:
        here, there = (link.address or link.connection.removeprefix("from:").partition("/")[0] for link in (old, rival))
        twice = f"the number {peer} is used twice: by the broker at {here}, which is linked and answers, and by {there}"
        refusal = Refuse(NUMBER, f"{twice}; give one of them another id")
        return [fx.Report(NUMBER, refusal.reason), *self._settle(rival, rival.refuse(now, refusal))]

    def _settle(self, link: Link, out: list[LinkEffect]) -> list[LinkEffect]:
        """Forget a link that fell: as the peer's chosen one, and wholly if it was accepted or stopped."""
        if link.state in (LinkState.DOWN, LinkState.CLOSED):
            for peer in [peer for peer, one in self._chosen.items() if one is link]:
                del self._chosen[peer]
            if not link.dialled or link.state is LinkState.CLOSED:
                self._links.pop(link.name, None)
        return out
