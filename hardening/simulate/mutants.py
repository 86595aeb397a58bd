"""Seeded defects in the engine's dispatch: the simulation of the wire workload must notice each of them.

`python -m hardening.simulate --mutants` prints a table of these and of `promise_mutants`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from hardening.simulate.planting import Method, Mutant
from tidings.delivery.mailbox import Mailbox
from tidings.kernel.events import (
    Acknowledged,
    ClockDrift,
    CreditGiven,
    FrameError,
    MemoryShort,
    OutputRoom,
    Published,
    SlowConsumer,
    Transacted,
)
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.client_sessions import ClientSessions
from tidings.node.clients.publications import Publications
from tidings.node.completions import Copy
from tidings.node.engine import Engine
from tidings.node.inputs import PersistedNow
from tidings.node.mailboxes.memory_limits import MemoryLimits
from tidings.node.mailboxes.sync_write import SyncWrite
from tidings.node.network.relay_inbox import RelayInbox
from tidings.node.node import Node
from tidings.node.requests import Ack
from tidings.sim.host import Host

# --- how methods are broken ---------------------------------------------------------------------------------------


def _dropped(kind: type) -> Callable[[Method], Method]:
    """Events of this kind are not handled."""

    def breaks(original: Method) -> Method:
        def client_event(self: Engine, now: Any, client: Any, event: Any) -> None:
            if not isinstance(event, kind):
                original(self, now, client, event)

        return client_event

    return breaks


def _changed(kind: type, change: Callable[[Engine, Any], Any]) -> Callable[[Method], Method]:
    """Events of this kind are handled as others."""

    def breaks(original: Method) -> Method:
        def client_event(self: Engine, now: Any, client: Any, event: Any) -> None:
            original(self, now, client, change(self, event) if isinstance(event, kind) else event)

        return client_event

    return breaks


def _elsewhere(engine: Engine, event: Any) -> Any:
    """The same of another client that has the same subscription."""
    others = [one for one in engine.node.connections.values() if one.number != event.connection]
    others = [one for one in others if event.subscription in one.subscriptions]
    return event._replace(connection=others[0].number) if others else event


def _nothing(original: Method) -> Method:
    return lambda self, *arguments, **more: None


def _each(number: int) -> Callable[[Method], Method]:
    """One in this number of calls does nothing."""

    def breaks(original: Method) -> Method:
        calls = count(1)
        return lambda self, *arguments: None if next(calls) % number == 0 else original(self, *arguments)

    return breaks


def _twice(original: Method) -> Method:
    def call(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        original(self, *arguments)

    return call


def _published_at_once(original: Method) -> Method:
    def client_event(self: Engine, now: Any, client: Any, event: Any) -> None:
        if isinstance(event, Transacted):
            sinks = self._plane.match(event.message)
            self.node.publishing.message(
                now.wall_ms, Published(event.connection, event.receipt, False, 0, event.message, sinks)
            )
        else:
            original(self, now, client, event)

    return client_event


def _confirmed_early(original: Method) -> Method:
    def write_alone(self: Engine, event: Published) -> bool:
        begun: bool = original(self, event)
        if begun and event.receipt:
            self._plane.confirm(event.connection, (event.receipt,))
            self._alone = event._replace(receipt=0)
        return begun

    return write_alone


def _error_ignored(original: Method) -> Method:
    def answer_alone(self: Engine, now: Any, told: Any) -> None:
        original(self, now, PersistedNow() if isinstance(told, PersistedNow) else told)

    return answer_alone


def _acknowledged_early(original: Method) -> Method:
    def store(self: RelayInbox, now_ms: int, number: int, link: Any, copy: Copy) -> None:
        self._acks.setdefault(number, []).append(copy.tag)
        original(self, now_ms, number, link, copy)

    return store


def _stays_stopped(original: Method) -> Method:
    def go_on(self: ClientSessions, now: Any, client: Any) -> None:
        if not client.closing:
            self._plane.handled(client.connection, now.wall_ms)

    return go_on


def _unwritten(original: Method) -> Method:
    return lambda self, records: None


def _verdict_lost(original: Method) -> Method:
    def of(cls: type[Ack], subscription: int, flags: int, tags: Sequence[int], session: int) -> Ack:
        ack: Ack = original(cls, subscription, flags & 1, tags, session)
        return ack

    return of


def _uncounted(original: Method) -> Method:
    def admits(self: MemoryLimits, mailbox: Mailbox, size: int, publisher: int | None) -> bool:
        dropped = mailbox.dropped
        admitted: bool = original(self, mailbox, size, publisher)
        mailbox.dropped = dropped
        return admitted

    return admits


def _half_loaded(original: Method) -> Method:
    def loaded(self: Node, now_ms: int, asked: Any, messages: Mapping[int, bytes], damaged: Any) -> None:
        original(self, now_ms, asked, messages, [seq for seq in messages if seq % 3 == 0])

    return loaded


_EVENTS = (Engine, "_client_event")
MUTANTS = (
    Mutant("credit-dropped", "CreditGiven is not handled", *_EVENTS, _dropped(CreditGiven)),
    Mutant("room-ignored", "OutputRoom is not handled", *_EVENTS, _dropped(OutputRoom)),
    Mutant("slow-ignored", "SlowConsumer is not handled", *_EVENTS, _dropped(SlowConsumer)),
    Mutant("memory-ignored", "MemoryShort is not handled", *_EVENTS, _dropped(MemoryShort)),
    Mutant("clock-ignored", "ClockDrift is not handled", *_EVENTS, _dropped(ClockDrift)),
    Mutant("error-ignored", "FrameError is not handled", *_EVENTS, _dropped(FrameError)),
    Mutant("ack-dropped", "Acknowledged is not handled", *_EVENTS, _dropped(Acknowledged)),
    Mutant(
        "ack-misplaced", "an acknowledgement counts for another client", *_EVENTS, _changed(Acknowledged, _elsewhere)
    ),
    Mutant("credit-misplaced", "credit counts for another client", *_EVENTS, _changed(CreditGiven, _elsewhere)),
    Mutant(
        "credit-doubled",
        "credit counts twice",
        *_EVENTS,
        _changed(CreditGiven, lambda _, event: event._replace(more=2 * event.more)),
    ),
    Mutant(
        "cumulative-lost",
        "a cumulative acknowledgement counts for one delivery",
        *_EVENTS,
        _changed(Acknowledged, lambda _, event: event._replace(flags=event.flags & ~1)),
    ),
    Mutant("verdict-lost", "RETRY, RELEASE and DEAD count as DONE", Ack, "of", _verdict_lost),
    Mutant("transaction-ignored", "Transacted is published at once", *_EVENTS, _published_at_once),
    Mutant("remote-dropped", "RemoteMessage is not handled", Publications, "arrived", _nothing),
    Mutant(
        "relayed-early", "Relayed is acknowledged before it is stored", RelayInbox, "_store", _acknowledged_early, 15
    ),
    Mutant("loaded-ignored", "Loaded is not handled", Node, "loaded", _nothing),
    Mutant("loaded-damaged", "one in three loaded messages counts as damaged", Node, "loaded", _half_loaded),
    Mutant("receipt-lost", "one in ten receipts is not given", AnswerBatch, "accepted", _each(10)),
    Mutant("receipt-doubled", "receipts are given twice", AnswerBatch, "accepted", _twice),
    Mutant("persisted-early", "Persisted is reported without a write", Host, "append", _unwritten),
    Mutant("solo-early", "PersistNow is confirmed before it is written", Engine, "_write_alone", _confirmed_early, 40),
    Mutant("solo-error", "PersistedNow with an error counts as written", Engine, "_answer_alone", _error_ignored, 75),
    Mutant("solo-kept", "what PersistNow wrote is not handed on", SyncWrite, "end", _nothing),
    Mutant("resume-lost", "ResumeReading is not asked for", ClientSessions, "go_on", _stays_stopped),
    Mutant("client-stays", "ClientLost is not handled", ClientSessions, "lost", _nothing),
    Mutant("delay-ignored", "what is tried again does not rest", Mailbox, "_rest", _nothing),
    Mutant("all-served", "all consumers are served where one is to be", Mailbox, "served", _nothing),
    Mutant("drops-uncounted", "what a full mailbox drops is not counted", MemoryLimits, "admits", _uncounted),
)
