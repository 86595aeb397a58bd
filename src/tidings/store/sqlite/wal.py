"""SQLite's write-ahead log, read with our own eyes: is it damaged, or did it just end?

SQLite believes the log up to the first frame whose checksum is wrong, and forgets the rest without a word: that is
right for a log that a crash cut off, and wrong for one with a flipped bit in the middle, where every later commit was
already acknowledged. The two can be told apart, because each frame stores the running checksum, so every frame can be
checked against the one before it: sound frames *behind* a bad one, after the end of its transaction, prove that the
bad one had been on disk (each commit is synced before the next begins). Then the checksums are rewritten over the
damaged bytes, SQLite replays everything, and the flipped bit is left to the checksum of the record it hit. If the
bad frame is in the last transaction nothing can be proved; it is ignored as SQLite would, but reported.

Format: https://www.sqlite.org/fileformat2.html#walformat, section 4. The checksum of a frame is a linear map of the
one before, v -> M^n v + sum of M^(n-1-i) B x_i modulo 2^32, so all frames can be summed at once by one matrix product.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEADER = struct.Struct(">8I")  # magic, format, page size, checkpoints, salt 1, salt 2, checksum 1, checksum 2
HEADER_BYTES = 32
FRAME_BYTES = 24  # page number, pages after commit or 0, salt 1, salt 2, checksum 1, checksum 2
MAGIC = 0x377F0682  # checksums over little-endian words; | 1: big-endian
FORMAT = 3007000
CHUNK_FRAMES = 1024

Words = NDArray[np.uint32]


def weights(pairs: int) -> tuple[Words, Words]:
    """(M^n, the weights of the 2n words) for n pairs of words."""
    step = np.array([[1, 1], [1, 2]], np.uint32)
    power = np.eye(2, dtype=np.uint32)
    found = np.empty((pairs, 2, 2), np.uint32)
    for at in range(pairs - 1, -1, -1):
        found[at] = power @ np.array([[1, 0], [1, 1]], np.uint32)
        power = power @ step
    return power, found.transpose(0, 2, 1).reshape(2 * pairs, 2)


def checksum(data: bytes, start: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """SQLite's own definition; for a header."""
    first, second = start
    for low, high in struct.iter_unpack("<2I", data):
        first = (first + low + second) & 0xFFFFFFFF
        second = (second + high + first) & 0xFFFFFFFF
    return first, second


@dataclass(slots=True)
class WriteAheadLog:
    """The frames of a log; of each its header as words, what its words add to the checksum, whether it is sound."""

    header: tuple[int, ...]
    header_sound: bool
    fields: Words  # frames x 6
    sums: Words  # frames x 2
    sound: NDArray[np.bool_]  # matches the frame before it
    power: Words

    def proven(self) -> int | None:
        """Frames to replay if the log is damaged in the middle; 0: its last transaction is bad; None: intact."""
        bad = len(self.sound) if self.sound.all() else int(np.argmin(self.sound))
        if not self.header_sound and bad > 0:  # only the header is damaged, as far as the frames go
            return int(np.max(np.nonzero(self.fields[:bad, 1])[0], initial=-1)) + 1
        if bad == len(self.sound):
            return None
        same = (self.fields[:, 2:4] == self.header[4:6]).all(axis=1)
        # Damaged salts, if the next frame goes on from its checksum. Otherwise it may be a frame of an earlier use of
        # the file, left in the middle of the last transaction by a write that never arrived: its end is not ours.
        same[bad] |= self.sound[bad + 1 : bad + 2].any()
        commits = np.nonzero(same & (self.fields[:, 1] > 0))[0]
        commits_behind = commits[commits >= bad]
        if not len(commits_behind):
            return None  # it just ended, or frames of an earlier use of the file follow
        last_sound = int(np.nonzero(self.sound)[0][-1]) if self.sound.any() else -1
        if commits_behind[0] >= last_sound:
            return 0
        return int(commits[commits <= last_sound][-1]) + 1


def read(path: Path, page_bytes: int) -> WriteAheadLog | None:
    """None if there is no log, or nothing in it."""
    size = path.stat().st_size if path.exists() else 0
    frame_bytes = FRAME_BYTES + page_bytes
    count = (size - HEADER_BYTES) // frame_bytes
    if count <= 0:
        return None
    power, weight = weights(1 + page_bytes // 8)
    fields = np.empty((count, 6), np.uint32)
    sums = np.empty((count, 2), np.uint32)
    with path.open("rb") as file:
        top = file.read(HEADER_BYTES)
        for start in range(0, count, CHUNK_FRAMES):
            frames = min(CHUNK_FRAMES, count - start)
            data = np.frombuffer(file.read(frames * frame_bytes), np.uint8).reshape(frames, frame_bytes)
            fields[start : start + frames] = data[:, :FRAME_BYTES].copy().view(">u4")
            summed = np.concatenate((data[:, :8], data[:, FRAME_BYTES:]), axis=1)
            sums[start : start + frames] = summed.view("<u4").astype(np.uint32) @ weight
    header = HEADER.unpack(top)
    header_sound = header[:3] == (MAGIC, FORMAT, page_bytes) and header[6:] == checksum(top[:24])
    if not header_sound:  # a new one; the first frame cannot be checked then
        fixed = struct.pack(">6I", MAGIC, FORMAT, page_bytes, 0, *fields[0, 2:4].tolist())
        header = (*struct.unpack(">6I", fixed), *checksum(fixed))
    before = np.concatenate((np.array([header[6:]], np.uint32), fields[:-1, 4:6]))
    expected = before @ power.T + sums
    sound = (expected == fields[:, 4:6]).all(axis=1) & (fields[:, 2:4] == header[4:6]).all(axis=1) & (fields[:, 0] > 0)
    return WriteAheadLog(header, header_sound, fields, sums, sound, power)


def pages(path: Path, page_bytes: int) -> Iterator[tuple[int, bytes]]:
    """(number, content) of the pages SQLite would take from the log, in order."""
    log = read(path, page_bytes)
    if log is None or not log.header_sound:
        return
    prefix = int(np.argmin(log.sound)) if not log.sound.all() else len(log.sound)
    commits = np.nonzero(log.fields[:prefix, 1])[0]
    with path.open("rb") as file:
        for frame in range(int(commits[-1]) + 1 if len(commits) else 0):
            file.seek(HEADER_BYTES + frame * (FRAME_BYTES + page_bytes) + FRAME_BYTES)
            yield int(log.fields[frame, 0]), file.read(page_bytes)


def rewrite(log: WriteAheadLog, source: Path, target: Path, frames: int, page_bytes: int) -> None:
    """The first frames of the log with checksums that are right again."""
    previous = np.array(log.header[6:], np.uint32)
    target.touch(mode=0o600)
    with source.open("rb") as old, target.open("wb") as new:
        new.write(HEADER.pack(*log.header))
        old.seek(HEADER_BYTES)
        for frame in range(frames):
            data = old.read(FRAME_BYTES + page_bytes)
            previous = log.power @ previous + log.sums[frame]
            new.write(data[:8] + struct.pack(">4I", *log.header[4:6], *previous.tolist()) + data[FRAME_BYTES:])
