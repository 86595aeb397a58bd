"""Takes what is past its time out of mailboxes, also where nobody asks for it.

A mailbox is looked through when the earliest expiry in it has passed, from its head, a limited number of messages at
each tick. Memory knows the expiry of what it holds. What only the store has must be read to know: once after a start,
because the store keeps no expiry of its own, and later when something there is due.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from tidings.delivery.backlog import PRIORITIES, BacklogPosition, behind
from tidings.delivery.mailbox import Mailbox
from tidings.delivery.message_cache import MessageCache

TICK_MESSAGES = 5_000  # looked at in one tick, in all mailboxes
PAGE_MESSAGES = 512  # read from the store for it
NEVER_MS = 1 << 62


@dataclass(slots=True)
class _Pass:
    """One way through a mailbox."""

    after: list[int] = field(default_factory=lambda: [0] * PRIORITIES)
    earliest_ms: int = NEVER_MS  # expiry of what stays
    asked: dict[int, BacklogPosition] = field(default_factory=dict)  # the store is to say when these expire


class Expiry:
    def __init__(
        self, message_cache: MessageCache, tick_messages: int = TICK_MESSAGES, page_messages: int = PAGE_MESSAGES
    ) -> None:
        self._tick_messages, self._page_messages = tick_messages, page_messages
        self._message_cache = message_cache
        self._due_ms: dict[Mailbox, int] = {}  # when to look at a mailbox again
        self.passes: dict[Mailbox, _Pass] = {}  # under way

    def offered(self, mailbox: Mailbox, expires_ms: int) -> None:
        """A message that expires waits there."""
        self._due_ms[mailbox] = min(self._due_ms.get(mailbox, NEVER_MS), expires_ms)
        if (under_way := self.passes.get(mailbox)) is not None:  # which may have been there already
            under_way.earliest_ms = min(under_way.earliest_ms, expires_ms)

    def unknown(self, mailbox: Mailbox) -> None:
        """Messages of an earlier life wait there."""
        self._due_ms[mailbox] = 0

    def forget(self, mailbox: Mailbox) -> None:
        self._due_ms.pop(mailbox, None)
        self.passes.pop(mailbox, None)

    def wanted(self) -> list[int]:
        """Messages to be loaded from the store."""
        return [seq for one in self.passes.values() for seq in one.asked] if self.passes else []

    def tick(self, now_ms: int) -> list[tuple[Mailbox, list[BacklogPosition]]]:
        """Take expired messages out of the backlogs and return them by mailbox."""
        for mailbox, due_ms in self._due_ms.items():
            if due_ms <= now_ms:
                self.passes.setdefault(mailbox, _Pass())
        budget, found = self._tick_messages, []
        for mailbox, one in list(self.passes.items()):
            if budget <= 0:
                break
            one.asked = {seq: place for seq, place in one.asked.items() if mailbox.backlog.holds(place)}
            if one.asked:  # not answered yet
                continue
            looked, late = self._look(mailbox, one, now_ms, budget)
            budget -= looked
            if late:
                found.append((mailbox, late))
        return found

    def loaded(self, now_ms: int, messages: Mapping[int, int]) -> list[tuple[Mailbox, list[BacklogPosition]]]:
        """Note the expiry times of messages that the store has loaded; 0: never."""
        found = []
        for mailbox, one in self.passes.items():
            late = []
            for seq in [seq for seq in one.asked if seq in messages]:
                place, expires_ms = one.asked.pop(seq), messages[seq]
                if 0 < expires_ms <= now_ms and mailbox.backlog.holds(place):
                    mailbox.backlog.remove(place)
                    late.append(place)
                elif expires_ms:
                    one.earliest_ms = min(one.earliest_ms, expires_ms)
            if late:
                found.append((mailbox, late))
        return found

    def lost(self, seqs: Iterable[int]) -> None:
        """The store will never bring these."""
        for one in self.passes.values():
            for seq in seqs:
                one.asked.pop(seq, None)

    def _look(self, mailbox: Mailbox, one: _Pass, now_ms: int, budget: int) -> tuple[int, list[BacklogPosition]]:
        looked, late = 0, []
        for place in islice(mailbox.backlog.scan(one.after), budget):
            held = self._message_cache.get(place.seq)
            if held is None:
                one.asked[place.seq] = place
                if len(one.asked) >= self._page_messages:
                    one.after = behind(place)
                    break
            elif 0 < held.expires_ms <= now_ms:
                late.append(place)
            elif held.expires_ms:
                one.earliest_ms = min(one.earliest_ms, held.expires_ms)
            looked += 1
            one.after = behind(place)
        else:
            if looked < budget and not one.asked:  # to the end
                self._finish(mailbox, one)
        for place in late:
            mailbox.backlog.remove(place)
        return looked, late

    def _finish(self, mailbox: Mailbox, one: _Pass) -> None:
        del self.passes[mailbox]
        if one.earliest_ms == NEVER_MS:
            del self._due_ms[mailbox]
        else:
            self._due_ms[mailbox] = one.earliest_ms
