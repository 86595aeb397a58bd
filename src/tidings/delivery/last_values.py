"""The last message of each topic: a retained subscription in which a message replaces the one before it.

A message without a body clears its topic. The store keeps the messages and no index, so after a restart each must be
read once (`unknown`); they come in any order, and until the last of them is there a cleared topic is remembered.

>>> last = LastValues(7, "retained:last-values", MessageCache(1 << 20), Retention(bytes_max=6400, last=True))
>>> for seq, topic in enumerate(("a.b", "a.c", "a.b"), 1):
...     last.offer(BacklogPosition(seq, 4))
...     last.learn(seq, topic, empty=False)
[]
[]
[1]
>>> last.find(DestinationPattern("a.*")), last.find(DestinationPattern("a.b")), last.find(DestinationPattern("b"))
([2, 3], [3], [])
>>> last.offer(BacklogPosition(4, 4)); last.learn(4, "a.c", empty=True)
[4, 2]
"""

from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import NEW, Tries
from tidings.delivery.message_cache import MessageCache
from tidings.delivery.retained import RetainedMailbox, Retention
from tidings.model.destination import Destination, DestinationPattern


class LastValues(RetainedMailbox):
    def __init__(self, number: int, name: str, message_cache: MessageCache, retention: Retention) -> None:
        super().__init__(number, name, message_cache, retention)
        self.unknown: dict[int, None] = {}  # messages whose topic must be read first
        self._topics: dict[str, int] = {}  # number of the last message
        self._cleared: dict[str, int] = {}  # the same of topics without one, while some are unknown

    def offer(self, place: BacklogPosition, *, size: int = 0, tries: Tries = NEW) -> None:
        self.backlog.add(BacklogPosition(place.seq, 0))
        self._last = max(self._last, place.seq)
        self.unknown[place.seq] = None

    def look(self, now_ms: int) -> bool:
        return False

    def over(self, now_ms: int) -> int:
        """Only a message that follows, or its expiry, ends one."""
        return 0

    def learn(self, seq: int, topic: str, *, empty: bool) -> list[int]:
        """The topic of a message; returns the messages that end with that."""
        self.unknown.pop(seq, None)
        gone: list[int] = []
        before, cleared = self._topics.get(topic, 0), self._cleared.get(topic, 0)
        if empty or seq < max(before, cleared):
            gone.append(seq)
        if before and (before < seq or before < cleared):
            gone.append(self._topics.pop(topic))
        if empty:
            self._cleared[topic] = max(cleared, seq)
        elif seq > max(before, cleared):
            self._topics[topic] = seq
        held = [one for one in gone if self.holds(one)]
        for one in held:
            self.backlog.remove(BacklogPosition(one, 0))
        if not self.unknown:
            self._cleared.clear()  # nothing older can come any more
        return held

    def find(self, pattern: DestinationPattern) -> list[int]:
        """The last messages of the topics, in the order of their numbers."""
        if pattern.queue:
            return []
        if not pattern.wild:
            found = [self._topics[pattern.name]] if pattern.name in self._topics else []
        else:
            found = [seq for topic, seq in self._topics.items() if pattern.matches(Destination(topic))]
        return [seq for seq in sorted(found) if self.holds(seq)]
