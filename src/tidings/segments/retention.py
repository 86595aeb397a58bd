"""How long segments stay: whole segments go, oldest first, when they are too old or all of them are too large.

Before the first one goes a file `since` says up to when: whoever asks about an older time must not take "it is not
here" for "it was not".
"""

import os
from dataclasses import dataclass
from pathlib import Path

from tidings.errors import StoreError, UsageError
from tidings.model.tables import Table
from tidings.segments.names import TEMPORARY_PREFIX
from tidings.segments.reader import Segment, segments

SINCE = "since"


@dataclass(frozen=True, slots=True)
class Retention:
    """Of one table; None: no limit."""

    age_ms_max: int | None = None
    bytes_max: int | None = None

    def __post_init__(self) -> None:
        if (self.age_ms_max or 0) < 0 or (self.bytes_max or 0) < 0:
            raise UsageError("E_SEGMENT_RETENTION", "a limit is not negative")


def expired(found: list[tuple[Segment, int]], retention: Retention, now_ms: int) -> list[Segment]:
    """Which of some segments, with their sizes and oldest first, have to go."""
    total = sum(size for _, size in found)
    gone = []
    for segment, size in found:
        too_old = retention.age_ms_max is not None and now_ms - segment.name.created_ms > retention.age_ms_max
        too_many = retention.bytes_max is not None and total > retention.bytes_max
        if too_old or too_many:
            gone.append(segment)
            total -= size
    return gone


def sweep(root: Path, table: Table, retention: Retention, now_ms: int) -> list[Segment]:
    """Delete what has to go; returns it."""
    found = [(segment, segment.path.stat().st_size) for segment in segments(root, table)]
    gone = expired(found, retention, now_ms)
    if gone:
        mark(root, table, max(segment.name.created_ms for segment in gone) + 1)
    for segment in gone:
        segment.path.unlink(missing_ok=True)
    return gone


def since_ms(root: Path, table: Table) -> int:
    """What is older than this may have been deleted; 0: nothing was."""
    try:
        return int((root / table.name / SINCE).read_text())
    except FileNotFoundError:
        return 0
    except (OSError, ValueError) as error:
        raise StoreError("E_STORE_DAMAGED", f"{root / table.name / SINCE}: {error}") from None


def mark(root: Path, table: Table, ms: int) -> None:
    """Say so, before it is deleted."""
    directory = root / table.name
    temporary = directory / f"{TEMPORARY_PREFIX}{SINCE}"
    with temporary.open("w") as file:
        file.write(str(ms))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / SINCE)
