"""What a node asks its driver to do."""

from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.delivery.store import Record
from tidings.node.requests import Answer
from tidings.tracking.attachments import Attachment
from tidings.tracking.history import Entry
from tidings.tracking.record import Inquiry


@dataclass(frozen=True, slots=True)
class Reply:
    """Tell the client; its protocol session knows how."""

    connection: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Persist:
    """Write these records durably, all or none, then call `persisted` with the ticket. There is one at a time."""

    ticket: int
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Fetch the bytes of these messages from the store, then call `loaded`."""

    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """End the connection after what is in its output."""

    connection: int
    code: str
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
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Inquire:
    """Ask the archive of stored histories (`Recorder.resolve`), then call `resolved` with the number."""

    number: int
    inquiry: Inquiry


Effect: TypeAlias = Reply | Persist | Load | Close | Log | Track | Inquire
