"""Batches that SQLite cannot reach any more, found page by page.

A page of the table of batches that is gone takes all below it with it, and a file that is cut off ends somewhere in the
middle of its tree. But each leaf page tells which rows it has, and each batch its number, which batches
were deleted before it, and the checksum of each of its records. So the leaves are read one by one, without the tree.
A page that was freed may hold old batches still: those have numbers before the oldest that is needed.

Format: https://www.sqlite.org/fileformat2.html, sections 1.6 (pages, cells and overflow) and 2.1 (records).
"""

import struct
from collections.abc import Callable, Container, Iterator
from pathlib import Path

from tidings.delivery.batch_codec import Scan, scan
from tidings.errors import CodecError

LEAF = 13  # the first byte of a leaf of a table with numbers as keys


def stray_batches(path: Path, page_bytes: int, known: Container[int], oldest: int) -> list[tuple[int, bytes]]:
    """The batches that any leaf has, each number once, without those that are known and those that were deleted."""
    found: dict[int, tuple[Scan, bytes]] = {}
    for number, blob in _cells(path, page_bytes, lambda number: number >= oldest and number not in known):
        try:
            seen = scan(blob)
        except CodecError:
            continue
        before = found.get(number)
        if seen.head.number == number and (before is None or len(seen.damaged) < len(before[0].damaged)):
            found[number] = seen, blob
    oldest = max((seen.head.oldest for seen, _ in found.values()), default=0)
    return [(number, blob) for number, (_, blob) in sorted(found.items()) if number >= oldest]


def _cells(path: Path, page_bytes: int, is_wanted: Callable[[int], bool]) -> Iterator[tuple[int, bytes]]:
    """Number and payload of whatever looks like a row of the table."""
    with path.open("rb") as file:
        pages = path.stat().st_size // page_bytes

        def page(number: int) -> bytes:
            file.seek((number - 1) * page_bytes)
            return file.read(page_bytes).ljust(page_bytes, b"\0")

        for at in range(2, pages + 1):
            leaf = page(at)
            if leaf[0] != LEAF:
                continue
            count = min(int.from_bytes(leaf[3:5]), (page_bytes - 8) // 4)
            for (start,) in struct.iter_unpack(">H", leaf[8 : 8 + 2 * count]):
                size, start = _varint(leaf, start)
                number, start = _varint(leaf, start)
                if not 0 < size < pages * page_bytes or not 0 < number < 1 << 63 or not is_wanted(number):
                    continue
                local = _local_bytes(size, page_bytes)
                row, over = leaf[start : start + local], int.from_bytes(leaf[start + local : start + local + 4])
                parts, left = [row], size - local
                while left > 0 and 1 < over <= pages:
                    more = page(over)
                    parts.append(more[4 : 4 + left])
                    over, left = int.from_bytes(more[:4]), left - (page_bytes - 4)
                yield number, _payload(b"".join(parts).ljust(size, b"\0"))  # what is cut off fails its checksum


def _local_bytes(size: int, page_bytes: int) -> int:
    """Bytes of a row that are in its cell; the rest is on overflow pages."""
    if size <= page_bytes - 35:
        return size
    least = (page_bytes - 12) * 32 // 255 - 23
    more = least + (size - least) % (page_bytes - 4)
    return more if more <= page_bytes - 35 else least


def _payload(row: bytes) -> bytes:
    """The blob of a row: a header of its own length, the type of the number (which is the key), that of the blob."""
    return row[_varint(row, 0)[0] :]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to nine bytes, and where it ends."""
    value = 0
    for byte in data[at : at + 8]:
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return (value << 8 | data[at], at + 1) if at < len(data) else (0, at)
