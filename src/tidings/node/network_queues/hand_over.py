"""Hands a subscription over to its home: what waits in the mailbox of a former home, or of one that was made apart.

    own mailbox ──dispatch──► HandOverMessage ══channel══► on disk at the home ──► ends here
         ▲
         └── filled as before until all brokers know the home (`AdoptSubscription`), then hidden

Until then messages may come to both, and after that copies that were on their way come here: so nothing is lost, and
what is handed over is marked. The hidden mailbox of a durable subscription stays as long as the subscription does,
since a broker that was cut off may have messages for it; of one that is not durable nothing stays.
"""

from tidings.delivery.mailbox import Consumer, Mailbox
from tidings.errors import TidingsError
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network_queues.consumer_side import ConsumerSide
from tidings.node.network_queues.records import AdoptSubscription, HandOverMessage
from tidings.overlay.effects import Router

UNDER_WAY_MAX = 128  # messages that the home has not confirmed
ROUND_BYTES = 1 << 18


class SubscriptionHandOver:
    """The only consumer of such a mailbox."""

    def __init__(self, mailbox: Mailbox, home: Router, service: MailboxService, consumer_side: ConsumerSide) -> None:
        self.home, self.adopted = home, False
        self._mailbox, self._service, self._consumer_side = mailbox, service, consumer_side
        self._consumer = Consumer(0, 0, UNDER_WAY_MAX, output=self)
        self._asked = self._resting = False

    def begin(self) -> None:
        """Not as consumers of clients are attached: nobody sees what waits here."""
        self._mailbox.attach(self._consumer)
        self._service.attended[self._mailbox] = None
        self._service.touch(self._mailbox)

    def end(self) -> None:
        """The home is another one, or the subscription is gone. What is under way waits again."""
        if self._consumer in self._mailbox.consumers:
            self._mailbox.spare(self._mailbox.reject(self._consumer, list(self._consumer.unacknowledged)))
            self._service.returned(self._mailbox, self._mailbox.detach(self._consumer))
            if not self._mailbox.consumers:
                self._service.attended.pop(self._mailbox, None)

    def go_on(self) -> None:
        """About once a second: ask the home to adopt it, and try again what did not come."""
        self._resting = False
        if not self.adopted and not self._asked:
            self._asked = True
            predicate, asked = self._service.mailboxes.predicate(self._mailbox), self._mailbox.asked
            name = self._mailbox.name
            record = lambda token: AdoptSubscription(token, name, predicate, asked)  # noqa: E731
            self._consumer_side.ask(self.home, record, self._adopted)
        self._service.touch(self._mailbox)

    @property
    def finished(self) -> bool:
        """Nothing is left to hand over."""
        return self.adopted and not self._mailbox.messages

    def _adopted(self, error: TidingsError | None) -> None:
        self._asked = False
        self.adopted |= error is None

    # --- as a consumer ------------------------------------------------------------------------------------------------

    def room(self) -> int:
        return 0 if self._resting or (not self.adopted and not self._asked) else ROUND_BYTES

    def deliver(self, now_ms: int, attempts: list[int], tags: list[int], messages: list[bytes]) -> None:
        del now_ms, attempts
        for tag, message in zip(tags, messages, strict=True):
            self._consumer_side.ask(
                self.home,
                lambda token, message=message: HandOverMessage(token, self._mailbox.name, message),  # type: ignore[misc]
                lambda error, tag=tag: self._came(tag, error),  # type: ignore[misc]
            )

    def _came(self, tag: int, error: TidingsError | None) -> None:
        if tag not in self._consumer.unacknowledged:
            return  # it has ended
        if error is None:
            self._service.finished(self._mailbox, self._mailbox.acknowledge(self._consumer, [tag]))
        else:
            self._resting = True
            self._mailbox.spare(self._mailbox.reject(self._consumer, [tag]))
            self._service.returned(self._mailbox, [])
        self._consumer.credit += 1
        self._service.touch(self._mailbox)

    def drained(self) -> None:
        """Nobody drains it."""

    def removed(self, code: str, reason: str) -> None:
        """The subscription is gone, and what waited in it."""
