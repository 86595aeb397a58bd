"""Passes on what waits in a queue whose home is another broker: one after the other, each stored for the home.

    queue here ──dispatch──► end here and copy for the home, in one batch ──on disk──► store-and-forward ──► home

A message waits here while the home cannot be reached, so that it goes to whichever broker is the home then.
"""

from tidings.delivery.mailbox import Consumer, Mailbox
from tidings.node.completions import ForwardQueued
from tidings.node.encoded_message import expires_ms_of
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.network import Network
from tidings.overlay.effects import Router

WAITING_MAX = 256  # messages for the home that links have not taken
ROUND_BYTES = 1 << 20
CREDIT = 1 << 30


class QueueForwarder:
    """The only consumer of such a queue."""

    def __init__(
        self,
        mailbox: Mailbox,
        home: Router,
        service: MailboxService,
        journal: Journal,
        network: Network,
        blocked: "set[QueueForwarder]",
    ) -> None:
        """`blocked`: takes note of this one when it must wait for room."""
        self.home = home
        self.forwarded = 0
        self._blocked = blocked
        self.resting = False  # the store has refused something since the last tick
        self._mailbox, self._service, self._journal, self._network = mailbox, service, journal, network
        self.consumer = Consumer(0, 0, CREDIT, output=self)

    def begin(self) -> None:
        """Not as consumers of clients are attached: nobody sees what waits here."""
        self._mailbox.attach(self.consumer)
        self._service.attended[self._mailbox] = None
        self._service.touch(self._mailbox)

    def end(self) -> None:
        if self.consumer in self._mailbox.consumers:
            self._mailbox.detach(self.consumer)
            self._blocked.discard(self)
            if not self._mailbox.consumers:
                self._service.attended.pop(self._mailbox, None)

    def go_on(self) -> None:
        """There may be room again."""
        if self._free():
            self._blocked.discard(self)
            self._service.touch(self._mailbox)

    def room(self) -> int:
        if self._free():
            return ROUND_BYTES
        self._blocked.add(self)
        return 0

    def _free(self) -> bool:
        there = not self.resting and self.home in self._network.unicast.reachable()
        return there and self._network.store_and_forward.waiting(self.home) < WAITING_MAX

    def deliver(self, now_ms: int, attempts: list[int], tags: list[int], messages: list[bytes]) -> None:
        del now_ms
        places = self._mailbox.reject(self.consumer, tags)
        self.consumer.credit = CREDIT
        for place, attempt, message in zip(places, attempts, messages, strict=True):
            expires_ms = expires_ms_of(message)
            self._service.finished_if_written(self._mailbox, [place.seq])
            forward = self._network.store_and_forward.keep(message, self.home, expires_ms, repeated=attempt > 1)
            self._journal.then(ForwardQueued(self._mailbox, place, forward))
            self.forwarded += 1

    def drained(self) -> None:
        """Nobody drains it."""

    def removed(self, code: str, reason: str) -> None:
        """The queue is gone, and what waited in it."""
