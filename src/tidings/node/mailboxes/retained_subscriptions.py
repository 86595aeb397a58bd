"""Retained subscriptions: made, read from an offset, released, and held to their limits.

A read asks the store for the next messages after an offset, lets a selector choose among them, and answers with those
and the offset to go on from, which is further than the last one sent if the selector refused what follows.

What is dropped is noted in the batch that drops it: readers learn of losses from that note, after a crash too. The
note of a subscription that is forgotten stays, so that one of the same name knows what its readers cannot get any more.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import assert_never

from tidings.delivery.last_values import LastValues
from tidings.delivery.retained import RetainedMailbox, Retention
from tidings.delivery.store import Acked, MailboxAdded, Note, Recovered
from tidings.errors import LimitError, SecurityError, TidingsError, UsageError
from tidings.kernel.codec import MessageBatch, Program
from tidings.model.codec import encode_predicate
from tidings.model.destination import MORE_LEVELS, DestinationPattern
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.session import Connection
from tidings.node.clients.subscription_plan import check_name, predicate_of, restricted
from tidings.node.completions import AnswerRetention
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.requests import Done, Failed, ReadRetained, Release, Retain
from tidings.node.settings import NodeSettings

READ_MESSAGES_MAX = 256  # at a time: their bytes are in memory meanwhile
READS_MAX = 1000  # that wait for the store
NOTE = "retained/"
LAST_VALUES = "last-values"  # the broker's own
RETAIN_PROPERTY = "JMSXRetain"
Kept = Retain | ReadRetained | Release


@dataclass(slots=True)
class _Read:
    client: Connection
    request: ReadRetained
    mailbox: RetainedMailbox
    program: Program | None
    seqs: list[int]
    missing: set[int]
    found: dict[int, bytes] = field(default_factory=dict)
    first: int = 0  # the last offset that was gone when it began

    def gone(self) -> int:
        """The last offset that is gone, as far as this looks; without messages, it does not look beyond its place."""
        asked, last = self.request, self.mailbox.range[1]
        reach = self.seqs[-1] if self.seqs else (asked.up_to or last) if asked.messages else asked.after
        return self.mailbox.gone(asked.after, reach)


class RetainedSubscriptions:
    def __init__(self, service: MailboxService, journal: Journal, outbox: AnswerBatch, settings: NodeSettings) -> None:
        self._service, self._mailboxes, self._journal = service, service.mailboxes, journal
        self._outbox, self._settings = outbox, settings
        self.reads: list[_Read] = []  # under way
        self.retrieved = 0  # messages sent to readers
        self._parked: list[tuple[Connection, ReadRetained]] = []  # until all last values are known
        self._former: dict[str, int] = {}  # the last offsets of those that were forgotten, by name

    def recover(self, recovered: Recovered) -> None:
        damaged = bool(recovered.damaged)
        for mailbox in self._all():
            mailbox.restore(recovered.notes.get(NOTE + mailbox.name, b""), recovered.last_seq, damaged=damaged)
            if damaged:  # the store says so for as long as it has the damaged place, and no longer
                self._journal.later(_note(mailbox))
        for key, marks in recovered.notes.items():
            name = key.removeprefix(NOTE)
            if name != key and marks and name not in self._mailboxes.by_name:
                self._former[name] = min(json.loads(marks)[1], recovered.last_seq)

    def keep_last_values(self) -> None:
        """Keep the last message of each topic that was published with JMSXRetain."""
        name, pattern = f"retained:{LAST_VALUES}", DestinationPattern(MORE_LEVELS)
        if name not in self._mailboxes.by_name:
            predicate = encode_predicate(predicate_of(pattern, Selector(f"{RETAIN_PROPERTY} = TRUE")))
            retention = Retention(0, self._settings.retained_bytes_max, str(pattern), last=True)
            self._mailboxes.make_retained(name, predicate, retention)

    @property
    def busy(self) -> bool:
        """Something is to be loaded."""
        return bool(self.reads) or any(one.unknown for one in self._last_values())

    def _last_values(self) -> list[LastValues]:
        return [one for one in self._mailboxes.retained.values() if isinstance(one, LastValues)]

    def carry_out(self, now_ms: int, client: Connection, request: Kept) -> None:
        match request:
            case Retain():
                self._retain(now_ms, client, request)
            case ReadRetained():
                self._read(client, request)
            case Release():
                self._release(client, request)
            case _:
                assert_never(request)

    def lost(self, connection: int) -> None:
        self.reads = [read for read in self.reads if read.client.number != connection]
        self._parked = [one for one in self._parked if one[0].number != connection]

    def wanted(self) -> list[int]:
        """Messages that reads still need from the store."""
        unknown = [seq for mailbox in self._last_values() for seq in islice(mailbox.unknown, READ_MESSAGES_MAX)]
        return unknown + [seq for read in self.reads for seq in read.seqs if seq in read.missing]

    def loaded(self, asked: Collection[int], messages: Mapping[int, bytes]) -> None:
        """The store has brought some. What it was asked for and has not, was released meanwhile or is damaged."""
        tried = set(asked)
        for last in self._last_values():
            for seq in [seq for seq in last.unknown if seq in messages]:
                self._service.learn(last, seq, messages[seq])
            for seq in [seq for seq in last.unknown if not last.holds(seq)]:  # expired meanwhile
                del last.unknown[seq]
        if self._parked and not any(one.unknown for one in self._last_values()):
            parked, self._parked = self._parked, []
            for client, request in parked:
                if not client.gone:
                    self._start(client, request, *self._plan(client, request))
        for read in self.reads:
            for seq in read.missing & tried:
                if seq in messages:
                    read.found[seq] = messages[seq]
                if seq in messages or not read.mailbox.holds(seq):
                    read.missing.discard(seq)
        for read in [read for read in self.reads if not read.missing]:
            self.reads.remove(read)
            self._answer(read)

    def gave_up(self, seqs: Collection[int]) -> None:
        """The store has lost these for good."""
        for mailbox in self._all():
            lost = [seq for seq in seqs if mailbox.holds(seq)]
            for seq in lost:
                mailbox.forget(seq)
            if lost:
                self._service.finished(mailbox, lost)
                self._journal.later(_note(mailbox))
        for read in self.reads:
            read.missing.difference_update(seqs)

    def tick(self, now_ms: int) -> None:
        """About once a second: what is too old or too much goes."""
        for mailbox in self._all():
            grown = mailbox.look(now_ms)
            limit = mailbox.over(now_ms)
            if limit:
                self._drop(mailbox, limit)
            if grown or limit:
                self._journal.later(_note(mailbox))

    def answer(self, completion: AnswerRetention, error: TidingsError | None) -> None:
        (first, last), made_ms = completion.mailbox.range, completion.mailbox.retention.made_ms
        fields: dict[str, Value] = {"first": first, "last": last, "made_ms": made_ms}
        self._outbox.answer_with(completion.connection, Done(completion.receipt, fields), error)

    # --- requests -------------------------------------------------------------------------------------------------

    def _retain(self, now_ms: int, client: Connection, request: Retain) -> None:
        name = self._name(request.name)
        pattern = DestinationPattern.parse(request.destination)
        if pattern.queue:
            raise UsageError(
                "E_QUEUE_DURABLE",
                "queues cannot be retained: a queue keeps its messages anyway; retain a topic instead",
            )
        if not client.principal.may("subscribe", str(pattern)):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not subscribe to {pattern}")
        limit = self._settings.retained_bytes_max
        if request.bytes_max > limit:
            raise LimitError("E_RETAIN_LIMIT", f"at most {limit} bytes are retained for one subscription")
        selector = restricted(Selector(request.selector), client.principal.restriction(str(pattern)))
        predicate = encode_predicate(predicate_of(pattern, selector))
        retention = Retention(request.age_ms, request.bytes_max or limit, str(pattern), request.last, now_ms)
        mailbox = self._mailboxes.by_name.get(name)
        if isinstance(mailbox, RetainedMailbox):
            if self._mailboxes.predicate(mailbox) != predicate:
                raise UsageError("E_RETAIN_DIFFERS", f"{request.name!r} retains another topic or selector")
            if mailbox.retention.last != request.last:
                raise UsageError("E_RETAIN_DIFFERS", f"{request.name!r} retains other messages of its topics")
            retention = replace(retention, made_ms=mailbox.retention.made_ms)
            if mailbox.retention != retention and not request.keep_limits:
                mailbox.retention = retention
                self._journal.change(_added(mailbox, predicate))
        else:
            mailbox = self._mailboxes.make_retained(name, predicate, retention)
            if name in self._former:
                mailbox.begin(self._former.pop(name))
        self._journal.then(AnswerRetention(client.number, request.receipt, mailbox))

    def _read(self, client: Connection, request: ReadRetained) -> None:
        if len(self.reads) + len(self._parked) >= READS_MAX:
            raise LimitError("E_RETAINED_READS", f"at most {READS_MAX} reads wait at a time")
        mailbox, program = self._plan(client, request)
        if isinstance(mailbox, LastValues) and mailbox.unknown:
            self._parked.append((client, request))
        else:
            self._start(client, request, mailbox, program)

    def _plan(self, client: Connection, request: ReadRetained) -> tuple[RetainedMailbox, Program | None]:
        """Find the mailbox to be read, and the selector."""
        mailbox = self._find(request.name or LAST_VALUES)
        destination, operation = mailbox.retention.destination, "browse"
        if request.destination:
            if not isinstance(mailbox, LastValues):
                raise UsageError("E_RETAINED_LAST", f"{request.name!r} keeps all messages: read it without destination")
            pattern = DestinationPattern.parse(request.destination)
            destination, operation = str(pattern), operation if request.name else "subscribe"
        if not client.principal.may(operation, destination):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not read {destination}")
        selector = restricted(Selector(request.selector), client.principal.restriction(destination, operation))
        return mailbox, Program(selector.program) if selector.text.strip() else None

    def _start(
        self, client: Connection, request: ReadRetained, mailbox: RetainedMailbox, program: Program | None
    ) -> None:
        count = min(request.messages, READ_MESSAGES_MAX)
        if isinstance(mailbox, LastValues) and request.destination:
            found = mailbox.find(DestinationPattern.parse(request.destination))
            seqs = [seq for seq in found if seq > request.after][:count]
        else:
            seqs = mailbox.after(request.after, count)
        if request.up_to:
            seqs = [seq for seq in seqs if seq <= request.up_to]
        read = _Read(client, request, mailbox, program, seqs, set(seqs))
        read.first = read.gone()
        if request.strict and request.after < read.first:
            raise _gone(request, read.first)
        if seqs:
            self.reads.append(read)
        else:
            self._answer(read)

    def _release(self, client: Connection, request: Release) -> None:
        mailbox = self._find(request.name)
        destination = mailbox.retention.destination
        if not client.principal.may("subscribe", destination):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not release {destination}")
        if request.forget:
            self._former[mailbox.name] = mailbox.range[1]
            mailbox.release(mailbox.range[1])
            self._journal.change(_note(mailbox))
            self._service.remove(mailbox)
        else:
            self._drop(mailbox, request.up_to)
            self._journal.change(_note(mailbox))
        self._journal.then(AnswerRetention(client.number, request.receipt, mailbox))

    # --- inside ---------------------------------------------------------------------------------------------------

    def _answer(self, read: _Read) -> None:
        """Up to this number of bytes, but at least one message; then the position to go on from."""
        there = [(seq, read.found[seq]) for seq in read.seqs if seq in read.found]
        chosen = _chosen(read.program, [message for _, message in there])
        whole = len(there) == len(read.seqs)  # then what was dropped meanwhile is no loss: here it is
        first, newest = read.first if whole else read.gone(), read.mailbox.range[1]
        size, sent, request = 0, list[tuple[int, bytes]](), read.request
        if request.strict and request.after < first:  # some went meanwhile
            self._outbox.answer(read.client.number, Failed(request.receipt, _gone(request, first)))
            return
        next_after = read.seqs[-1] if read.seqs else max(request.after, min(first, request.up_to or first))
        for (seq, message), wanted in zip(there, chosen, strict=True):
            if not wanted:
                continue
            if sent and size + len(message) > request.bytes_max:
                next_after = seq - 1
                break
            size += len(message)
            sent.append((seq, message))
        self.retrieved += len(sent)
        fields: dict[str, Value] = {"first": first, "last": newest, "next": next_after}
        fields["made_ms"] = read.mailbox.retention.made_ms
        self._outbox.answer(read.client.number, Done(request.receipt, fields, tuple(sent)))

    def _drop(self, mailbox: RetainedMailbox, offset: int) -> None:
        if gone := mailbox.release(offset):
            self._journal.later(Acked(mailbox.number, tuple(gone)))

    def _all(self) -> list[RetainedMailbox]:
        return list(self._mailboxes.retained.values())

    def _find(self, name: str) -> RetainedMailbox:
        mailbox = self._mailboxes.by_name.get(self._name(name))
        if not isinstance(mailbox, RetainedMailbox):
            raise UsageError("E_RETAINED_UNKNOWN", f"there is no retained subscription {name!r}")
        return mailbox

    def _name(self, name: str) -> str:
        check_name("retained", name)
        if not name:
            raise UsageError("E_SUBSCRIBE_NAME", "a retained subscription has a name")
        return f"retained:{name}"


def _gone(request: ReadRetained, first: int) -> UsageError:
    return UsageError("E_RETAINED_GONE", f"offsets up to {first} of {request.name!r} are gone")


def _note(mailbox: RetainedMailbox) -> Note:
    return Note(NOTE + mailbox.name, mailbox.marks())


def _added(mailbox: RetainedMailbox, predicate: bytes) -> MailboxAdded:
    return MailboxAdded(mailbox.number, mailbox.name, mailbox.kind.value, predicate, mailbox.retention.to_bytes())


def _chosen(program: Program | None, messages: list[bytes]) -> list[bool]:
    if program is None or not messages:
        return [True] * len(messages)
    data = b"".join(part for one in messages for part in (len(one).to_bytes(4, "little"), one))
    batch = MessageBatch.from_messages(data, max(map(len, messages)))
    return [truth is True for truth in program.evaluate(batch)]
