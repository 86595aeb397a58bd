"""The sockets and timers of a broker's links: carries out what the engine asks for other brokers.

Links have a port of their own, apart from clients'. A peer is let in only if it proves itself: by the network's secret
(node/network/link_sessions.py), by a certificate of the name that belongs to its router number, or by both. Links that
need neither, on a machine or network of one's own, must be configured so (`insecure`).
"""

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from tidings.broker.connections.connection_limits import ConnectionLimits
from tidings.broker.connections.listener import Listener, TlsHandshakes
from tidings.broker.connections.output_flush import OutputFlush
from tidings.broker.links.dialer import dial
from tidings.broker.links.link_batching import LinkBatching
from tidings.broker.links.link_connection import LinkConnection, code_of
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.security.tls_failures import TlsFailures
from tidings.errors import UsageError
from tidings.kernel.clock import now_ms
from tidings.kernel.forwarder import Flag, Forwarder
from tidings.node.effects import LinkEffect
from tidings.node.inputs import Input, LinkOpened, LinksReady, PeersChanged, PlaneReady, StopLinks
from tidings.node.network.link_secret import CHALLENGE_BYTES
from tidings.node.network.settings import NetworkSettings
from tidings.overlay import effects as fx
from tidings.overlay.link.machine import CERTIFICATE, TLS

log = logging.getLogger("tidings.links")

HAS_EVENTS = int(Flag.EVENTS)
WRITE_BYTES = 256 << 10
SECRET_BYTES_MIN = 16
GATHER_MS = 10.0
HANDSHAKE_SECONDS = 10.0  # with TLS: before anything is said
HANDSHAKES_MAX = (1024, 128)  # at a time: in all, and of one address


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of links: the listening address, and how peers are authenticated."""

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
    batching: bool = True  # False: always the short wait
    insecure: bool = False  # let everybody in who can reach the port
    address: str = ""  # host:port where other brokers reach this one, if it is not host and port

    def __post_init__(self) -> None:
        if self.secret and len(self.secret) < SECRET_BYTES_MIN:
            raise UsageError("E_LINK_SECRET", f"a secret has at least {SECRET_BYTES_MIN} bytes")
        if self.certificates and (self.tls_dial is None or (self.port is not None and self.tls_accept is None)):
            raise UsageError("E_LINK_TLS", "certificates need TLS for links")
        if not (self.secret or self.certificates or self.insecure):
            raise UsageError("E_LINK_OPEN", "links need a secret or certificates, or the word that they need none")


@dataclass(frozen=True, slots=True)
class Peers:
    """The network that a broker is part of, and how its links are made."""

    network: NetworkSettings
    links: LinkSettings


@dataclass(frozen=True, slots=True)
class LinkServices:
    """The parts of the broker that links use."""

    forwarder: Forwarder
    flushing: OutputFlush
    step: Callable[[Input], None]  # an input for the engine
    steady_ms: Callable[[], float]  # the time of links, which never goes back
    after: Callable[[], None]  # follow up what was just done
    failed: TlsFailures
    lines: LogRateLimit


class BrokerLinks:
    def __init__(self, services: LinkServices, settings: LinkSettings) -> None:
        self.settings, self.services = settings, services
        self.buffer = services.forwarder.buffer
        self.port = 0
        self._forwarder, self._flushing = services.forwarder, services.flushing
        self._connections: dict[str, LinkConnection] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._dialling: dict[str, asyncio.Task[None]] = {}
        self._door: Listener | None = None
        self._accepted = 0
        self._started = False

    def batching(self) -> LinkBatching:
        """Decides about the waits of one link."""
        return LinkBatching(self.settings.gather_ms, enabled=self.settings.batching)

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._loop, address = asyncio.get_running_loop(), ""
        if self.settings.port is not None:
            self._door = await self._open(self.settings.host, self.settings.port)
            self.port = self._door.port
            address = self.settings.address or f"{self.settings.host}:{self.port}"
        self._started = True
        self._tell(LinksReady(address))

    async def _open(self, host: str, port: int) -> Listener:
        handshakes = TlsHandshakes(
            ConnectionLimits(lambda: HANDSHAKES_MAX), self.services.failed, lambda: HANDSHAKE_SECONDS
        )
        door = Listener(host, port, self._accept, handshakes, self.settings.tls_accept)
        await door.open()
        return door

    def renew(self, settings: LinkSettings) -> None:
        """Certificates count for links that are made from now on; those that exist stay, and links without TLS stay
        without. What is configured of single peers applies at once."""
        self.settings = replace(
            self.settings,
            certificate_names=settings.certificate_names,
            delays_ms=settings.delays_ms,
            bandwidths_bytes_s=settings.bandwidths_bytes_s,
        )
        if self.settings.tls_dial is None or settings.tls_dial is None:
            return
        self.settings = replace(self.settings, tls_accept=settings.tls_accept, tls_dial=settings.tls_dial)
        if self._door is not None and settings.tls_accept is not None:
            self._door.renew(settings.tls_accept)

    def change_peers(self, network: NetworkSettings) -> None:
        """Dial those that the configuration names now, and those only."""
        self._tell(PeersChanged(network.dials, network.costs))

    async def stop(self) -> None:
        if not self._started:
            return
        if self._door is not None:
            self._door.close()
        self._tell(StopLinks("shutting down"))
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
        return LinkConnection(self, f"from:{self._accepted}")

    def opened(self, connection: LinkConnection) -> None:
        dialled = connection.name.startswith("to:")
        if dialled and connection.attempt is not self._dialling.get(connection.name):
            connection.give_up()  # it was made in the very turn in which the attempt was given up
            return
        if not dialled:
            connection.name = f"from:{connection.address()}/{connection.name.removeprefix('from:')}"
        connection.number = number = self._forwarder.open()
        self._connections[connection.name] = self._flushing.ends[number] = connection
        challenge = secrets.token_bytes(CHALLENGE_BYTES) if self.settings.secret else b""
        self._tell(LinkOpened(connection.name, number, dialled, challenge))

    def delay_ms(self, connection: LinkConnection) -> float:
        """Artificial delay of output on this connection, once its peer is known."""
        return self.settings.delays_ms.get(connection.router, 0.0) if self.settings.delays_ms else 0.0

    def received(self, connection: LinkConnection, size: int) -> None:
        connection.received_bytes += size
        if self._forwarder.feed(connection.number, size, now_ms()) & HAS_EVENTS:
            self._tell(PlaneReady())
        else:
            self._flushing.soon()

    def set_writable(self, connection: LinkConnection, writable: bool) -> None:
        self._forwarder.set_writable(connection.number, writable)
        if writable:
            self._flushing.soon()

    def lost(self, connection: LinkConnection, reason: str, code: str = "") -> None:
        if self._connections.get(connection.name) is connection:
            self._tell(fx.Lost(connection.name, reason, code=code))
            self._drop(connection)

    def met_tls(self, connection: LinkConnection) -> None:
        """The peer begins with TLS on a link without."""
        self.lost(connection, "the peer speaks TLS, this broker's links do not", TLS)
        connection.abort()

    def _drop(self, connection: LinkConnection) -> None:
        if self._connections.pop(connection.name, None) is not None:
            del self._flushing.ends[connection.number]
            self._forwarder.close(connection.number)
            connection.number = -1

    def _tell(self, told: Input) -> None:
        self.services.step(told)
        self.services.after()

    # --- called by the broker -------------------------------------------------------------------------------------

    def bandwidth_bytes_s(self, router: int) -> int:
        """Configured bandwidth of the link in each direction; 0: not configured."""
        return self.settings.bandwidths_bytes_s.get(router, 0)

    def traffic(self, name: str) -> tuple[int, int]:
        """Bytes sent and received since this connection was made."""
        connection = self._connections.get(name)
        return (0, 0) if connection is None else (connection.sent_bytes, connection.received_bytes)

    def carry_out(self, effect: LinkEffect) -> None:
        match effect:
            case fx.Dial(connection=name, address=address):
                self._dialling[name] = self._loop.create_task(self._dial(name, address))
            case fx.CloseLink(connection=name, reason=reason):
                self._close(name, reason)
            case fx.SetTimer(name=name, at=at):
                self._set_timer(name, at)
            case fx.Authenticate(connection=name, router=router):
                if name in self._connections:
                    self._connections[name].router = router
                    self._loop.call_soon(self._judge, name)
            case fx.Report():
                self._report(effect)
            case _:
                assert_never(effect)

    def _report(self, told: fx.Report) -> None:
        level = logging.WARNING if told.code.startswith("E_") else logging.INFO
        if not told.stranger or self.services.lines.allows(log, level, "link refused", ""):
            log.log(level, "%s: %s", told.code, told.reason)

    # --- effects --------------------------------------------------------------------------------------------------

    async def _dial(self, name: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        tls = self.settings.tls_dial
        connection = LinkConnection(self, name)
        connection.attempt = asyncio.current_task()
        try:
            await dial(lambda: connection, host.strip("[]"), int(port), tls)
        except asyncio.CancelledError:
            connection.give_up()
            self.lost(connection, "given up")
            raise
        except Exception as error:  # of any kind: without a report the link would not be dialled again
            if not isinstance(error, OSError | ValueError):  # all that TLS complains of is one, too
                log.exception("internal error while dialling %s", address)
            self._tell(fx.Lost(name, str(error), isinstance(error, ConnectionRefusedError), code_of(error)))
        finally:
            if self._dialling.get(name) is connection.attempt:  # not if it is being dialled again
                del self._dialling[name]

    def _close(self, name: str, reason: str) -> None:
        task = self._dialling.pop(name, None)
        connection = self._connections.get(name)
        if connection is not None:
            log.debug("closing %s: %s", name, reason)
            while data := self._forwarder.take(connection.number, WRITE_BYTES, now_ms()):
                connection.write(data)
            self._drop(connection)
            connection.close()
        elif task is not None:
            task.cancel()

    def _set_timer(self, name: str, at: float) -> None:
        old = self._timers.pop(name, None)
        if old is not None:
            old.cancel()
        self._timers[name] = self._loop.call_later(
            max(0.0, at - self.services.steady_ms()) / 1000 + 0.0005, self._ring, name, at
        )

    def _ring(self, name: str, at: float) -> None:
        if self.services.steady_ms() < at:  # never early
            self._set_timer(name, at)
            return
        self._timers.pop(name, None)
        for connection in [one for one in self._connections if name == f"link {one.partition('#')[0]}"]:
            self.services.step(fx.Carried(connection, *self.traffic(connection)))
        self._tell(fx.Timer(name))

    def _judge(self, name: str) -> None:
        """Check that the peer's certificate has the expected name, where certificates are required."""
        connection = self._connections.get(name)
        if connection is None:
            return
        if self.settings.certificates:
            router = connection.router
            expected = self.settings.certificate_names.get(router, f"broker-{router}")
            if connection.certificate_name() != expected:
                self._tell(fx.Denied(name, CERTIFICATE, f"router {router} must show the certificate {expected!r}"))
                return
        self._tell(fx.Authenticated(name))


class NoLinks:
    """Of a broker that stands alone: there is nothing to do."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def carry_out(self, effect: LinkEffect) -> None:
        raise AssertionError(f"a broker without a network has links: {effect}")

    def bandwidth_bytes_s(self, router: int) -> int:
        return 0

    def traffic(self, name: str) -> tuple[int, int]:
        return 0, 0
