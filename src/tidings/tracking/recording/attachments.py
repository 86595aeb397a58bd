"""Attachment times of a broker's subscribers and neighbours; neighbours too, because networks change over time.

A subscriber is attached while a subscription of it exists, connected or not: a durable one can receive a message long
after the message's time. Changes are few and must survive everything, so each is stored on its own before it counts.
An *era* is one life of the broker's process; peers attached when it ended count as attached until the next began.
Clients decide how often they come and go, so the number of detached peers that are remembered is limited.

>>> attached = AttachmentMap()
>>> attached.apply(Attachment(AttachmentKind.SUBSCRIBER, "audit", 1000, attached=True))
>>> attached.apply(Attachment(AttachmentKind.SUBSCRIBER, "audit", 5000, attached=False))
>>> attached.between(AttachmentKind.SUBSCRIBER, 4900, 5200), attached.between(AttachmentKind.SUBSCRIBER, 5100, 5200)
(['audit'], [])
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tidings.tracking.query.time_index import TimeIndex

PUBLISHER_BITS = (1 << 29) - 1  # of a publisher in an id; the others say what came by AMQP (docs/wire.md)
PUBLISHERS_PAST_MAX = 20_000  # that have left and are remembered: without one a trace lacks a name, nothing else


class AttachmentKind(Enum):
    SUBSCRIBER = "subscriber"
    NEIGHBOUR = "neighbour"
    PUBLISHER = "publisher"  # a connection that publishes: its number, a space, who it is
    ERA = "era"  # the broker started or ended: everybody else is gone; the peer is the strategy that recorded


@dataclass(frozen=True, slots=True)
class Attachment:
    """One change, by the broker's clock."""

    kind: AttachmentKind
    peer: str
    ms: int
    attached: bool
    incarnation: int = 0


class AttachmentMap:
    """Changes are applied in the order of their making."""

    def __init__(self, past_max: int | None = None) -> None:
        """`past_max`: the number of detached peers that are remembered; None: all."""
        self._past_max = past_max
        self._since: dict[tuple[AttachmentKind, str], int] = {}
        self._past: dict[AttachmentKind, TimeIndex[str]] = {kind: TimeIndex() for kind in AttachmentKind}
        self._publishing: Counter[int] = Counter()  # by number: connections that publish now
        self._publishers_known = False
        self.first_ms: int | None = None  # nothing is known about the time before
        self.since_ms = 0  # who had gone before this may have been forgotten

    def apply(self, change: Attachment) -> None:
        if self.first_ms is None:
            self.first_ms = change.ms
        if change.kind is AttachmentKind.ERA:
            for kind, peer in list(self._since):
                self._end(kind, peer, change.ms)
        elif change.attached:
            if change.kind is AttachmentKind.PUBLISHER and not self.is_attached(change.kind, change.peer):
                self._publishing[publisher_number(change.peer)] += 1
                self._publishers_known = True
            self._since.setdefault((change.kind, change.peer), change.ms)
        else:
            self._end(change.kind, change.peer, change.ms)

    def is_attached(self, kind: AttachmentKind, peer: str) -> bool:
        return (kind, peer) in self._since

    def between(self, kind: AttachmentKind, first_ms: int, last_ms: int) -> list[str]:
        """The names attached at some time from first to last, sorted."""
        now = {peer for (of, peer), since in self._since.items() if of is kind and since <= last_ms}
        return sorted(now | set(self._past[kind].between(first_ms, last_ms)))

    def spans(self, kind: AttachmentKind, peer: str) -> list[tuple[int, int]]:
        """The times at which a peer was attached, as far as remembered; if it still is, the last ends far ahead."""
        now = self._since.get((kind, peer))
        return [*self._past[kind].spans(peer), *([] if now is None else [(now, 2**48)])]

    def publisher(self, number: int, first_ms: int, last_ms: int) -> str:
        """The connection that published under this number at some time from first to last; empty: not known."""
        start = f"{number} "
        found = self.between(AttachmentKind.PUBLISHER, first_ms, last_ms)
        return next((one.removeprefix(start) for one in found if one.startswith(start)), "")

    def may_have_moved(self, number: int) -> bool:
        """Reports whether messages with this publisher's number may have been sent again at another broker: its
        connection has ended, or was never here."""
        return self._publishers_known and number & PUBLISHER_BITS not in self._publishing

    def forget(self, before_ms: int) -> None:
        """Forgets what ended before that time."""
        for past in self._past.values():
            if gone := past.ended_before(before_ms):
                self._drop(past, gone)

    def __len__(self) -> int:
        """The number of detached peers that are remembered."""
        return sum(map(len, self._past.values()))

    def _end(self, kind: AttachmentKind, peer: str, ms: int) -> None:
        since = self._since.pop((kind, peer), None)
        if since is not None:
            past = self._past[kind]
            past.add(peer, (since, max(since, ms)))
            if kind is AttachmentKind.PUBLISHER:
                number = publisher_number(peer)
                self._publishing[number] -= 1
                if not self._publishing[number]:
                    del self._publishing[number]
                if len(past) > PUBLISHERS_PAST_MAX + PUBLISHERS_PAST_MAX // 8:
                    past.drop_first(len(past) - PUBLISHERS_PAST_MAX)
            elif self._past_max is not None and len(past) > self._past_max + self._past_max // 8:
                self._drop(past, len(past) - self._past_max)

    def _drop(self, past: TimeIndex[str], count: int) -> None:
        """They are in the order of their leaving."""
        self.since_ms = max(self.since_ms, past.drop_first(count) + 1)


def publisher_number(peer: str) -> int:
    """Of the peer of a publisher."""
    return int(peer.partition(" ")[0])


def since_of_last(changes: Iterable[Attachment], past_max: int) -> int:
    """The time from which on at most that many have detached, publishers aside; 0: there are no more in all."""
    attached: set[tuple[AttachmentKind, str]] = set()
    ends: list[int] = []
    for change in changes:
        about = change.kind, change.peer
        if change.kind is AttachmentKind.ERA:
            ends += [change.ms] * len(attached)
            attached.clear()
        elif change.kind is AttachmentKind.PUBLISHER:
            continue
        elif change.attached:
            attached.add(about)
        elif about in attached:
            attached.remove(about)
            ends.append(change.ms)
    return ends[-past_max - 1] + 1 if len(ends) > past_max else 0


def without_old_publishers(changes: Iterable[Attachment], count_max: int) -> list[Attachment]:
    """Without the first publishers, if there are more changes of publishers than this: a trace lacks a name then."""
    kept = list(changes)
    publishers = [number for number, change in enumerate(kept) if change.kind is AttachmentKind.PUBLISHER]
    gone = set(publishers[: max(len(publishers) - count_max, 0)])
    return [change for number, change in enumerate(kept) if number not in gone]


def relevant(changes: Iterable[Attachment], since_ms: int) -> list[Attachment]:
    """Without comings and goings that were over before this time; eras stay, because they tell what was recorded.

    >>> came, went = (Attachment(AttachmentKind.SUBSCRIBER, "audit", ms, ms == 5) for ms in (5, 9))
    >>> relevant([came, went], since_ms=9) == [came, went], relevant([came, went], since_ms=10)
    (True, [])
    """
    kept: dict[int, Attachment] = {}
    open_since: dict[tuple[AttachmentKind, str], list[int]] = {}  # the numbers of changes that speak of it
    for number, change in enumerate(changes):
        kept[number] = change
        if change.kind is AttachmentKind.ERA:
            ended, open_since = list(open_since.values()), {}
        else:
            about = open_since.setdefault((change.kind, change.peer), [])
            about.append(number)
            ended = [] if change.attached else [open_since.pop((change.kind, change.peer))]
        for numbers in ended if change.ms < since_ms else ():
            for one in numbers:
                del kept[one]
    return list(kept.values())
