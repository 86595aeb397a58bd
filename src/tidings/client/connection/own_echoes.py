"""Own publications that come back by own subscriptions.

The broker stops reading from a publisher while a subscription's backlog is full. If publisher and subscriber are one
client, on one connection, the subscription's credit stands behind the publications:

    client ──── publish publish publish CREDIT ───►│ broker does not read: the subscription's backlog is full,
           ◄─────────────────── deliveries ────────│ and the credit that would empty it is behind

The broker looks for such credit, but not without end; then, after `stall_ms`, it drops messages. So a client must not
fill the backlog of its own subscription: `publish` waits while more than `EXPOSED_BYTES_MAX` of what it sent there may
be in it. PONG tells what is not (`tidings.client.connection.progress`): if the subscription had credit left when the
broker read the PING, its backlog was empty. Credit granted and messages received are both counted here.

A publisher does not wait for itself: if it is the task or thread that took the subscription's latest message, it goes
on. Others wait at most `READER_SECONDS` without a message being taken, or `FIRST_READER_SECONDS` if none ever was.
Subscriptions with another policy than push-back delay nobody. Publications of other clients, which can fill the backlog
too, are not counted here.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar

from tidings.client.connection.reconnecting_connection import ReconnectingConnection
from tidings.client.connection.turnstile import Turnstile
from tidings.errors import UsageError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type_topics import ROOT
from tidings.model.values import Value

EXPOSED_BYTES_MAX = 256 << 10  # of own publications that may wait at the broker for an own subscription
WAITING_BYTES = 96  # that one takes there beside its own
READER_SECONDS, FIRST_READER_SECONDS = 10.0, 1.0
DESTINATIONS_MAX = 1000  # remembered with the subscriptions that they lead to

thread_of_caller: ContextVar[int] = ContextVar("thread_of_caller")  # of a blocking call


def caller() -> object:
    """The task or, of the blocking client, the thread that calls."""
    return thread_of_caller.get(0) or asyncio.current_task()


class OwnEcho:
    """The messages and credit of one subscription, as far as this client knows."""

    def __init__(self, fields: Mapping[str, Value], window: int, ask: Callable[[], None]) -> None:
        """`ask` writes a PING whose answer comes back to all echoes."""
        self.reader: object = None  # who took a message last
        self.taken = 0  # messages that were taken from the subscription
        self.idle = False  # it seems that nobody takes any more
        self.waiters = Turnstile(lambda: self.idle or self.exposed_bytes <= EXPOSED_BYTES_MAX)
        self._limited = window > 0
        self._ask = ask
        self.holds_up = fields["policy"] == "push-back" and not fields["no_local"]
        self._pattern = _pattern(fields)
        self._types = bool(fields["type"])
        self.begin(0)

    def begin(self, credit: int) -> None:
        """On a new connection."""
        self._granted, self._received = credit, 0
        self._sent_bytes = self._settled_bytes = 0
        self._asked = (0, credit)  # sent and granted, before the latest PING
        self.waiters.turn()

    @property
    def exposed_bytes(self) -> int:
        """Of own publications that may wait at the broker for credit."""
        return self._sent_bytes - self._settled_bytes

    def covers(self, destination: Destination) -> bool:
        """True if a message published there may come back by this subscription."""
        if self._types and destination.name.startswith(ROOT):
            return True
        return self._pattern is not None and self._pattern.matches(destination)

    def published(self, size: int) -> None:
        """A message of this size is about to be sent."""
        if self._sent_bytes - self._asked[0] > EXPOSED_BYTES_MAX // 4:
            self._ask()
        self._sent_bytes += size + WAITING_BYTES

    def granted(self, more: int) -> None:
        """Credit was sent."""
        self._granted += more
        if self.waiters.waiting:
            self._ask()

    def received(self) -> None:
        self._received += 1

    def took(self) -> None:
        """The user has one more."""
        self.taken += 1
        self.reader = caller()
        self.idle = False

    def stop(self) -> None:
        """Nobody is to wait for it."""
        self.idle = True
        self.waiters.turn()

    def asked(self) -> tuple[int, int]:
        """A PING is about to be sent: what to tell `answered` when the PONG comes."""
        self._asked = (self._sent_bytes, self._granted)
        return self._asked

    def answered(self, sent_bytes: int, granted: int) -> None:
        if not self._limited or granted > self._received:  # there was credit left: nothing waited for any
            self._settled_bytes = max(self._settled_bytes, sent_bytes)
            self.waiters.turn()

    async def room(self) -> None:
        """Wait for the readers, if there are any."""
        if self.idle or self.reader == caller():
            return
        if self._asked != (self._sent_bytes, self._granted):
            self._ask()
        while not self.idle and self.exposed_bytes > EXPOSED_BYTES_MAX:
            taken = self.taken
            try:
                async with asyncio.timeout(READER_SECONDS if taken else FIRST_READER_SECONDS):
                    await self.waiters.passed()
            except TimeoutError:
                if self.taken == taken:
                    self.stop()


class OwnEchoes:
    """Those of a client's subscriptions that may hold up its publications."""

    def __init__(self, line: ReconnectingConnection) -> None:
        self.all: dict[int, OwnEcho] = {}
        self.found: dict[str | Destination, list[OwnEcho]] = {}  # by what users call destinations, as far as known
        self._line = line
        self._transacted: dict[int, list[tuple[OwnEcho, int]]] = {}  # by session: bytes that come back with its commit

    def make(self, fields: Mapping[str, Value], window: int) -> OwnEcho:
        """For a new subscription."""
        return OwnEcho(fields, window, self._ask)

    def add(self, number: int, echo: OwnEcho) -> None:
        if echo.holds_up:
            self.all[number] = echo
            self.found.clear()

    def remove(self, number: int) -> None:
        echo = self.all.pop(number, None)
        if echo is not None:
            self.found.clear()
            echo.stop()

    def find(self, called: str | Destination, destination: Destination) -> list[OwnEcho]:
        """Those to which a message to this destination may come back."""
        if len(self.found) >= DESTINATIONS_MAX:
            self.found.clear()
        self.found[called] = found = [echo for echo in self.all.values() if echo.covers(destination)]
        return found

    async def room(self, echoes: Iterable[OwnEcho], size: int) -> None:
        """Return when a message that may come back to these can be sent, which it is then."""
        for echo in echoes:
            if echo.exposed_bytes > EXPOSED_BYTES_MAX:
                await echo.room()
            echo.published(size)

    def transacted(self, session: int, echoes: Iterable[OwnEcho], size: int) -> None:
        """A message is part of a transaction: it comes back when that is committed."""
        self._transacted.setdefault(session, []).extend((echo, size) for echo in echoes)

    def committing(self, session: int) -> None:
        """COMMIT was sent."""
        for echo, size in self._transacted.pop(session, ()):
            echo.published(size)

    def ended(self, session: int) -> None:
        self._transacted.pop(session, None)

    def _ask(self) -> None:
        link = self._line.link
        if link is None:
            return
        marks = [(echo, *echo.asked()) for echo in self.all.values()]

        def answered() -> None:
            for echo, sent_bytes, granted in marks:
                echo.answered(sent_bytes, granted)

        link.ping(answered)


def _pattern(fields: Mapping[str, Value]) -> DestinationPattern | None:
    try:
        return DestinationPattern.parse(str(fields["destination"]))
    except UsageError:  # there is none, or the broker will say what is wrong with it
        return None
