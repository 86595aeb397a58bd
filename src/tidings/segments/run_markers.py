"""Markers of a started process on a full disk.

An era is stored as an attachment, and if it is not, a later process believes that no broker ran: asked about a message
of that time it would answer "absent" instead of "unknown". So until the era is stored an empty file holds all its data
in its name; a name takes no space on most file systems that have none left for data.

    <root>/era-<broker>-<ms>-<incarnation>-<strategy>

Another one holds the last tenure of the broker that is known here. If the next one does not follow it, processes on
other machines have been the broker in between, and nothing is known of what they recorded.

    <root>/tenure-<broker>-<number>
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tidings.segments.durable import sync_directory
from tidings.tracking.recording.attachments import Attachment, AttachmentKind

PREFIX, TENURE = "era", "tenure"
_NAME = re.compile(rf"{PREFIX}-(\d+)-(\d+)-(\d+)-([A-Za-z0-9_.]+)")


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


def tenure(root: Path, broker: int) -> int:
    """The last that is known; 0: none."""
    prefix = f"{TENURE}-{broker}-"
    found = [path.name.removeprefix(prefix) for path in root.glob(f"{prefix}*")]
    return max((int(number) for number in found if number.isdecimal()), default=0)


def note_tenure(root: Path, broker: int, number: int) -> None:
    """OSError if the disk takes not even a name."""
    before = tenure(root, broker)
    (root / f"{TENURE}-{broker}-{number}").touch()
    sync_directory(root)
    if before != number:
        (root / f"{TENURE}-{broker}-{before}").unlink(missing_ok=True)


def _name(broker: int, era: Attachment) -> str:
    return f"{PREFIX}-{broker}-{era.ms}-{era.incarnation}-{era.peer}"
