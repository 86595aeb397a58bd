"""The lock file beside a store: one process at a time, and what there should be beside it.

A file that is gone cannot say that it was there, and SQLite makes a new one without a word; it even throws away a log
whose file is empty. So the lock file says it: that a store was made here, and that its write-ahead log holds something.
Each is written after it has become true and taken back before it ceases to be, so that no crash leaves it false: after
one it says too little at most. What cannot be written is left for the next time; nothing depends on it but reports.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tidings.errors import StoreError

MADE = b"made\n"
LOGGED = b"log\n"


class StoreLock:
    def __init__(self, path: Path) -> None:
        """Of the store with this path. OSError if there can be no file."""
        self._file = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            said = os.pread(self._file, 64, 0)
        except BlockingIOError:
            os.close(self._file)
            raise StoreError("E_STORE_LOCKED", f"{path} is in use by another process") from None
        except OSError:
            os.close(self._file)
            raise
        self.logged = said == MADE + LOGGED
        self.made = self.logged or said == MADE

    def opened(self) -> None:
        """The store is on disk."""
        if not self.made:
            self.made = self._say(MADE)

    def log_filled(self) -> None:
        """The log holds what the file may not have."""
        if not self.logged:
            self.made = self.logged = self._say(MADE + LOGGED)

    def log_emptied(self) -> None:
        """It is about to be: the file has it all."""
        if self.logged:
            self.logged = False
            self._say(MADE)

    def close(self) -> None:
        os.close(self._file)

    def _say(self, what: bytes) -> bool:
        with suppress(OSError):
            os.ftruncate(self._file, min(len(what), os.fstat(self._file).st_size))
            if os.pread(self._file, len(what), 0) != what:
                os.pwrite(self._file, what, 0)
            os.fsync(self._file)
            return True
        return False
