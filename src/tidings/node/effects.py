"""Effects: what the node asks of the engine, and the engine of its driver.

A driver carries out the effects of a step in order, before it brings the next input.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.delivery.store import Record
from tidings.node.protocol_session import Hello, Inspect
from tidings.node.requests import Answer
from tidings.overlay import effects as fx
from tidings.tracking.recording.attachments import Attachment
from tidings.tracking.recording.history import HistoryEntry
from tidings.tracking.recording.key_notes import KeyBatch
from tidings.tracking.recording.recorder import Inquiry
from tidings.tracking.trace_answer import KeyQuery


@dataclass(frozen=True, slots=True)
class Reply:
    """Tell the client; its protocol session knows how."""

    connection: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Persist:
    """Write these records durably, all or none, then say `Persisted` with the ticket. There is one at a time."""

    ticket: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class PersistNow:
    """The last effect of its step: a single publisher waits for these records. Write them at once if that is quick, and
    say `PersistedNow`, then `Turn`, before anything else. If it is not quick, say `PersistLate` and later `Persisted`
    with the ticket; if they cannot be written at once, say `NotPersisted`."""

    ticket: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class LoadMessages:
    """Fetch the bytes of these messages from the store, then say `Loaded`."""

    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection after what is in its output."""

    connection: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class NotifyDropped:
    """Tell the client that messages of a subscription were dropped; the reasons are in docs/wire.md."""

    connection: int
    subscription: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Log:
    level: str
    event: str
    fields: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Track:
    """Store these changes, then these entries; until they are on disk, keep them where the archive finds them."""

    changes: tuple[Attachment, ...]
    entries: tuple[HistoryEntry, ...]
    keys: tuple[KeyBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Inquire:
    """Ask the archive of stored histories (`Recorder.look_up`), then say `Resolved` with the number."""

    number: int
    inquiry: Inquiry | KeyQuery


@dataclass(frozen=True, slots=True)
class LogIn:
    """Find out who this is (`LoggedIn`, `LoginRefused`). Nothing more of the connection is parsed before."""

    connection: int
    hello: Hello


@dataclass(frozen=True, slots=True)
class Inspection:
    """A client asks about the broker (`Inspected`). Nothing more of the connection is parsed before."""

    connection: int
    question: Inspect


@dataclass(frozen=True, slots=True)
class ClientReady:
    """The client has logged in."""

    connection: int
    user: str
    silence_ms: int  # the longest silence of the client before it is asked for a sign of life; 0: any
    beat_ms: int  # how often it must hear from the broker; 0: never


@dataclass(frozen=True, slots=True)
class ResumeReading:
    """The plane takes bytes of this connection again."""

    connection: int


@dataclass(frozen=True, slots=True)
class CloseClient:
    """Close the connection once its output is written; `linger`: read on, and throw away what comes, or the system
    would answer it with a reset, which overtakes the last words."""

    connection: int
    linger: bool


@dataclass(frozen=True, slots=True)
class AuditAction:
    """Write an administrative action of a client to the audit log; `code`: the error with which it ended."""

    user: str
    address: str
    protocol: str
    action: str
    fields: Mapping[str, object]
    code: str = ""


@dataclass(frozen=True, slots=True)
class AuditRefusal:
    """Write to the audit log that a client lacks a right."""

    user: str
    address: str
    protocol: str
    reason: str


NodeEffect: TypeAlias = Reply | Close | NotifyDropped | Persist | LoadMessages | Log | Track | Inquire
LinkEffect: TypeAlias = fx.Dial | fx.CloseLink | fx.SetTimer | fx.Authenticate | fx.Report
Effect: TypeAlias = (
    Persist
    | PersistNow
    | LoadMessages
    | Log
    | Track
    | Inquire
    | LogIn
    | Inspection
    | ClientReady
    | ResumeReading
    | CloseClient
    | AuditAction
    | AuditRefusal
    | LinkEffect
)
