"""Tracking's rows: entries and attachments as rows of their tables."""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from tidings.errors import StoreError
from tidings.model.tables import ATTACHMENTS
from tidings.segments.reader import read_rows
from tidings.tracking.recording.attachments import Attachment, AttachmentKind
from tidings.tracking.recording.history import FilterEncoding, HistoryEntry, HistoryKind, Key

E = TypeVar("E", bound=Enum)


def entry_row(broker: int, entry: HistoryEntry) -> dict[str, Any]:
    first_ms, last_ms = entry.span or (None, None)
    return {
        "broker": broker,
        "incarnation": entry.incarnation,
        "sequence": entry.sequence,
        "kind": entry.key.kind.value,
        "origin": entry.key.origin,
        "peer": entry.key.peer,
        "encoding": entry.encoding.value,
        "count": entry.count,
        "full": entry.full,
        "first_ms": first_ms,
        "last_ms": last_ms,
        "singles_ms": list(entry.singles),
        "opened_ms": entry.opened_ms,
        "stored_ms": entry.stored_ms,
        "data": entry.data,
    }


def entry_columns(broker: int, entries: Sequence[HistoryEntry]) -> dict[str, list[Any]]:
    """`entry_row` of each, as columns: filters come by the thousand."""
    spans = [entry.span or (None, None) for entry in entries]
    return {
        "broker": [broker] * len(entries),
        "incarnation": [entry.incarnation for entry in entries],
        "sequence": [entry.sequence for entry in entries],
        "kind": [entry.key.kind.value for entry in entries],
        "origin": [entry.key.origin for entry in entries],
        "peer": [entry.key.peer for entry in entries],
        "encoding": [entry.encoding.value for entry in entries],
        "count": [entry.count for entry in entries],
        "full": [entry.full for entry in entries],
        "first_ms": [first_ms for first_ms, _ in spans],
        "last_ms": [last_ms for _, last_ms in spans],
        "singles_ms": [entry.singles for entry in entries],
        "opened_ms": [entry.opened_ms for entry in entries],
        "stored_ms": [entry.stored_ms for entry in entries],
        "data": [entry.data for entry in entries],
    }


def row_entry(row: Mapping[str, Any]) -> HistoryEntry:
    """The opposite of `entry_row`; a row that was read without its data makes an entry without it."""
    first_ms, last_ms = row["first_ms"], row["last_ms"]
    return HistoryEntry(
        key=Key(_known(HistoryKind, row["kind"]), row["origin"], row["peer"]),
        sequence=row["sequence"],
        span=None if first_ms is None or last_ms is None else (first_ms, last_ms),
        singles=tuple(row["singles_ms"]),
        count=row["count"],
        full=row["full"],
        encoding=_known(FilterEncoding, row["encoding"]),
        data=row.get("data", b""),
        opened_ms=row["opened_ms"],
        stored_ms=row["stored_ms"],
        incarnation=row["incarnation"],
    )


def _known(names: type[E], name: str) -> E:
    try:
        return names(name)
    except ValueError as error:
        raise StoreError("E_STORE_DAMAGED", f"a row of histories: {error}") from None


def attachment_row(broker: int, change: Attachment) -> dict[str, Any]:
    return {
        "broker": broker,
        "incarnation": change.incarnation,
        "kind": change.kind.value,
        "peer": change.peer,
        "ms": change.ms,
        "attached": change.attached,
    }


def read_attachments(root: Path, broker: int) -> list[Attachment]:
    """All changes at one broker, in the order of their making."""
    rows: Iterable[Mapping[str, Any]] = read_rows(root, ATTACHMENTS)
    return [
        Attachment(AttachmentKind(row["kind"]), row["peer"], row["ms"], row["attached"], row["incarnation"])
        for row in rows
        if row["broker"] == broker
    ]
