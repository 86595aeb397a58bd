"""Names of segments: time, writer, sequence number and checksum of the content.

    <root>/<table>/<created ms, 13 digits>-<writer>-<sequence, 8 digits>-<crc32, 8 hex digits>.parquet

Names sort by time, so age is known without opening anything. The checksum covers the whole file, footer included, which
Parquet's own page checksums do not. A file that is being written begins with a dot: listings leave it out, Spark's too.

>>> name = SegmentName(created_ms=1_762_000_000_123, writer="b3.17", sequence=4, crc32=0xDEADBEEF)
>>> str(name), SegmentName.parse(str(name)) == name
('1762000000123-b3.17-00000004-deadbeef.parquet', True)
"""

import re
from dataclasses import dataclass

from tidings.errors import UsageError

_WRITER = r"[A-Za-z0-9_.]{1,64}"
_NAME = re.compile(rf"(\d{{13}})-({_WRITER})-(\d{{8}})-([0-9a-f]{{8}})\.parquet")
TEMPORARY_PREFIX = "."


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    created_ms: int
    writer: str
    sequence: int
    crc32: int

    def __str__(self) -> str:
        return f"{self.created_ms:013}-{self.writer}-{self.sequence:08}-{self.crc32:08x}.parquet"

    @classmethod
    def parse(cls, text: str) -> "SegmentName | None":
        """None if that is not a segment's name."""
        match = _NAME.fullmatch(text)
        return match and cls(int(match[1]), match[2], int(match[3]), int(match[4], 16))


def check_writer(writer: str) -> str:
    if not re.fullmatch(_WRITER, writer):
        raise UsageError(
            "E_SEGMENT_WRITER", f"a writer's name must be 1 to 64 letters, digits, dots and underscores, not {writer!r}"
        )
    return writer
