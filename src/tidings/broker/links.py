"""The asyncio driver of a broker's links: carries out what the network's machines ask for.

Links have a port of their own, apart from clients'. A peer is let in only if it proves itself: by the network's secret
(link_secret.py), by a certificate of the name that belongs to its router number, or by both. Whoever wants neither, on
a machine or network where nobody else is, has to say so (`insecure`).
"""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidings.broker.crowd import Crowd
from tidings.broker.dialling import dial
from tidings.broker.door import Door, Handshakes
from tidings.broker.few_lines import FewLines
from tidings.broker.link_connection import LinkConnection, code_of
from tidings.broker.link_secret import CHALLENGE_BYTES, CHALLENGE_FRAME, PROOF_FRAME, Handshake
from tidings.errors import CodecError, RemoteProtocolError, UsageError
from tidings.kernel.events import ControlFrame, FrameError, PlaneEvent, Relayed, RemoteMessage
from tidings.kernel.forwarder import Flag
from tidings.model.codec import encode_frame
from tidings.node.network import Network
from tidings.overlay import effects as fx
from tidings.overlay.greeting import Refuse
from tidings.overlay.link import CERTIFICATE, SECRET
from tidings.routing.codec import decode

if TYPE_CHECKING:
    from tidings.broker.server import Broker

log = logging.getLogger("tidings.links")

HAS_EVENTS = int(Flag.EVENTS)
WRITE_BYTES = 256 << 10
SECRET_BYTES_MIN = 16
GATHER_MS = 10.0
HANDSHAKE_SECONDS = 10.0  # with TLS: before anything is said
HANDSHAKES_MAX = (1024, 128)  # at a time: in all, and of one address


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Where links come in, and what proves a peer."""

    host: str = "127.0.0.1"
    port: int | None = 7301  # None: no links come in, this broker only dials
    secret: bytes = field(default=b"", repr=False)
    tls_accept: ssl.SSLContext | None = field(default=None, repr=False)  # must ask for the peer's certificate
    tls_dial: ssl.SSLContext | None = field(default=None, repr=False)
    certificate_names: Mapping[int, str] = field(default_factory=dict)  # by router number; default: "broker-<number>"
    certificates: bool = False  # a peer must show the certificate of its name
    delays_ms: Mapping[int, float] = field(default_factory=dict)  # by router number: how long output is held back
    bandwidths_bytes_s: Mapping[int, int] = field(default_factory=dict)  # by router number, as far as known
    gather_ms: float = GATHER_MS  # how long output waits at most for more to go with it, on a link that is busy
    insecure: bool = False  # let everybody in who can reach the port
    address: str = ""  # host:port where other brokers reach this one, if it is not host and port

    def __post_init__(self) -> None:
        if self.secret and len(self.secret) < SECRET_BYTES_MIN:
            raise UsageError("E_LINK_SECRET", f"a secret has at least {SECRET_BYTES_MIN} bytes")
        if self.certificates and (self.tls_dial is None or (self.port is not None and self.tls_accept is None)):
            raise UsageError("E_LINK_TLS", "certificates need TLS for links")
        if not (self.secret or self.certificates or self.insecure):
            raise UsageError("E_LINK_OPEN", "links need a secret or certificates, or the word that they need none")


class BrokerLinks:
    def __init__(self, broker: "Broker", network: Network, settings: LinkSettings) -> None:
        self.settings, self.network = settings, network
        self.buffer = broker.buffer
        self.port = 0
        self._broker = broker
        self._forwarder = broker.forwarder
        self._connections: dict[str, LinkConnection] = {}
        self._by_number: dict[int, LinkConnection] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._door: Door | None = None
        self._accepted = 0
        self._strangers = FewLines()
        self._started = False
        self._base_ms = time.time() * 1000 - time.monotonic() * 1000

    def now(self) -> float:
        """Milliseconds that never go back."""
        return self._base_ms + time.monotonic() * 1000

    def tell_time(self) -> None:
        self.network.clock.at(self.now())

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self.settings.port is not None:
            self._door = await self._open(self.settings.host, self.settings.port)
            self.port = self._door.port
            self.network.address = self.settings.address or f"{self.settings.host}:{self.port}"
        self._started = True
        self.network.start(self.now())
        self._broker.settle()

    async def _open(self, host: str, port: int) -> Door:
        failed = self._broker.handshakes.failed
        handshakes = Handshakes(Crowd(lambda: HANDSHAKES_MAX), failed, lambda: HANDSHAKE_SECONDS)
        door = Door(host, port, self._accept, handshakes, self.settings.tls_accept)
        await door.open()
        return door

    def renew(self, settings: LinkSettings) -> None:
        """Its certificates count for links that are made from now on; those that exist stay. Nothing else changes, and
        links without TLS stay without."""
        if self.settings.tls_dial is None or settings.tls_dial is None:
            return
        self.settings = replace(self.settings, tls_accept=settings.tls_accept, tls_dial=settings.tls_dial)
        if self._door is not None and settings.tls_accept is not None:
            self._door.renew(settings.tls_accept)

    async def stop(self) -> None:
        if not self._started:
            return
        if self._door is not None:
            self._door.close()
        self.network.stop(self.now(), "shutting down")
        self._broker.settle()
        for timer in self._timers.values():
            timer.cancel()
        for task in list(self._dialling.values()):
            task.cancel()
        await asyncio.gather(*self._dialling.values(), return_exceptions=True)

    def cut(self) -> None:
        """Break all connections, as a failing network would; they are dialled again."""
        for connection in list(self._connections.values()):
            connection.abort()

    # --- sockets --------------------------------------------------------------------------------------------------

    def _accept(self) -> LinkConnection:
        self._accepted += 1
        return LinkConnection(self, f"from:{self._accepted}", self._handshake(dialled=False))

    def _handshake(self, *, dialled: bool) -> Handshake | None:
        secret = self.settings.secret
        return Handshake(secret, dialled, secrets.token_bytes(CHALLENGE_BYTES)) if secret else None

    def opened(self, connection: LinkConnection) -> None:
        dialled = connection.name.startswith("to:")
        if dialled and connection.attempt is not self._dialling.get(connection.name):
            connection.give_up()  # it was made in the very turn in which the attempt was given up
            return
        if not dialled:
            connection.name = f"from:{connection.address()}/{connection.name.removeprefix('from:')}"
        connection.number = number = self._forwarder.open()
        self._connections[connection.name] = self._by_number[number] = connection
        self.network.opened(connection.name, number)
        if connection.handshake is not None:
            self._forwarder.send(number, encode_frame(CHALLENGE_FRAME, connection.handshake.challenge))
        self._tell(fx.Connected(connection.name) if dialled else fx.Accepted(connection.name))

    def delay_ms(self, connection: LinkConnection) -> float:
        """How long what goes out by this connection is held back, once it is known whose it is."""
        return self.settings.delays_ms.get(connection.asked, 0.0) if self.settings.delays_ms else 0.0

    def received(self, connection: LinkConnection, size: int) -> None:
        self.network.clock.at(self.now())
        connection.received_bytes += size
        if self._forwarder.feed(connection.number, size, self._broker.now_ms()) & HAS_EVENTS:
            self._broker.settle()
        else:
            self._broker.flush_soon()

    def set_writable(self, connection: LinkConnection, writable: bool) -> None:
        self._forwarder.set_writable(connection.number, writable)
        if writable:
            self._broker.flush_soon()

    def lost(self, connection: LinkConnection, reason: str, code: str = "") -> None:
        if self._connections.get(connection.name) is connection:
            self._tell(fx.Lost(connection.name, reason, code=code))
            self._drop(connection)

    def _drop(self, connection: LinkConnection) -> None:
        if self._connections.pop(connection.name, None) is not None:
            del self._by_number[connection.number]
            self._forwarder.close(connection.number)
            connection.number = -1

    def _tell(self, told: fx.Input) -> None:
        self.network.step(self.now(), told)
        self._broker.settle()

    # --- called by the broker -------------------------------------------------------------------------------------

    def event(self, event: PlaneEvent) -> None:
        """An event of the forwarder about a link."""
        number = event.connection
        connection = self._by_number.get(number)
        if connection is None:
            return
        now_ms = self._broker.now_ms()
        match event:
            case ControlFrame():
                self._control(connection, event.type, event.payload)
                if connection.number >= 0:
                    self._forwarder.handled(number, now_ms)
            case RemoteMessage() | Relayed():
                self._broker.node.publishing.from_network(now_ms, event)
            case FrameError():
                wrong = RemoteProtocolError(event.code, event.reason, position=event.position)
                self.network.broken(self.now(), number, connection.met_tls() or wrong)

    def write(self, number: int, data: bytes, left: int) -> None:
        """What the forwarder had for a link; `left`: bytes that did not go into this write."""
        connection = self._by_number.get(number)
        if connection is None:
            return
        if data:
            connection.sent_bytes += len(data)
            connection.write(data)
        if left and connection.writable:
            self._forwarder.set_writable(number, True)
            self._broker.flush_soon()

    def bandwidth_bytes_s(self, router: int) -> int:
        """What the configuration says that the link carries each way; 0: nothing."""
        return self.settings.bandwidths_bytes_s.get(router, 0)

    def traffic(self, name: str) -> tuple[int, int]:
        """Bytes sent and received since this connection was made."""
        connection = self._connections.get(name)
        return (0, 0) if connection is None else (connection.sent_bytes, connection.received_bytes)

    def carry_out(self) -> None:
        """What the network's machines ask for."""
        for effect in self.network.take():
            match effect:
                case fx.Dial(connection=name, address=address):
                    self._dialling[name] = self._loop.create_task(self._dial(name, address))
                case fx.Close(connection=name, reason=reason):
                    self._close(name, reason)
                case fx.SetTimer(name=name, at=at):
                    self._set_timer(name, at)
                case fx.Authenticate(connection=name, router=router):
                    if name in self._connections:
                        self._connections[name].asked = router
                        self._loop.call_soon(self._judge, name)
                case fx.Report():
                    self._report(effect)
                case _:
                    log.debug("%s", effect)

    def _report(self, told: fx.Report) -> None:
        if told.stranger and not self._strangers.worth_one():
            return
        left_out = self._strangers.take_left_out() if told.stranger else 0
        more = f" ({left_out} lines about others who came and were not admitted are left out)" if left_out else ""
        level = logging.WARNING if told.code.startswith("E_") else logging.INFO
        log.log(level, "%s: %s%s", told.code, told.reason, more)

    # --- effects --------------------------------------------------------------------------------------------------

    async def _dial(self, name: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        tls = self.settings.tls_dial
        connection = LinkConnection(self, name, None)
        connection.attempt = asyncio.current_task()
        try:
            connection.handshake = self._handshake(dialled=True)
            await dial(lambda: connection, host.strip("[]"), int(port), tls)
        except asyncio.CancelledError:
            connection.give_up()
            self.lost(connection, "given up")
            raise
        except Exception as error:  # whatever it is: who is not told of it does not dial again
            if not isinstance(error, OSError | ValueError):  # all that TLS complains of is one, too
                log.exception("internal error while dialling %s", address)
            self._tell(fx.Lost(name, str(error), isinstance(error, ConnectionRefusedError), code_of(error)))
        finally:
            if self._dialling.get(name) is connection.attempt:  # not if it is dialled anew
                del self._dialling[name]

    def _close(self, name: str, reason: str) -> None:
        task = self._dialling.pop(name, None)
        connection = self._connections.get(name)
        if connection is not None:
            log.debug("closing %s: %s", name, reason)
            while data := self._forwarder.take(connection.number, WRITE_BYTES, self._broker.now_ms()):
                connection.write(data)
            self._drop(connection)
            connection.close()
        elif task is not None:
            task.cancel()

    def _set_timer(self, name: str, at: float) -> None:
        old = self._timers.pop(name, None)
        if old is not None:
            old.cancel()
        self._timers[name] = self._loop.call_later(max(0.0, at - self.now()) / 1000 + 0.0005, self._ring, name, at)

    def _ring(self, name: str, at: float) -> None:
        if self.now() < at:  # never early
            self._set_timer(name, at)
            return
        self._timers.pop(name, None)
        for connection in [one for one in self._connections if name == f"link {one.partition('#')[0]}"]:
            self.network.step(self.now(), fx.Carried(connection, *self.traffic(connection)))
        self._tell(fx.Timer(name))

    # --- is the peer who it says? ---------------------------------------------------------------------------------

    def _control(self, connection: LinkConnection, type: int, payload: bytes) -> None:
        handshake = connection.handshake
        if type == CHALLENGE_FRAME and handshake is not None and len(payload) == CHALLENGE_BYTES:
            if not connection.their_challenge:
                connection.their_challenge = payload
                self._forwarder.send(connection.number, encode_frame(PROOF_FRAME, handshake.answer(payload)))
        elif type == PROOF_FRAME and handshake is not None and connection.their_challenge:
            if connection.proven is None:
                self._proven(connection, handshake.check(payload, connection.their_challenge))
        elif type in (CHALLENGE_FRAME, PROOF_FRAME):
            if handshake is None and type == CHALLENGE_FRAME:
                self._refuse(connection, SECRET, "only one of the two brokers has a secret of the network")
            wrong = RemoteProtocolError(SECRET, "a challenge or proof that was not expected")
            self.network.broken(self.now(), connection.number, wrong)
        elif handshake is None or connection.proven or _is_refusal(payload):
            self.network.control(self.now(), connection.number, type, payload)
        elif connection.greeting:
            wrong = RemoteProtocolError("E_LINK_PROTOCOL", "more than a greeting before the proof of the secret")
            self.network.broken(self.now(), connection.number, wrong)
        else:
            connection.greeting = (type, payload)

    def _proven(self, connection: LinkConnection, proven: bool) -> None:
        """Only now what the peer said of itself is looked at."""
        connection.proven = proven
        if not proven:
            self._refuse(connection, SECRET, "the peer does not know the network's secret")
        elif connection.greeting:
            self.network.control(self.now(), connection.number, *connection.greeting)

    def _refuse(self, connection: LinkConnection, code: str, reason: str) -> None:
        self.network.step(self.now(), fx.Denied(connection.name, code, reason))

    def _judge(self, name: str) -> None:
        """Answer the machine's question once everything that is needed is there."""
        connection = self._connections.get(name)
        if connection is None or not connection.asked or (connection.handshake is not None and not connection.proven):
            return
        if self.settings.certificates:
            router = connection.asked
            expected = self.settings.certificate_names.get(router, f"broker-{router}")
            if connection.certificate_name() != expected:
                self._tell(fx.Denied(name, CERTIFICATE, f"router {router} must show the certificate {expected!r}"))
                return
        self._tell(fx.Authenticated(name))


def _is_refusal(payload: bytes) -> bool:
    """It may come from a peer that has no secret to prove itself with, and says so."""
    try:
        return isinstance(decode(payload), Refuse)
    except CodecError:
        return False
