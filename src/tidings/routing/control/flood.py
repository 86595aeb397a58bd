"""Reliable flooding: the latest state of every router, by topic, brought to every other router.

An *item* is what its origin says of itself under a topic (its links, its interests). Items carry a version
(incarnation, sequence): newer replaces older, so duplicates end where they meet. Three things make it reliable:

- each item sent to a neighbour is repeated until the neighbour acknowledges it, or shows that it has a newer one;
- neighbours exchange *summaries* (which versions do you have?) when their link comes up and every now and then,
  and send each other what is newer: this joins partitions and heals whatever else went wrong;
- an item has a lifetime that only shrinks as copies travel and wait; its origin renews it in time. What belongs to
  a router that vanished dies out everywhere, and no copy can bring it back.

A router that hears something newer of itself than it ever said has lost its memory and its clock was set back, or
someone else has its number. It takes an incarnation above the one it heard and says everything again, so that the
others know what is true within a moment, and not when the stranger's lifetime ends; every `overrule_ms` at most, since
two that live side by side with one number would otherwise only answer each other (RFC 2328, section 13.4).

A state may change by *differences*: an item that is not full continues the one with the sequence number before.
The log since the last full item is kept, so a neighbour that lags behind gets the missing end of it, or all of it.
An empty difference renews the lifetime at little cost. Compare OSPF (RFC 2328, section 13) and IS-IS.

Use: `publish` what this router has to say; give `receive` the Flood… messages; take `Deliver` effects.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from tidings.errors import UsageError
from tidings.overlay.effects import ControlMessage
from tidings.routing.control.messages import FloodAck, FloodItem, FloodSummary, Known, Version
from tidings.routing.control.single_timer import SingleTimer
from tidings.routing.effects import Deliver, Effect, Report, Router, Send

Key: TypeAlias = tuple[int, Router]  # topic, origin
Whole: TypeAlias = bytes | Callable[[], bytes]
NOTHING = Version(0, 0)  # older than everything
LOG_ITEMS_MIN = 64
LOG_ITEMS_MAX = 1024
ITEMS_MAX = 1 << 17  # origins × topics; beyond it newcomers are not taken up
OVERRULES_MAX = 16  # incarnations above another one's that show that it was overruled
INCARNATION_MAX = 2**64 - 1  # that a version can name


@dataclass(frozen=True, slots=True)
class FloodOptions:
    lifetime_ms: int = 90_000
    renew_ms: float = 30_000
    retransmit_ms: float = 500
    summary_ms: float = 15_000
    overrule_ms: float = 5_000  # between two times that what someone else said in our name is overruled
    # Differences after a whole state, before it is sent whole again: the most, equal on all, and how many at least. In
    # between it is sent whole once they take more bytes than it, so that many small changes cost twice their size.
    log_items_max: int = LOG_ITEMS_MAX
    log_items_min: int = LOG_ITEMS_MIN


@dataclass(slots=True)
class _Log:
    items: list[FloodItem]  # a full one and its differences
    expires_at: float
    difference_bytes: int = 0

    @property
    def version(self) -> Version:
        return self.items[-1].version

    def is_long(self, options: FloodOptions) -> bool:
        count = len(self.items)
        if count < min(options.log_items_min, options.log_items_max):
            return False
        return count >= options.log_items_max or self.difference_bytes > len(self.items[0].payload)

    def after(self, version: Version) -> list[FloodItem]:
        """Returns the items that a neighbour with this version lacks."""
        first = self.items[0].version
        if version >= first and version.incarnation == first.incarnation:
            return self.items[version.sequence - first.sequence + 1 :]
        return self.items


class Flood:
    def __init__(self, router: Router, incarnation: int, options: FloodOptions | None = None, timer: str = "flood"):
        self.router, self.incarnation = router, incarnation
        self.options = options or FloodOptions()
        self.alarm = SingleTimer(timer)
        self._logs: dict[Key, _Log] = {}
        self._whole: dict[int, Whole] = {}  # by topic: this router's own state
        self._renew_at: dict[int, float] = {}
        # What each neighbour has not acknowledged, and when to repeat it.
        self._unacked: dict[Router, dict[Key, dict[Version, tuple[FloodItem, float]]]] = {}
        self._summary_at: dict[Router, float] = {}
        self._stranger = 0  # an incarnation that others know of this router, and that is not its own
        self._overrule_at = inf
        self._overruled_at = -inf
        self.caught_up = False  # has received all that some neighbour knew when they were linked, or later
        self._missing: dict[Router, dict[Key, Version]] = {}  # of that, what has not come yet
        self.contested_until = -inf  # another live broker speaks in this one's name, and was there before
        self._first, self._newcomer = incarnation, False
        self._soonest = inf  # of the deadlines set since the alarm was

    def state(self, topic: int) -> dict[Router, Version]:
        """Returns the routers known under a topic, and how recent their state is."""
        return {origin: log.version for (about, origin), log in self._logs.items() if about == topic}

    @property
    def published(self) -> Collection[int]:
        """The topics of this router's own state."""
        return self._whole.keys()

    def version(self, topic: int, origin: Router) -> Version:
        """Returns how recent the known state of a router is under a topic."""
        log = self._logs.get((topic, origin))
        return NOTHING if log is None else log.version

    # The doors.

    def publish(self, now: float, topic: int, whole: Whole, difference: bytes | None = None) -> list[Effect]:
        """This router's state under a topic is now `whole`, or what this returns until it is published again, for a
        state that it takes long to encode; `difference` leads there from the state before."""
        log = self._logs.get((topic, self.router))
        continues = log is not None and log.version.incarnation == self.incarnation
        full = difference is None or log is None or not continues or log.is_long(self.options)
        self._whole[topic] = whole
        sequence = log.version.sequence + 1 if log else 1
        payload = difference
        if full or payload is None:
            payload = whole if isinstance(whole, bytes) else whole()
        version = Version(self.incarnation, sequence)
        item = FloodItem(topic, self.router, version, self.options.lifetime_ms, full, payload)
        self._renew_at[topic] = now + self.options.renew_ms
        self._soonest = min(self._soonest, self._renew_at[topic])
        return self._done([*self._store(now, item), *self._spread(now, item, None)])

    def link_up(self, now: float, neighbour: Router) -> list[Effect]:
        self._unacked[neighbour] = {}
        return self._done([self._summary(now, neighbour)])

    def link_down(self, now: float, neighbour: Router) -> list[Effect]:
        self._unacked.pop(neighbour, None)
        self._missing.pop(neighbour, None)
        self._summary_at.pop(neighbour, None)
        return []

    def receive(self, now: float, neighbour: Router, message: ControlMessage) -> list[Effect]:
        if neighbour not in self._unacked:
            return []  # said before its link went down
        match message:
            case FloodItem():
                return self._done(list(self._receive_item(now, neighbour, message)))
            case FloodAck():
                self._acknowledged(neighbour, (message.topic, message.origin), message.version)
                return []
            case FloodSummary():
                return self._done(list(self._receive_summary(now, neighbour, message)))
            case _:
                raise UsageError("E_FLOOD_MESSAGE", f"{type(message).__name__} is not a flood message")

    def tick(self, now: float) -> list[Effect]:
        self.alarm.rang()
        out: list[Effect] = list(self._expire(now))
        if self._overrule_at <= now:
            out += self._overrule(now)
        for topic, at in list(self._renew_at.items()):
            if at <= now:
                out += self.publish(now, topic, self._whole[topic], b"")
        for neighbour, at in list(self._summary_at.items()):
            if at <= now:
                out.append(self._summary(now, neighbour))
        for neighbour, pending in self._unacked.items():
            for item, at in [one for versions in pending.values() for one in versions.values()]:
                if at <= now:
                    out += self._send(now, neighbour, item)
        self._soonest = self._due()
        return self._done(out)

    # Messages.

    def _receive_item(self, now: float, neighbour: Router, item: FloodItem) -> Iterator[Effect]:
        key = (item.topic, item.origin)
        log = self._logs.get(key)
        have = log.version if log else NOTHING
        if item.origin == self.router:
            yield from self._receive_own(now, neighbour, item)
        elif item.version <= have:
            self._acknowledged(neighbour, key, item.version)
            yield Send(neighbour, FloodAck(*key, item.version))
            if item.version < have:
                yield from self._catch_up(now, neighbour, key, item.version)
        elif not item.full and item.version != Version(have.incarnation, have.sequence + 1):
            yield Send(neighbour, FloodSummary((Known(*key, have),), whole=False))  # something between is missing
        elif self._refuses(log, item):
            yield Report("E_FLOOD_LIMIT", f"item refused, too many are kept: router {item.origin}, topic {item.topic}")
        else:
            yield from self._store(now, item)
            self._acknowledged(neighbour, key, item.version)
            yield Send(neighbour, FloodAck(*key, item.version))
            yield from self._spread(now, item, neighbour)

    def _refuses(self, log: _Log | None, item: FloodItem) -> bool:
        if log is None:
            return len(self._logs) >= ITEMS_MAX
        return not item.full and len(log.items) >= 2 * self.options.log_items_max

    def _receive_own(self, now: float, neighbour: Router, item: FloodItem) -> Iterator[Effect]:
        """An echo. One of an earlier life is overruled; so is what we never said, which means trouble."""
        key = (item.topic, self.router)
        log = self._logs.get(key)
        have = log.version if log else NOTHING
        yield Send(neighbour, FloodAck(*key, item.version))
        if item.version > max(have, Version(self.incarnation, 0)):
            if self.incarnation == self._first and item.version.incarnation - self._first <= OVERRULES_MAX:
                self._newcomer = True  # that one has overruled this one's: it was there before
            if self._newcomer:
                self.contested_until = now + 4 * self.options.overrule_ms
            self._stranger = max(self._stranger, item.version.incarnation)
            self._overrule_at = max(now, self._overruled_at + self.options.overrule_ms)
            self._soonest = min(self._soonest, self._overrule_at)
            if self._overrule_at <= now:
                yield from self._overrule(now)
        elif item.version < have:
            yield from self._catch_up(now, neighbour, key, item.version)

    def _overrule(self, now: float) -> list[Effect]:
        """Takes a later incarnation and publishes everything again, since another broker used this one's number."""
        self._overrule_at, self._overruled_at = inf, now
        self.incarnation = max(self.incarnation, min(self._stranger + 1, INCARNATION_MAX))
        out: list[Effect] = [Report("E_FLOOD_IDENTITY", stolen_number(self.router))]
        for topic, whole in self._whole.items():
            out += self.publish(now, topic, whole)
        return out

    def _receive_summary(self, now: float, neighbour: Router, summary: FloodSummary) -> Iterator[Effect]:
        known = {(topic, origin): version for topic, origin, version in summary.known}
        if summary.whole and not self.caught_up:
            self._missing[neighbour] = {key: one for key, one in known.items() if self._lacks(key, one)}
            self._catch(self._missing[neighbour])
        for key in [*self._logs] if summary.whole else [key for key in known if key in self._logs]:
            version = known.get(key, NOTHING)
            if version < self._logs[key].version:
                yield from self._catch_up(now, neighbour, key, version)
            else:
                self._acknowledged(neighbour, key, version)

    def _lacks(self, key: Key, version: Version) -> bool:
        log = self._logs.get(key)
        return key[1] != self.router and (log is None or log.version < version)

    def _catch(self, missing: dict[Key, Version]) -> None:
        if not missing:
            self.caught_up = True
            self._missing.clear()

    def _catch_up(self, now: float, neighbour: Router, key: Key, version: Version) -> Iterator[Effect]:
        pending = self._unacked[neighbour].get(key, {})
        for item in self._logs[key].after(version):
            if item.version not in pending:  # otherwise it is on its way
                yield from self._send(now, neighbour, item)

    def _acknowledged(self, neighbour: Router, key: Key, version: Version) -> None:
        pending = self._unacked[neighbour].get(key)
        if pending is None:
            return
        for one in [one for one in pending if one <= version]:
            del pending[one]
        if not pending:
            del self._unacked[neighbour][key]

    # Storing and sending.

    def _store(self, now: float, item: FloodItem) -> list[Effect]:
        key = (item.topic, item.origin)
        expires_at = now + min(item.lifetime_ms, self.options.lifetime_ms)
        if item.full:
            self._logs[key] = _Log([item], expires_at)
            for pending in self._unacked.values():  # what it replaces need not be repeated
                pending.pop(key, None)
        else:
            log = self._logs[key]
            log.items.append(item)
            log.difference_bytes += len(item.payload)
            log.expires_at = expires_at
        if item.origin == self.router:
            return []
        for missing in list(self._missing.values()):
            if key in missing and not self._lacks(key, missing[key]):
                del missing[key]
                self._catch(missing)
        self._soonest = min(self._soonest, expires_at)
        if not (item.full or item.payload):
            return []
        return [Deliver(item.topic, item.origin, item.full, item.payload)]

    def _spread(self, now: float, item: FloodItem, source: Router | None) -> Iterator[Effect]:
        for neighbour in self._unacked:
            if neighbour != source:
                yield from self._send(now, neighbour, item)

    def _send(self, now: float, neighbour: Router, item: FloodItem) -> Iterator[Effect]:
        key = (item.topic, item.origin)
        log = self._logs.get(key)
        left_ms = int(log.expires_at - now) if log else 0
        if left_ms > 0:
            repeat_at = now + self.options.retransmit_ms
            self._soonest = min(self._soonest, repeat_at)
            self._unacked[neighbour].setdefault(key, {})[item.version] = (item, repeat_at)
            yield Send(neighbour, FloodItem(*key, item.version, left_ms, item.full, item.payload))

    def _summary(self, now: float, neighbour: Router) -> Send:
        self._summary_at[neighbour] = now + self.options.summary_ms
        self._soonest = min(self._soonest, self._summary_at[neighbour])
        known = (Known(*key, log.version) for key, log in self._logs.items())
        return Send(neighbour, FloodSummary(tuple(known), whole=True))

    def _expire(self, now: float) -> Iterator[Effect]:
        for key in [key for key, log in self._logs.items() if log.expires_at <= now and key[1] != self.router]:
            del self._logs[key]
            yield Deliver(*key, full=True, payload=None)

    def _due(self) -> float:
        """The soonest of all deadlines. Looked for only when the alarm rang: the others note what they set."""
        due = [self._overrule_at, *self._renew_at.values(), *self._summary_at.values()]
        for pending in self._unacked.values():
            due += [at for versions in pending.values() for _, at in versions.values()]
        due += [log.expires_at for key, log in self._logs.items() if key[1] != self.router]
        return min(due, default=inf)

    def _done(self, out: list[Effect]) -> list[Effect]:
        at, self._soonest = self._soonest, inf
        return [*out, *self.alarm.arm(at)] if at < inf else out


def stolen_number(router: Router) -> str:
    """Returns the report for the operator of a router of which others hold state that it never published."""
    return (
        f"other brokers hold state of broker {router} that it never published: either another broker has the id "
        f"{router} too (give one of them another id), or this one has lost its data and its clock was set back; what "
        "it publishes itself replaces that state now"
    )
