"""Mailboxes in memory alone whose consumers do not keep up.

One that is full acts by its policy: its publishers wait, or it loses messages, or its consumers' connections end. No
publisher waits for somebody who takes nothing at all: such a mailbox *stalls*, and loses what comes until it is half
empty. When memory as a whole is short, the connections of those end who hold much of it and take nothing.

Consumers get a notice about once a second of how many messages their mailbox has lost since, by reason; if several
share it, each one whose output has room.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import assert_never

from tidings.delivery.mailbox import Mailbox, SlowPolicy
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.effects import Close, NotifyDropped
from tidings.node.mailboxes.backpressure import Backpressure
from tidings.node.mailboxes.mailbox_table import MailboxTable
from tidings.node.plane import Plane
from tidings.node.settings import NodeSettings
from tidings.tracking.recording.losses import LossCause

DROPS = ("oldest", "newest", "stalled", "far", "cost")  # reasons: docs/wire.md, DROPPED


class MemoryLimits:
    def __init__(
        self,
        plane: Plane,
        mailboxes: MailboxTable,
        backpressure: Backpressure,
        settings: NodeSettings,
        outbox: AnswerBatch,
        lose: Callable[[Mailbox, int, LossCause], None],
    ) -> None:
        """`lose` is called before a message is lost that waits."""
        self.dropped = dict.fromkeys(DROPS, 0)  # of all mailboxes, those that are gone too
        self.slow: set[int] = set()  # connections to be closed because they did not keep up
        self._plane, self._mailboxes, self._backpressure = plane, mailboxes, backpressure
        self._settings, self._outbox, self._lose = settings, outbox, lose
        self._untold: dict[Mailbox, Counter[str]] = {}  # what was lost since consumers were told, by reason
        self._full_since_ms: dict[Mailbox, int] = {}  # those that publishers wait for

    def admits(self, mailbox: Mailbox, size: int, publisher: int | None) -> bool:
        """True if the mailbox takes one more message; if it is full, its policy acts."""
        limit = self._settings.sink_bytes_max
        if mailbox.bytes + size <= limit:
            if mailbox.bytes <= limit // 2:
                mailbox.stalled = False
            return True
        reason = "newest"
        match mailbox.policy:
            case SlowPolicy.PUSH_BACK:
                if not mailbox.stalled and publisher is not None:
                    self._backpressure.hold(publisher, mailbox)
                    return True
                reason = "stalled" if mailbox.stalled else "far"
            case SlowPolicy.DROP_OLDEST:
                while (oldest := mailbox.backlog.first()) is not None:
                    self._lose(mailbox, oldest.seq, LossCause.DROPPED)
                    mailbox.drop_oldest()
                    self._lost(mailbox, "oldest")
                    if mailbox.bytes + size <= limit:
                        return True
            case SlowPolicy.DISCONNECT:
                self.slow.update(consumer.connection for consumer in mailbox.consumers)
            case SlowPolicy.DROP_NEWEST:
                pass
            case _:
                assert_never(mailbox.policy)
        self._lost(mailbox, reason)
        return False

    def _lost(self, mailbox: Mailbox, reason: str, count: int = 1) -> None:
        mailbox.dropped += count
        self.dropped[reason] += count
        if (
            mailbox.policy is not SlowPolicy.DISCONNECT or reason == "cost"
        ):  # otherwise the end of the connection says so
            self._untold.setdefault(mailbox, Counter())[reason] += count

    def tick(self) -> None:
        """About once a second: count what filters were given up for, and tell consumers what their mailboxes lost. What
        happens while there is none is reported to the next."""
        for sink, count in self._plane.take_overruns():
            if (mailbox := self._mailboxes.by_sink.get(sink)) is not None:
                self._lost(mailbox, "cost", count)
        for mailbox in list(self._untold):
            if not self._mailboxes.is_open(mailbox):
                del self._untold[mailbox]
                continue
            there = [one for one in mailbox.consumers if one.connection in self._outbox.connected]
            if roomy := [one for one in there if self._plane.room(one.connection)]:
                for reason, count in self._untold.pop(mailbox).items():
                    for consumer in roomy:
                        self._outbox.add(NotifyDropped(consumer.connection, consumer.subscription, count, reason))

    def relieve(self, now_ms: int) -> None:
        """Let publishers go whose mailbox has room again, or whose consumers take nothing at all; end connections that
        did not keep up."""
        for mailbox in self._backpressure.mailboxes():
            since_ms = max(mailbox.taken_ms, self._full_since_ms.setdefault(mailbox, now_ms))
            roomy = mailbox.bytes <= self._settings.sink_bytes_max // 2
            if roomy or now_ms - since_ms >= self._settings.stall_ms or not self._mailboxes.is_open(mailbox):
                mailbox.stalled = not roomy
                del self._full_since_ms[mailbox]
                self._backpressure.release(mailbox)
        for connection in self.slow & self._outbox.connected:
            self._outbox.add(Close(connection, "E_SLOW_CONSUMER", "a subscription did not keep up"))
        self.slow.clear()

    def clear_stalled(self, now_ms: int, attended: Iterable[Mailbox], excess_bytes: int) -> None:
        """Memory is short, and those hold much of it who take nothing: their connections end, the greatest first."""
        idle = [m for m in attended if not m.durable and now_ms - m.taken_ms >= self._settings.stall_ms]
        for mailbox in sorted(idle, key=lambda one: one.bytes, reverse=True):
            if excess_bytes <= 0 or not mailbox.bytes:
                break
            excess_bytes -= mailbox.bytes
            self.slow.update(consumer.connection for consumer in mailbox.consumers)
