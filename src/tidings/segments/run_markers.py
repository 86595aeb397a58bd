"""Markers of a started process on a full disk.

An era is stored as an attachment, and if it is not, a later process believes that no broker ran: asked about a message
of that time it would answer "absent" instead of "unknown". So until the era is stored an empty file holds all its data
in its name; a name takes no space on most file systems that have none left for data.

    <root>/era-<broker>-<ms>-<incarnation>-<strategy>
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tidings.segments.durable import sync_directory
from tidings.tracking.recording.attachments import Attachment, AttachmentKind

_NAME = re.compile(r"era-(\d+)-(\d+)-(\d+)-([A-Za-z0-9_.]+)")


def sign(root: Path, broker: int, era: Attachment) -> None:
    """OSError if the disk takes not even a name."""
    (root / _name(broker, era)).touch()
    sync_directory(root)


def signed(root: Path, broker: int) -> list[Attachment]:
    """The eras that were not stored, as far as is known; in order."""
    found = []
    for path in root.iterdir():
        match = _NAME.fullmatch(path.name)
        if match and int(match[1]) == broker:
            era = AttachmentKind.ERA, match[4], int(match[2])
            found.append(Attachment(*era, attached=True, incarnation=int(match[3])))
    return sorted(found, key=lambda era: era.ms)


def unsign(root: Path, broker: int, eras: Iterable[Attachment]) -> None:
    """They are stored now."""
    for era in eras:
        (root / _name(broker, era)).unlink(missing_ok=True)


def _name(broker: int, era: Attachment) -> str:
    return f"era-{broker}-{era.ms}-{era.incarnation}-{era.peer}"
