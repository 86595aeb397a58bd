"""One link to another broker as a state machine.

`TRANSITIONS` (link_table.py) is the whole machine: state × trigger → state. Inputs of the driver and messages of the
peer are judged first and become triggers; the table then says what state follows, and a trigger it does not list is
a mistake of the driver.

A link that dials (it has an address) tries again after it went down, waiting twice as long each time, up to a
maximum, and each time a random part less, so that brokers that lost a common peer do not return in step. A peer may
have several addresses, of processes that stand in for each other: they are tried in turn, and the wait grows by the
round. A link that was accepted ends when it goes down.

The peer is alive as long as it answers pings: that proves both directions, where merely hearing it would not. But a
long message, or many on a slow link, go before a ping or its answer. While so much is on its way (`BULK_BYTES`) that
this may be why there is none, hearing the peer is enough: if it does not hear us, it is the peer that hangs up.
Latency is half the smoothed round trip (Jacobson 1988: an eighth of each new sample).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from random import Random
from typing import assert_never

from tidings.errors import UsageError
from tidings.overlay import effects as fx
from tidings.overlay.effects import LinkEffect
from tidings.overlay.link.greeting import (
    Goodbye,
    Greeting,
    LinkPing,
    Pong,
    Refuse,
    Welcome,
    check,
    shortcomings,
)
from tidings.overlay.link.link_table import LIVE, TRANSITIONS, LinkState, Trigger

NUMBER = "E_LINK_NUMBER"  # a broker was refused since another one has its number
SECRET, CERTIFICATE, TLS = "E_LINK_SECRET", "E_LINK_CERTIFICATE", "E_LINK_TLS"  # a peer cannot prove itself
# What only an operator can mend: brokers that were not set up for each other.
MISFITS = frozenset(
    {
        "E_LINK_VERSION",
        "E_LINK_NETWORK",
        "E_LINK_SELF",
        "E_LINK_IDENTITY",
        "E_LINK_PARAMETER",
        SECRET,
        CERTIFICATE,
        TLS,
    }
)
SHOWN_MAX = 200  # characters of what a peer says, in a report
SEVERAL_BACKOFF_MAX_MS = 2000.0  # the longest wait of a link with several addresses
BULK_BYTES = 4096  # both ways, since the last ping that was answered; heartbeats alone are far less


@dataclass(frozen=True, slots=True)
class LinkOptions:
    heartbeat_ms: float = 1000
    suspect_ms: float = 2500
    dead_ms: float = 6000
    handshake_ms: float = 5000  # for connecting, and again for greeting
    backoff_first_ms: float = 200
    backoff_max_ms: float = 30_000
    backoff_jitter: float = 0.5  # the random part of each wait, 0 to 1
    latency_step: float = 0.25  # a change of latency by this share is worth telling
    latency_step_ms: float = 0.5  # … and by at least this much: on short links noise would move routes


class Link:
    """`greeting` is what this broker says of itself; `address` is where to dial (several are divided by commas), None
    for an accepted link."""

    def __init__(
        self,
        name: str,
        greeting: Greeting,
        options: LinkOptions,
        rng: Random,
        address: str | None = None,
        expected: int | None = None,
        attempts: Iterator[int] | None = None,
    ) -> None:
        self.name, self.address, self.expected = name, address, expected
        self.options = options
        self.state = LinkState.DOWN
        self.connection = ""  # of the present attempt
        self.peer: Greeting | None = None
        self.latency_ms: float | None = None
        self._greeting = replace(greeting, dial=0)
        self._rng = rng
        self._attempts = attempts or count(1)  # shared by all links of a broker, so that each has its own number
        self._failures = 0
        self._places = [] if address is None else address.split(",")
        self._turn = 0  # of these
        self.admitted = self._welcomed = False
        self._due: dict[str, float] = {}  # deadlines by purpose: one timer serves them all
        self._armed: float | None = None
        self._asked_at = self._answered_at = 0.0
        self._proved_at = -inf  # when that ping went out which was answered last
        self._up_at = self._heard_at = 0.0
        self._carried = fx.Carried("", 0, 0)
        self._proved_bytes = 0  # were carried when that ping went out
        self._pings: deque[tuple[float, int]] = deque()  # not answered: when they went out, and bytes carried by then
        self._latency_told_ms = 0.0

    @property
    def dialled(self) -> bool:
        return self.address is not None

    @property
    def _stranger(self) -> bool:
        return not (self.dialled or self.admitted)

    @property
    def dial(self) -> int:
        """The number of the attempt, as the dialling side counts them."""
        return self._greeting.dial if self.dialled else self.peer.dial if self.peer else 0

    @property
    def due_at(self) -> float | None:
        """The next deadline; the timer rings then or before."""
        return min(self._due.values(), default=None)

    # The doors: each returns effects.

    def start(self, now: float) -> list[LinkEffect]:
        assert self.address is not None, "an accepted link does not dial"
        self._move(Trigger.START)
        self._greeting = replace(self._greeting, dial=next(self._attempts))
        self.connection = f"{self.name}#{self._greeting.dial}"
        self._asked_at = now
        self._due = {"handshake": now + self.options.handshake_ms}
        return self._done([fx.Dial(self.connection, self._places[self._turn])])

    def accept(self, now: float) -> list[LinkEffect]:
        self._move(Trigger.ACCEPT)
        self.connection = self.name
        return self._done(self._greet(now))

    def admit(self, now: float) -> list[LinkEffect]:
        """The peer was authenticated and is no duplicate."""
        assert self.state is LinkState.GREETING, self.state
        assert self.peer is not None
        self.admitted = True
        return self._done([fx.Transmit(self.connection, Welcome()), *self._maybe_up(now)])

    def refuse(self, now: float, refusal: Refuse) -> list[LinkEffect]:
        """End the link and tell the peer why."""
        out: list[LinkEffect] = [fx.Transmit(self.connection, refusal), fx.CloseLink(self.connection, refusal.code)]
        if refusal.code in MISFITS:
            out.append(fx.Report(refusal.code, f"refused {self.name}: {_shown(refusal.reason)}", self._stranger))
        return self._done([*out, *self._fall(now, Trigger.REFUSED, f"{refusal.code}: {refusal.reason}")])

    def hasten(self, now: float) -> list[LinkEffect]:
        """However long the wait for the next dial was to be: no longer than the first such wait."""
        if self.state is not LinkState.DOWN or "dial" not in self._due:
            return []
        self._due["dial"] = min(self._due["dial"], now + self.options.backoff_first_ms)
        self._armed = None
        return self._done([])

    def stop(self, now: float, reason: str) -> list[LinkEffect]:
        out: list[LinkEffect] = []
        if self.state in LIVE:
            out.append(fx.Transmit(self.connection, Goodbye(reason)))
        if self.state is LinkState.CLOSED:
            return []
        if self.state is not LinkState.DOWN:
            out.append(fx.CloseLink(self.connection, reason))
        return out + self._fall(now, Trigger.STOP, reason)

    def ping(self, now: float) -> list[LinkEffect]:
        """Ask now whether the peer is there, if the link is live."""
        return [self._ping(now)] if self.state in LIVE else []

    def asked_and_answered(self, since: float) -> bool:
        """Reports whether the peer has answered what it was asked at this time or later."""
        return self.state is LinkState.UP and self._proved_at >= since - 0.001  # pings tell whole microseconds

    def step(self, now: float, told: fx.Input) -> list[LinkEffect]:
        match told:
            case fx.Timer():
                self._armed = None
                return self._done(list(self._tick(now)))
            case fx.Authenticated() | fx.Denied() | fx.LinkAccepted():
                raise UsageError("E_LINK_STATE", f"{type(told).__name__} must go to the owner of link {self.name}")
            case _ if told.connection != self.connection or self.state in (LinkState.DOWN, LinkState.CLOSED):
                return []  # an echo of an attempt that is over
            case fx.Connected():
                self._move(Trigger.CONNECTED)
                return self._done(self._greet(now))
            case fx.Lost(reason=reason, refused=refused, code=code):
                there = [fx.NobodyThere(self.address)] if refused and self.address else []
                shown = code if code in MISFITS else "LINK_DOWN"
                return self._done([*self._fall(now, Trigger.LOST, reason, shown), *there])
            case fx.Carried():
                return self._carries(now, told)
            case fx.Received(message=message):
                return self._hear(now, message)
            case _:
                assert_never(told)

    # Messages of the peer.

    def _hear(self, now: float, message: fx.ControlMessage) -> list[LinkEffect]:
        live = self.state in LIVE
        match message:
            case Greeting() if self.state is LinkState.GREETING and self.peer is None:
                return self._greeted(now, message)
            case Welcome() if self.state is LinkState.GREETING and self.peer is not None and not self._welcomed:
                self._welcomed = True
                return self._done(self._maybe_up(now))
            case Refuse():
                return self._refused(now, message)
            case Goodbye():
                out: list[LinkEffect] = [fx.CloseLink(self.connection, "goodbye")]
                reason = "goodbye" if self._stranger else f"goodbye: {message.reason}"
                return self._done(out + self._fall(now, Trigger.LOST, reason))
            case LinkPing() if live:
                return [fx.Transmit(self.connection, Pong(message.sent_us))]
            case Pong() if live:
                return self._done(self._answered(now, message))
            case Greeting() | Welcome() | LinkPing() | Pong():
                pass
            case _ if live:
                assert self.peer is not None
                return [fx.Arrived(self.peer.router, message)]
        wrong = f"unexpected {type(message).__name__} while {self.state.value}"
        return self.refuse(now, Refuse("E_LINK_PROTOCOL", wrong))

    def _refused(self, now: float, refusal: Refuse) -> list[LinkEffect]:
        """Whom this broker dialled may say why not. Of who came in, and may be anybody, only a known code counts: its
        words could pretend to be advice."""
        out: list[LinkEffect] = [fx.CloseLink(self.connection, refusal.code)]
        told = refusal.code == NUMBER or refusal.code in MISFITS
        if self._stranger:
            code = refusal.code if told else "LINK_DOWN"
            return self._done(out + self._fall(now, Trigger.REFUSED, "the peer refused", code))
        if told:
            out.append(fx.Report(refusal.code, f"refused at {self.address or self.name}: {_shown(refusal.reason)}"))
        return self._done(out + self._fall(now, Trigger.REFUSED, f"{refusal.code}: {refusal.reason}"))

    def _greeted(self, now: float, theirs: Greeting) -> list[LinkEffect]:
        refusal = check(self._greeting, theirs, self.expected)
        if refusal is not None:
            return self.refuse(now, refusal)
        self.peer = theirs
        if not self.dialled:
            self._sample(now - self._asked_at)
        return [fx.Authenticate(self.connection, theirs.router)]

    def _answered(self, now: float, pong: Pong) -> list[LinkEffect]:
        round_trip_ms = now - pong.sent_us / 1000
        if not -0.001 <= round_trip_ms <= max(self.options.dead_ms, now - self._up_at):
            return []  # not one of our pings: it proves nothing
        assert self.peer is not None
        self._move(Trigger.ANSWERED)
        self._answered_at, self._proved_at = now, max(self._proved_at, pong.sent_us / 1000)
        while self._pings and self._pings[0][0] <= self._proved_at + 0.001:  # pings tell whole microseconds
            _, self._proved_bytes = self._pings.popleft()
        self._sample(max(0.0, round_trip_ms))
        self._watch()
        latency = self.latency_ms
        assert latency is not None
        step = max(self.options.latency_step * self._latency_told_ms, self.options.latency_step_ms)
        if abs(latency - self._latency_told_ms) <= step:
            return []
        self._latency_told_ms = latency
        return [fx.LatencyChanged(self.peer.router, latency)]

    def _carries(self, now: float, told: fx.Carried) -> list[LinkEffect]:
        if told.received_bytes > self._carried.received_bytes:
            self._heard_at = now
        self._carried = told
        unproved_bytes = told.sent_bytes + told.received_bytes - self._proved_bytes
        if self.state in LIVE and unproved_bytes >= BULK_BYTES:
            self._due["dead"] = max(self._due["dead"], self._heard_at + self.options.dead_ms)
        return []

    # States and deadlines.

    def _move(self, trigger: Trigger) -> None:
        try:
            self.state = TRANSITIONS[self.state][trigger]
        except KeyError:
            raise UsageError("E_LINK_STATE", f"link {self.name} is {self.state.value}, got {trigger.value}") from None

    def _greet(self, now: float) -> list[LinkEffect]:
        if self.dialled:
            self._sample(now - self._asked_at)  # connecting took one round trip
        self._asked_at = now
        self._due = {"handshake": now + self.options.handshake_ms}
        return [fx.Transmit(self.connection, self._greeting)]

    def _maybe_up(self, now: float) -> list[LinkEffect]:
        if not (self._welcomed and self.admitted):
            return []
        assert self.peer is not None
        assert self.latency_ms is not None
        self._move(Trigger.AGREED)
        self._failures = 0
        self._answered_at, self._proved_at = now, -inf
        self._up_at = self._heard_at = now
        self._carried, self._proved_bytes = fx.Carried(self.connection, 0, 0), 0
        self._pings.clear()
        self._latency_told_ms = self.latency_ms
        self._due = {"ping": now}
        self._watch()
        up = fx.LinkUp(self.peer.router, self.peer.incarnation, self.latency_ms)
        reports = [fx.Report("E_LINK_DIFFERS", _shown(text)) for text in shortcomings(self._greeting, self.peer)]
        return [up, *reports, *self._tick(now)]

    def _fall(self, now: float, trigger: Trigger, reason: str, code: str = "LINK_DOWN") -> list[LinkEffect]:
        """Leave for DOWN or CLOSED; what was known of the peer's state is forgotten."""
        was_live, stranger = self.state in LIVE, self._stranger
        self._move(trigger)
        silent = trigger is Trigger.TIMEOUT
        reason = _shown(reason)
        down: list[LinkEffect] = [fx.LinkDown(self.peer.router, reason, silent)] if was_live and self.peer else []
        self._due = {}
        if self.dialled and self.state is LinkState.DOWN:
            self._due["dial"] = now + self._backoff(trigger)
            if not was_live:
                self._turn = (self._turn + 1) % len(self._places)
        self.latency_ms = None
        self.admitted = self._welcomed = False
        if not was_live:
            down.append(fx.Report(code, f"link {self.name}: {reason}", stranger))
        self.peer = None
        return down

    def _backoff(self, trigger: Trigger) -> float:
        """A refusal will not change in a moment; everything else may."""
        options, places = self.options, len(self._places)
        wait = options.backoff_max_ms
        if trigger is not Trigger.REFUSED:
            wait = min(wait, options.backoff_first_ms * 2.0 ** min(self._failures // places, 32))
            if places > 1:  # one of them may take over at any moment
                wait = min(wait, SEVERAL_BACKOFF_MAX_MS)
            self._failures += 1
        return wait * (1 - options.backoff_jitter * self._rng.random())

    def _watch(self) -> None:
        options = self.options
        if self.state is LinkState.UP:
            self._due["quiet"] = self._answered_at + options.suspect_ms
        self._due["dead"] = self._answered_at + options.dead_ms

    def _tick(self, now: float) -> Iterator[LinkEffect]:
        due = {purpose for purpose, at in self._due.items() if at <= now}
        if "dial" in due:
            yield from self.start(now)
        elif "handshake" in due or "dead" in due:
            yield fx.CloseLink(self.connection, "timeout")
            if self.state is LinkState.UP:  # the timer was so late that both deadlines passed
                self._move(Trigger.QUIET)
            yield from self._fall(now, Trigger.TIMEOUT, f"no progress while {self.state.value}")
        else:
            if "quiet" in due:
                self._move(Trigger.QUIET)
                del self._due["quiet"]
            if "ping" in due:
                self._due["ping"] = now + self.options.heartbeat_ms
                yield self._ping(now)

    def _ping(self, now: float) -> LinkEffect:
        self._pings.append((now, self._carried.sent_bytes + self._carried.received_bytes))
        return fx.Transmit(self.connection, LinkPing(round(now * 1000)))

    def _sample(self, round_trip_ms: float) -> None:
        half = round_trip_ms / 2
        self.latency_ms = half if self.latency_ms is None else self.latency_ms + (half - self.latency_ms) / 8

    def _done(self, out: list[LinkEffect]) -> list[LinkEffect]:
        """Arm the timer if a deadline moved before it; one that moved away is noticed when the timer fires."""
        at = self.due_at
        if at is not None and (self._armed is None or at < self._armed):
            self._armed = at
            out.append(fx.SetTimer(f"link {self.name}", at))
        return out


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
