"""The connections of links as the engine knows them: proof of the network's secret, then control frames.

    opened ──► challenge ⇄ proof ──proven──► greeting ──► Authenticate ──► the network's machines
                              └──────wrong──► Denied

A peer is let in only if it proves itself: by the secret (link_secret.py), by a certificate that the driver looks at
(`Authenticate`), or by both. What it says of itself before the proof is looked at only after it. Who dialled proves the
secret first; before that the other end says nothing but its challenge: no greeting, and no proof by which a stranger
could try secrets.
"""

from dataclasses import dataclass

from tidings.errors import CodecError, RemoteProtocolError
from tidings.kernel.events import ControlFrame, FrameError
from tidings.kernel.forwarder import Forwarder
from tidings.model.codec import encode_frame
from tidings.node.effects import LinkEffect
from tidings.node.inputs import LinkOpened, Now
from tidings.node.network.link_secret import CHALLENGE_BYTES, CHALLENGE_FRAME, PROOF_FRAME, Handshake
from tidings.node.network.network import Network
from tidings.overlay import effects as fx
from tidings.overlay.link.greeting import Refuse
from tidings.overlay.link.machine import SECRET
from tidings.routing.control.codec import decode


@dataclass(slots=True, eq=False)
class LinkSession:
    """One connection of a link."""

    name: str
    number: int
    handshake: Handshake | None
    their_challenge: bytes = b""
    proven: bool | None = None  # by the secret; None: not yet
    greeting: ControlFrame | None = None  # came before the proof

    @property
    def trusted(self) -> bool:
        return self.handshake is None or self.proven is True


class LinkSessions:
    def __init__(self, plane: Forwarder, network: Network, secret: bytes) -> None:
        self.by_number: dict[int, LinkSession] = {}
        self._by_name: dict[str, LinkSession] = {}
        self._plane, self._network, self._secret = plane, network, secret

    def opened(self, now: Now, told: LinkOpened) -> None:
        handshake = Handshake(self._secret, told.dialled, told.challenge) if self._secret else None
        link = LinkSession(told.connection, told.number, handshake)
        self.by_number[told.number] = self._by_name[told.connection] = link
        self._network.opened(told.connection, told.number, proven=handshake is None)
        if handshake is not None:
            self._plane.send(told.number, encode_frame(CHALLENGE_FRAME, handshake.challenge))
        here = fx.Connected(told.connection) if told.dialled else fx.LinkAccepted(told.connection)
        self._network.step(now.steady_ms, here)

    def lost(self, now: Now, told: fx.Lost) -> None:
        self._network.step(now.steady_ms, told)
        self._forget(told.connection)

    def control(self, now: Now, link: LinkSession, frame: ControlFrame) -> None:
        handshake = link.handshake
        if frame.type == CHALLENGE_FRAME and handshake is not None and len(frame.payload) == CHALLENGE_BYTES:
            if not link.their_challenge:
                link.their_challenge = frame.payload
                if handshake.dialled:
                    self._prove(link, handshake)
        elif frame.type == PROOF_FRAME and handshake is not None and link.their_challenge:
            if link.proven is None:
                self._proven(now, link, handshake, handshake.check(frame.payload, link.their_challenge))
        elif frame.type in (CHALLENGE_FRAME, PROOF_FRAME):
            if handshake is None and frame.type == CHALLENGE_FRAME:
                self._deny(now, link, "only one of the two brokers has a secret of the network")
            wrong = RemoteProtocolError(SECRET, "a challenge or proof that was not expected")
            self._network.broken(now.steady_ms, link.number, wrong)
        elif link.trusted or _is_refusal(frame.payload):
            self._network.control(now.steady_ms, link.number, frame.type, frame.payload)
        elif link.greeting is not None:
            wrong = RemoteProtocolError("E_LINK_PROTOCOL", "more than a greeting before the proof of the secret")
            self._network.broken(now.steady_ms, link.number, wrong)
        else:
            link.greeting = frame
        if link.number in self.by_number:
            self._plane.handled(link.number, now.wall_ms)

    def broken(self, now: Now, link: LinkSession, error: FrameError) -> None:
        wrong = RemoteProtocolError(error.code, error.reason, position=error.position)
        self._network.broken(now.steady_ms, link.number, wrong)

    def take(self) -> list[LinkEffect]:
        """Take the effects that the network requests of the driver."""
        out = self._network.take()
        for effect in out:
            if isinstance(effect, fx.CloseLink):
                self._forget(effect.connection)
        return out

    def _prove(self, link: LinkSession, handshake: Handshake) -> None:
        self._plane.send(link.number, encode_frame(PROOF_FRAME, handshake.answer(link.their_challenge)))

    def _proven(self, now: Now, link: LinkSession, handshake: Handshake, proven: bool) -> None:
        """The peer is proven: send the greeting, and process the one that it has sent."""
        link.proven = proven
        if not proven:
            self._deny(now, link, "the peer does not know the network's secret")
            return
        if not handshake.dialled:
            self._prove(link, handshake)
        self._network.proven(link.name)
        if link.greeting is not None:
            self._network.control(now.steady_ms, link.number, link.greeting.type, link.greeting.payload)

    def _deny(self, now: Now, link: LinkSession, reason: str) -> None:
        self._network.step(now.steady_ms, fx.Denied(link.name, SECRET, reason))

    def _forget(self, name: str) -> None:
        link = self._by_name.pop(name, None)
        if link is not None:
            del self.by_number[link.number]


def _is_refusal(payload: bytes) -> bool:
    """It may come from a peer that has no secret to prove itself with, and says so."""
    try:
        return isinstance(decode(payload), Refuse)
    except CodecError:
        return False
