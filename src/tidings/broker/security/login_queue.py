"""The queue of logins that wait for a password check.

A check takes a memory-hard hash, so few run at a time, and every client that can connect may ask for one. Three rules
keep strangers from locking out others:

- Clients that are proven (the same user has logged in from the same address lately) go first, then those of prefixes
  from which no password was wrong since the last right one, then the others; but every FAIR_TAKES-th check is taken
  from a later class, so that nobody waits forever.
- Within a class address prefixes (IPv4 /24, IPv6 /48) take turns: one that asks often waits for itself.
- The queue is bounded. When it is full the newest login of the longest prefix is turned away, before any hash is
  computed (McKenney, "Stochastic fairness queueing", 1990: drop from the longest queue).

Pure: no threads, no clock.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")

WAITING_MAX = 100  # of each class: about as many as are checked before a client gives up
FAIR_TAKES = 4
REFUSED_MAX = 10_000  # prefixes that are remembered
PROVEN, NEW, REFUSED = 0, 1, 2  # the classes


class _Class(Generic[T]):
    """Round robin over prefixes."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._by_prefix: OrderedDict[str, deque[T]] = OrderedDict()  # the next to take from comes first
        self.count = 0

    def put(self, item: T, prefix: str) -> T | None:
        """Returns the item that is refused, this or another; None: there is room."""
        self._by_prefix.setdefault(prefix, deque()).append(item)
        self.count += 1
        if self.count <= self._waiting_max:
            return None
        longest = max(self._by_prefix, key=lambda one: len(self._by_prefix[one]))
        if len(self._by_prefix[longest]) == len(self._by_prefix[prefix]):
            longest = prefix  # nobody has more: then it is not others who give way
        return self._remove(longest, newest=True)

    def take(self) -> T | None:
        if not self._by_prefix:
            return None
        prefix = next(iter(self._by_prefix))
        self._by_prefix.move_to_end(prefix)
        return self._remove(prefix, newest=False)

    def _remove(self, prefix: str, *, newest: bool) -> T:
        queue = self._by_prefix[prefix]
        item = queue.pop() if newest else queue.popleft()
        if not queue:
            del self._by_prefix[prefix]
        self.count -= 1
        return item


class LoginQueue(Generic[T]):
    """
    >>> queue = LoginQueue[str]()
    >>> for item, prefix in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
    ...     _ = queue.put(item, prefix, proven=False)
    >>> queue.put("known", "a", proven=True)
    >>> [queue.take() for _ in range(6)]
    ['known', 'a1', 'b1', 'a2', 'a3', None]
    """

    def __init__(self, waiting_max: int = WAITING_MAX) -> None:
        self._classes = [_Class[T](waiting_max) for _ in (PROVEN, NEW, REFUSED)]
        self._refused: OrderedDict[str, None] = OrderedDict()  # prefixes, the latest last
        self._takes = 0

    def __len__(self) -> int:
        return sum(one.count for one in self._classes)

    def put(self, item: T, prefix: str, *, proven: bool) -> T | None:
        """Returns the item that is refused, this or another; None: there is room."""
        which = PROVEN if proven else REFUSED if prefix in self._refused else NEW
        return self._classes[which].put(item, prefix)

    def judged(self, prefix: str, *, right: bool) -> None:
        """A password from there was right, or wrong."""
        self._refused.pop(prefix, None)
        if not right:
            self._refused[prefix] = None
            if len(self._refused) > REFUSED_MAX:
                self._refused.popitem(last=False)

    def take(self) -> T | None:
        """The next to be checked; None: nobody waits."""
        self._takes += 1
        order = (PROVEN, NEW, REFUSED)
        if self._takes % FAIR_TAKES == 0:
            order = (NEW, REFUSED, PROVEN) if self._takes % FAIR_TAKES**2 else (REFUSED, NEW, PROVEN)
        for which in order:
            if (item := self._classes[which].take()) is not None:
                return item
        return None
