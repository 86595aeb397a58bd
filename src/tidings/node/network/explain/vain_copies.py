"""Copies that other brokers sent here in vain: finds the subscriptions they came for, and bounds their share.

An encoded row lets more through than the subscriptions it was made of. The plane keeps a few of the messages that
nobody here wanted; each is compared with the encoded rows of this broker, and the makers of those that let it through
are *blamed*. Once a second, while more of what arrives is in vain than `in_vain_max`, those blamed lately are
advertised by their exact filters from then on. So precision is paid for where it is missing, and nowhere else.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from tidings.model.codec import decode_predicate
from tidings.model.predicate_text import abridged
from tidings.node.network.explain.row_texts import MatchingRows
from tidings.node.plane import NetworkPlane
from tidings.routing.bdrp.local_interests import LocalInterests
from tidings.routing.effects import Effect, Report
from tidings.routing.scheme import Scheme

ARRIVALS_LEAST = 100  # of which a share is taken
ROWS_MAX = 4000  # compared at once: some ten milliseconds
BLAMED_MAX = 1000  # subscriptions that are remembered
WARN_SHARE, WARN_BLAMED = 0.1, 10  # in vain; times that one subscription was to blame


class VainCopies:
    def __init__(self, plane: NetworkPlane, scheme: Callable[[], Scheme], in_vain_max: float) -> None:
        self._plane, self._scheme, self._in_vain_max = plane, scheme, in_vain_max
        self.blamed: Counter[bytes] = Counter()  # by encoded predicate
        self.looked_at = 0  # messages
        self._lately: set[bytes] = set()  # blamed since the share was last taken
        self._counted = 0, 0  # arrived, and in vain, when the share was last taken
        self._next_row = 0
        self._warned: set[bytes] = set()

    def tick(self, now: float) -> list[Effect]:
        """About once a second."""
        messages = self._plane.take_in_vain()
        if not messages:
            return []
        scheme = self._scheme()
        self._blame(scheme, messages)
        stats = self._plane.network_stats()
        share = self._share(stats)
        if share is None:
            return []
        lately, self._lately = self._lately, set()
        out = self._warnings(share, lately)
        if share > self._in_vain_max and lately:
            out += scheme.narrow(now, lately)
            for one in lately:
                del self.blamed[one]
        return out

    def _share(self, stats: Mapping[str, int]) -> float | None:
        """The share in vain of what has arrived since it was last taken; None: that is too little."""
        arrived, in_vain = stats["arrived"] - self._counted[0], stats["in_vain"] - self._counted[1]
        if arrived < ARRIVALS_LEAST:
            return None
        self._counted = stats["arrived"], stats["in_vain"]
        return in_vain / arrived

    def _blame(self, scheme: Scheme, messages: list[bytes]) -> None:
        local = scheme.local
        asked = [MatchingRows(local.encoding, message) for message in messages]
        self.looked_at += len(messages)
        for row in self._some_rows(local):
            times = sum(one.lets_through(row) for one in asked)
            if times:
                for maker in local.makers(row):
                    self.blamed[maker] += times
                    self._lately.add(maker)
        if len(self.blamed) > BLAMED_MAX:
            self.blamed = Counter(dict(self.blamed.most_common(BLAMED_MAX // 2)))
            self._lately &= self.blamed.keys()

    def _some_rows(self, local: LocalInterests) -> list[bytes]:
        """The next ones, so that all have their turn."""
        rows = local.encoded_rows()
        if len(rows) <= ROWS_MAX:
            return rows
        start = self._next_row % len(rows)
        self._next_row = start + ROWS_MAX
        return (rows[start:] + rows[:start])[:ROWS_MAX]

    def _warnings(self, share: float, lately: set[bytes]) -> list[Effect]:
        """About the worst one, once."""
        worst = max(lately, key=lambda one: self.blamed[one], default=b"")
        if share < WARN_SHARE or self.blamed[worst] < WARN_BLAMED or worst in self._warned:
            return []
        if len(self._warned) < BLAMED_MAX:
            self._warned.add(worst)
        reason = (
            f"{share:.0%} of the copies that came lately are in vain; of {self.looked_at} that were looked at "
            f"{self.blamed[worst]} came because of one encoded subscription: {abridged(decode_predicate(worst))}"
        )
        return [Report("E_INTEREST_IN_VAIN", reason)]
