"""Records that a client keeps with the broker, and what happens when the client does not come back.

A record is a small value under a name, on disk once its KEEP is answered; one that is kept in a transaction becomes
valid with it. LINGER sets what is left of a client when its connection ends:

    LINGER ──► held ──connection ends──► away ──lifetime over──► its records and durable subscriptions are deleted
                ▲                          │ └──will delay over──► its will is published
                └────────LINGER────────────┘

All of it is under a name: records and durable subscriptions called `mqtt/…` belong to what lingers as `mqtt`. The time
of an absence starts again when the broker restarts, unless it was already on disk that the client had left.
"""

import heapq
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

from tidings.delivery.store import Note, Recovered
from tidings.errors import LimitError, SecurityError, TidingsError, UsageError
from tidings.kernel.codec import decode_message, encode_message
from tidings.model.values import Value
from tidings.node.clients.answer_batch import AnswerBatch
from tidings.node.clients.publications import Publications
from tidings.node.clients.session import Connection
from tidings.node.clients.subscription_plan import check_name, durable_name, durable_parts
from tidings.node.completions import AnswerRecall, AnswerRequest, PublishEvent
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.plane import Plane
from tidings.node.requests import Done, Keep, Linger, Recall

RECORD, LINGER = "record/", "linger/"
RECORDS_MAX = 16  # of one client
RECORD_BYTES_MAX = 1 << 20
FOREVER_MS = (1 << 48) - 1
Key = tuple[str, str]  # the client's id and the name


@dataclass(slots=True, eq=False)
class _Stay:
    key: Key
    lifetime_ms: int = 0
    stored: bool = False  # the store knows of it
    holder: int | None = None  # its connection
    will: bytes = b""
    will_delay_ms: int = 0
    will_expiry_ms: int = 0
    left_ms: int | None = None


class ClientRecords:
    def __init__(
        self,
        plane: Plane,
        service: MailboxService,
        journal: Journal,
        outbox: AnswerBatch,
        publishing: Publications,
    ) -> None:
        self._plane, self._service, self._journal = plane, service, journal
        self._outbox, self._publishing = outbox, publishing
        self._records: dict[str, dict[str, bytes]] = {}  # by client, then by name
        self._stays: dict[Key, _Stay] = {}
        self._held: dict[int, set[Key]] = {}  # by connection
        self._left: list[_Stay] = []  # since the last turn
        self._timers: list[tuple[int, int, _Stay, str]] = []
        self._order = count()

    @property
    def at_rest(self) -> bool:
        return not self._left

    @property
    def lingering(self) -> int:
        """Clients of which something stays when they leave."""
        return sum(stay.lifetime_ms > 0 for stay in self._stays.values())

    def recover(self, recovered: Recovered) -> None:
        for note, value in recovered.notes.items():
            if value and note.startswith(RECORD):
                owner, name = durable_parts(note.removeprefix(RECORD))
                self._records.setdefault(owner, {})[name] = value
            elif value and note.startswith(LINGER):
                key = durable_parts(note.removeprefix(LINGER))
                lifetime_ms, left_ms = json.loads(value)
                stay = self._stays[key] = _Stay(key, lifetime_ms, True, left_ms=left_ms or None)
                self._left.append(stay)

    # --- requests -------------------------------------------------------------------------------------------------

    def keep(self, client: Connection, request: Keep) -> None:
        check_name("record", request.name)
        if len(request.value) > RECORD_BYTES_MAX:
            raise LimitError("E_RECORD_SIZE", f"a record has at most {RECORD_BYTES_MAX} bytes")
        own = self._records.get(client.client_id, {})
        if request.name not in own and len(own) >= RECORDS_MAX:
            raise LimitError("E_RECORDS", f"a client keeps at most {RECORDS_MAX} records")
        if request.session:
            client.transaction(request.session).records[request.name] = request.value
            self._outbox.answer(client.number, Done(request.receipt))
            return
        self.set(client.client_id, request.name, request.value)
        self._journal.change(note_of(client.client_id, request.name, request.value))
        self._journal.then_changed(AnswerRequest(client.number, Done(request.receipt)))

    def set(self, owner: str, name: str, value: bytes) -> None:
        """The value counts from now on; empty: there is none."""
        own = self._records.setdefault(owner, {})
        if value:
            own[name] = value
        else:
            own.pop(name, None)
        if not own:
            del self._records[owner]

    def recall(self, client: Connection, request: Recall) -> None:
        """Answered when all that was kept before is on disk, in transactions too."""
        self._journal.then(AnswerRecall(client, request.receipt, request.name))

    def answer(self, completion: AnswerRecall) -> None:
        client, receipt, name = completion.client, completion.receipt, completion.name
        own = self._records.get(client.client_id, {})
        fields: dict[str, Value] = {one: value for one, value in own.items() if one.startswith(f"{name}/")}
        self._outbox.answer(client.number, Done(receipt, fields))

    def linger(self, now_ms: int, client: Connection, request: Linger) -> None:
        check_name("linger", request.name)
        if not request.name or "/" in request.name:
            raise UsageError("E_LINGER_NAME", "a client lingers under a name without /")
        if request.will:
            self._check_will(client, request.will)
        key = (client.client_id, request.name)
        if (before := self._stays.get(key)) is not None:
            self._resumed(now_ms, before, client.number, ended=request.clear)
        stored = before is not None and before.stored and not request.clear
        if request.lifetime_ms or request.will:
            stay = _Stay(key, request.lifetime_ms, stored, client.number, request.will)
            stay.will_delay_ms, stay.will_expiry_ms = request.will_delay_ms, request.will_expiry_ms
            self._stays[key] = stay
            self._held.setdefault(client.number, set()).add(key)
            if request.lifetime_ms:
                stay.stored = True
                self._journal.change(_linger_note(stay))
        elif stored:
            self._stays[key] = _Stay(key, 0, True, client.number)
            self._held.setdefault(client.number, set()).add(key)
        self._journal.then_changed(AnswerRequest(client.number, Done(request.receipt)))

    def _check_will(self, client: Connection, will: bytes) -> None:
        destination = decode_message(will).destination
        if destination.queue or not client.principal.may("publish", str(destination)):
            raise SecurityError("E_FORBIDDEN", f"{client.principal.name} may not publish to {destination}")

    def _resumed(self, now_ms: int, before: _Stay, connection: int, *, ended: bool) -> None:
        """The client is here again, or says something else; a will that waits for its delay is dropped."""
        del self._stays[before.key]
        if before.holder is not None:
            self._held.get(before.holder, set()).discard(before.key)
        taken_over = before.holder not in (None, connection)
        if before.will and (ended or (taken_over and not before.will_delay_ms)) and before.holder != connection:
            self._publish(now_ms, before)
        if ended:
            self._delete(before)

    # --- absence --------------------------------------------------------------------------------------------------

    def lost(self, connection: int) -> None:
        """Its connection is gone; what follows from that waits for the end of the turn."""
        for key in self._held.pop(connection, ()):
            stay = self._stays[key]
            stay.holder = None
            self._left.append(stay)

    def settle(self, now_ms: int) -> None:
        """At the end of a turn: start the times of those that have left."""
        left, self._left = self._left, []
        for stay in left:
            if self._stays.get(stay.key) is not stay:
                continue
            known = stay.left_ms is not None
            stay.left_ms = stay.left_ms if stay.left_ms is not None else now_ms
            if stay.lifetime_ms and not known:
                self._journal.change(_linger_note(stay))
            if stay.will:
                self._at(stay, stay.left_ms + min(stay.will_delay_ms, stay.lifetime_ms), "will")
            if stay.lifetime_ms < FOREVER_MS:
                self._at(stay, stay.left_ms + stay.lifetime_ms, "end")
        if left:
            self._run(now_ms)

    def tick(self, now_ms: int) -> None:
        """About once a second."""
        self.settle(now_ms)
        self._run(now_ms)

    def _at(self, stay: _Stay, due_ms: int, what: str) -> None:
        heapq.heappush(self._timers, (due_ms, next(self._order), stay, what))

    def _run(self, now_ms: int) -> None:
        while self._timers and self._timers[0][0] <= now_ms:
            _, _, stay, what = heapq.heappop(self._timers)
            if self._stays.get(stay.key) is not stay:  # the client came back
                continue
            if what == "will":
                self._publish(now_ms, stay)
            else:
                del self._stays[stay.key]
                if stay.will:
                    self._publish(now_ms, stay)
                self._delete(stay)

    def _publish(self, now_ms: int, stay: _Stay) -> None:
        will, stay.will = stay.will, b""
        if stay.will_expiry_ms:
            will = encode_message(replace(decode_message(will), expiration_ms=now_ms + stay.will_expiry_ms))
        try:
            mailboxes = self._service.mailboxes.for_message(will, self._plane.match(will))
            publication = self._publishing.prepare(now_ms, None, will, mailboxes)
        except TidingsError:
            return  # nobody is left to be answered
        self._journal.then(PublishEvent(0, publication))

    def _delete(self, stay: _Stay) -> None:
        """The records and durable subscriptions under this name."""
        owner, name = stay.key
        for one in [one for one in self._records.get(owner, {}) if one.startswith(f"{name}/")]:
            self.set(owner, one, b"")
            self._journal.change(note_of(owner, one, b""))
        if not stay.stored:
            return
        begin, by_name = durable_name(owner, f"{name}/"), self._service.mailboxes.by_name
        for mailbox in [by_name[one] for one in by_name if one.startswith(begin)]:
            if not mailbox.consumers:
                self._service.remove(mailbox)
        self._journal.change(Note(LINGER + durable_name(owner, name), b""))


def note_of(owner: str, name: str, value: bytes) -> Note:
    return Note(RECORD + durable_name(owner, name), value)


def notes_of(owner: str, records: Mapping[str, bytes]) -> list[Note]:
    return [note_of(owner, name, value) for name, value in records.items()]


def _linger_note(stay: _Stay) -> Note:
    return Note(LINGER + durable_name(*stay.key), json.dumps([stay.lifetime_ms, stay.left_ms or 0]).encode())
