"""Disk space reserved for operations that free space.

On a full disk an acknowledgement still needs some bytes, and so does everything that lets go of messages. Two things
see to it that they are there:

- `reserve`: a file beside the store that only occupies space. It is given up when the disk is full and taken
  again as soon as that is possible. While it is gone the store takes no messages.
- `claim`: what the write-ahead log holds must be copied into the file before the log can be restarted. Where the file
  will grow, that place is taken when the log is written, not when it is copied.

It also knows whether the files are still where they were: a removed file accepts writes, and they are lost.
"""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

from tidings.errors import StoreError

SHARE = 16  # of the file system at most this part is kept in reserve
PROBE_BYTES = 1 << 20  # of room beyond it, for messages
RETRY_SECONDS = 1.0  # between attempts to take the reserve again
CHECK_SECONDS = 1.0  # between looks at the files: a write that follows one takes longer to be synced


class Reserve:
    def __init__(self, path: Path, reserve_bytes: int) -> None:
        self._path = path
        self._reserve = path.with_name(path.name + ".reserve")
        self._reserve_bytes = reserve_bytes
        self._file = -1
        self._known: dict[Path, tuple[int, int]] = {}
        self._tried = 0.0
        self._checked = time.monotonic()
        self.reserved = reserve_bytes == 0

    def open(self) -> None:
        """The store is open: its files are the ones to be watched."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        for path in (self._path, self._path.with_name(self._path.name + "-wal")):
            with suppress(FileNotFoundError):
                self._known[path] = _identity(path)
        self.restore()

    def close(self) -> None:
        """After SQLite has closed its file: closing any other handle of the same file lets go of its locks."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def check(self) -> None:
        """The files are there still; asked with each batch, looked at now and then."""
        if time.monotonic() - self._checked < CHECK_SECONDS:
            return
        for path, known in self._known.items():
            try:
                same = _identity(path) == known
            except OSError:
                same = False
            if not same:
                reason = f"{path} was removed or replaced while in use; writes would be lost. Restart the broker"
                raise StoreError("E_STORE_IO", reason)
        self._checked = time.monotonic()

    def claim(self, size: int) -> None:
        """The file may grow to this size. OSError if it cannot."""
        there = os.fstat(self._file).st_size
        if size > there:
            try:
                os.posix_fallocate(self._file, there, size - there)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot preallocate
                    raise

    def release(self) -> bool:
        """Give up the reserve; False: it is gone already."""
        self.reserved = self._reserve_bytes == 0
        try:
            self._reserve.unlink()
        except OSError:
            return False
        return True

    def due(self) -> bool:
        """True if it is time to check the reserve again."""
        return time.monotonic() - self._tried >= RETRY_SECONDS

    def restore(self) -> bool:
        """Take the reserve if there is room for it."""
        if self.reserved:
            return True
        self._tried = time.monotonic()
        try:
            self.reserved = self._allocate()
        except OSError as error:
            with suppress(OSError):
                self._reserve.unlink()
            # Where places cannot be kept, or files cannot be made, messages are taken as long as they fit.
            self.reserved = error.errno not in (errno.ENOSPC, errno.EDQUOT)
        return self.reserved

    def spacious(self) -> bool:
        """True if there is room beyond the reserve. It is tried: a quota, for example, is visible in no other way."""
        path = self._path.with_name(self._path.name + ".probe")
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, PROBE_BYTES)
            finally:
                os.close(file)
                path.unlink()
        except OSError as error:
            return error.errno not in (errno.ENOSPC, errno.EDQUOT)
        return True

    def _allocate(self) -> bool:
        disk = os.statvfs(self._path)
        size = min(self._reserve_bytes, disk.f_blocks * disk.f_frsize // SHARE)
        file = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if size and os.fstat(file).st_blocks * 512 < size:
                os.posix_fallocate(file, 0, size)
        finally:
            os.close(file)
        return True


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino
