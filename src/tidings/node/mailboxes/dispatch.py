"""Giving out what mailboxes hold, at the end of a turn: to each consumer what it has credit and room for."""

from tidings.delivery.mailbox import Consumer, Mailbox
from tidings.node.clients.consumers import Consumers
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.plane import Plane
from tidings.node.tracing.recording import Tracking


class Dispatch:
    def __init__(self, plane: Plane, service: MailboxService, consuming: Consumers, tracking: Tracking) -> None:
        self._plane, self._service, self._consuming, self._tracking = plane, service, consuming, tracking

    def round(self, now_ms: int) -> list[int]:
        """All mailboxes that were touched. Returns what the store must bring so that they can go on."""
        wanted: list[int] = []
        for mailbox in self._service.take_touched():
            while self._give_out(now_ms, mailbox):
                pass
            if mailbox.resting:
                self._service.redelivery.note(mailbox, mailbox.resting.due_ms)
            wanted += mailbox.wanted
        return wanted

    def _give_out(self, now_ms: int, mailbox: Mailbox) -> bool:
        """One round; True if there may be more to deliver. Room is asked for even if it seems used up: the plane
        announces new room only to those it has refused."""
        if mailbox.backlog:
            for consumer in mailbox.consumers:
                output = consumer.output
                consumer.room_bytes = self._plane.room(consumer.connection) if output is None else output.room()
        runs: dict[Consumer, tuple[list[int], list[int], list[bytes]]] = {}
        for consumer, tag, attempt, message in mailbox.dispatch(now_ms):
            run = runs.get(consumer)
            if run is None:
                run = runs[consumer] = ([], [], [])
            run[0].append(attempt)
            run[1].append(tag)
            run[2].append(message)
        for consumer, (attempts, tags, messages) in runs.items():
            if consumer.output is not None:
                consumer.output.deliver(now_ms, attempts, tags, messages)
                continue
            if consumer.settles:
                mailbox.taken_ms = now_ms
                self._service.finished(mailbox, mailbox.acknowledge(consumer, tags))
                consumer.credit += len(tags)
                tags = [0] * len(tags)
            self._plane.deliver(consumer.connection, consumer.subscription, attempts, tags, messages)
            self._tracking.delivered(now_ms, mailbox, consumer.connection, messages)
        if mailbox.expired:
            self._service.late(mailbox, mailbox.expired)
        self._consuming.drained(mailbox)
        return bool(runs and mailbox.backlog) and not mailbox.wanted
