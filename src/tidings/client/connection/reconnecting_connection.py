"""A client's connection to its broker, reconnected after a loss until the client is closed or gives up.

With several addresses an attempt goes round all of them, beginning with the one that was connected last. A broker may
name others at login; they come after the client's own.

    (new) ──open──► connected ──lost──► reconnecting, with growing pauses ──► connected ...
                        │                   │
                        └──────close────────┴──refused, or it took too long──► closed

The owner is notified through `Handlers` and restores its state on each new connection.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

from tidings.client.async_errors import AsyncErrors
from tidings.client.broker_url import ADDRESSES_MAX, BrokerAddress, parse_url
from tidings.client.connection.answers import LATER_CODES, again, error_of
from tidings.client.connection.transport import CLOSE_SECONDS, Transport
from tidings.client.message_builder import now_ms
from tidings.client.options import ConnectOptions
from tidings.errors import ConnectionLostError, SecurityError, TidingsError, UsageError
from tidings.model.message_id import MessageIdSource
from tidings.model.values import Value
from tidings.protocols.native.frames import VERSION, FrameType, RawFrame, control, decode_fields, field, unsigned

log = logging.getLogger("tidings.client")
LAST_TRY_SECONDS = 0.1  # for a connection, however soon the client is to give up
PAUSE_SECONDS_MAX, LIST_PAUSE_SECONDS_MAX = 2.0, 0.5  # between attempts, of one address and of several
RECEIVED_BYTES_MORE = 64 << 10


@dataclass(frozen=True, slots=True)
class Handlers:
    received: Callable[[RawFrame], None]
    made: Callable[[Transport], None]  # a connection, on which nothing was said yet
    writable: Callable[[], None]  # the broker takes more again
    lost: Callable[[Transport, TidingsError], None]  # it is gone: why
    over: Callable[[TidingsError], None]  # there will be no other: why


@dataclass(frozen=True, slots=True)
class OtherConnection:
    """A connection on which a broker has let the client in."""

    address: BrokerAddress
    link: Transport
    ids: MessageIdSource
    frame_bytes_max: int
    heartbeat_ms: int
    token: str
    brokers: str


def _is_final(failure: Exception) -> TypeGuard[SecurityError]:
    """True if trying again, or elsewhere, would fail too."""
    return isinstance(failure, SecurityError) and failure.code not in LATER_CODES


class ReconnectingConnection:
    def __init__(self, options: ConnectOptions, unheard: AsyncErrors, handlers: Handlers) -> None:
        self.generation = 0  # counts connections
        self.link: Transport | None = None
        self.ids: MessageIdSource | None = None
        self.frame_bytes_max = 1 << 20
        self.closed: TidingsError | None = None  # why
        self._options = options
        self._tokens: dict[BrokerAddress, str] = {}  # to log in again, by the broker that gave them
        self._places = options.addresses  # and those that the broker named
        self._next_address = 0  # of these: the one to try first
        self._unheard = unheard
        self._handlers = handlers
        self._loop: asyncio.AbstractEventLoop | None = None  # on which it is connected
        self._ready = asyncio.Event()
        self._started = False
        self._reconnecting: asyncio.Task[None] | None = None
        self._refused: TidingsError | None = None  # why the broker will not have us: no use in coming back
        self._farewell: ConnectionLostError | None = None  # why the broker is about to end the connection

    @property
    def connected(self) -> bool:
        return self.link is not None

    # --- use ------------------------------------------------------------------------------------------------------

    async def ready(self) -> MessageIdSource:
        """Return when there is a connection."""
        self.check_loop()
        while self.link is None:
            self.check_open()
            if not self._started:
                raise UsageError("E_NOT_CONNECTED", "connect first: `async with client:`, or `await client`")
            self._ready.clear()
            await self._ready.wait()
        self.check_open()
        assert self.ids is not None
        return self.ids

    def check_loop(self) -> None:
        if self.closed is None and self._loop not in (None, asyncio.get_running_loop()):
            raise UsageError(
                "E_EVENT_LOOP", "the client was connected on another event loop and can be used only there"
            )

    def check_open(self) -> None:
        if self.closed is not None:
            raise again(self.closed)

    def write(self, frame: bytes) -> None:
        if self.link is not None:
            self.link.write(frame)

    # --- what the broker says of it -------------------------------------------------------------------------------

    def refused(self, error: TidingsError) -> None:
        """The broker refused the connection for good."""
        self._refused = error

    def farewell(self, said: TidingsError) -> None:
        """The broker is about to close the connection."""
        self._farewell = ConnectionLostError(said.code, said.reason)
        self._unheard.note(self._farewell)

    # --- life -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        if self._started and self.closed is None:
            return  # connected, or reconnecting
        self._started, self.closed, self._refused = True, None, None
        self._loop = asyncio.get_running_loop()
        try:
            await self._connect(self._options.connect_seconds)
        except BaseException:
            self._started = False
            self._ready.set()  # wakes waiting calls, which then fail
            raise

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """`seconds`: for what is written already."""
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.wait([self._reconnecting])  # it may have a connection to close
        self._give_up(ConnectionLostError("E_CLOSED", "the client is closed"))
        link, self.link = self.link, None
        if link is not None:
            link.write(control(FrameType.CLOSE, {}))
            await link.close(seconds)

    def forked(self) -> None:
        """In a child process: the connection is the parent's, and nothing may be said on it."""
        self.link = None
        self._give_up(
            ConnectionLostError("E_FORKED", "the client belongs to the parent process: connect again after a fork")
        )

    async def _connect(self, seconds: float) -> None:
        """Try each address in turn, `seconds` in all. Raises the failure of the last, or one that is final."""
        addresses, deadline = self._places, time.monotonic() + seconds
        for left in range(len(addresses), 0, -1):
            try:
                share = max(deadline - time.monotonic(), LAST_TRY_SECONDS) / left
                await self._connect_to(addresses[self._next_address], share)
                return
            except (OSError, TidingsError) as failure:
                self._next_address = (self._next_address + 1) % len(addresses)
                if left == 1 or _is_final(failure):
                    raise

    async def _connect_to(self, address: BrokerAddress, seconds: float) -> None:
        self.use(await self.greet(address, seconds))

    async def greet(self, address: BrokerAddress, seconds: float) -> "OtherConnection":
        """Connect to a broker and log in; the connection is another one than the client's."""
        options = self._options
        link = await Transport.open(address.host, address.port, options.tls, seconds)
        hello: dict[str, Value] = {
            "version": VERSION,
            "user": options.user,
            "password": options.password,
            "client": options.client_id,
            "heartbeat_ms": options.heartbeat_ms,
            "time_ms": now_ms(),
            "token": self._tokens.get(address, ""),
        }
        try:
            frame = await link.greet(control(FrameType.HELLO, hello), seconds)
            fields = decode_fields(frame.payload)
            if frame.type != FrameType.WELCOME:
                raise error_of(fields)
            publisher, broker = unsigned(fields, "publisher"), unsigned(fields, "broker")
            return OtherConnection(
                address,
                link,
                MessageIdSource(publisher, broker, field(fields, "delta_ms", int)),
                unsigned(fields, "frame_max") or 1 << 20,
                unsigned(fields, "heartbeat_ms"),
                field(fields, "token", str),
                field(fields, "brokers", str),
            )
        except BaseException:
            await link.close()
            raise

    def _learn(self, here: BrokerAddress, named: str) -> None:
        """The broker at this address has named others."""
        with suppress(UsageError):
            others = parse_url(named).addresses if named else ()
            self._places = tuple(dict.fromkeys((*self._options.addresses, here, *others)))[:ADDRESSES_MAX]
            self._next_address = self._places.index(here) if here in self._places else 0

    def use(self, welcome: "OtherConnection") -> Transport | None:
        """This is the client's connection from now on; returns the one before."""
        before, link = self.link, welcome.link
        self.ids, self.frame_bytes_max = welcome.ids, welcome.frame_bytes_max
        self._tokens[welcome.address] = welcome.token
        self._learn(welcome.address, welcome.brokers)
        # The limit is for what is published. What comes may be longer: a dead letter says where it has been, and what
        # fitted into another protocol's frame need not fit into one of ours.
        link.payload_bytes_max = 2 * self.frame_bytes_max + RECEIVED_BYTES_MORE
        self.generation += 1
        self.link = link
        if before is not None:
            self._handlers.lost(before, ConnectionLostError("E_MOVED", "the client has moved to another broker"))
        link.start(self._handlers.received, partial(self._lost, link), self._handlers.writable, welcome.heartbeat_ms)
        self._handlers.made(link)
        self._ready.set()
        return before

    def _lost(self, link: Transport, cause: Exception | None) -> None:
        if self.link is not link:  # it was left before
            return
        self.link = None
        if isinstance(cause, TidingsError) and not isinstance(cause, ConnectionLostError):
            self._unheard.note(cause.alone())  # what came was no frame, or none we could take
        lost = ConnectionLostError("E_CONNECTION_LOST", str(cause or "the broker closed the connection"))
        error: TidingsError = self._refused or self._farewell or lost
        if self._farewell is not None:  # the broker stops, or sends its clients elsewhere
            self._next_address = (self._next_address + 1) % len(self._places)
        self._farewell = None
        self._handlers.lost(link, error)
        if self._options.reconnect and self.closed is None and self._refused is None:
            self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(error))
        else:
            self._give_up(error)

    async def _reconnect(self, error: TidingsError) -> None:
        deadline = time.monotonic() + self._options.give_up_seconds
        pause = 0.05
        while self.closed is None:
            left = deadline - time.monotonic()
            await asyncio.sleep(min(pause * (0.5 + random.random()), max(left, 0)))
            left = deadline - time.monotonic()
            try:
                await self._connect(min(self._options.connect_seconds, max(left, LAST_TRY_SECONDS)))
                return
            except (OSError, TidingsError) as failure:
                if _is_final(failure):
                    self._give_up(failure)
                elif time.monotonic() > deadline:
                    self._give_up(ConnectionLostError(error.code, f"{error.reason}; reconnecting failed: {failure}"))
            except Exception as failure:  # a retry would fail again, and waiting calls must not hang
                log.exception("reconnecting failed")
                self._give_up(ConnectionLostError("E_RECONNECT", f"{error.reason}; reconnecting failed: {failure!r}"))
            pause = min(pause * 2, PAUSE_SECONDS_MAX if len(self._places) == 1 else LIST_PAUSE_SECONDS_MAX)

    def _give_up(self, error: TidingsError) -> None:
        self.closed = error
        self._handlers.over(error)
        self._ready.set()
