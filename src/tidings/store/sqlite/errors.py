"""Translates errors of SQLite and the system into the store's errors."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.errors import StoreError


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        translate(error)
        raise


def hindrance(path: Path) -> str:
    """The visible reason why a file cannot be opened, to append to a message; empty: none."""
    if path.is_dir():
        return ": it is a directory"
    if path.is_symlink() and not path.exists():
        return f": it is a link to {path.readlink()}, which is not there"
    if forbidden := _forbidden(path):
        return f": the broker may not read and write {forbidden}, look at its owner and permissions"
    return ": is it a file that the broker may read and write, in a directory where it may make others?"


def _forbidden(path: Path) -> str:
    """The name of a store's file that is there, and that we may not read or not write; empty: none."""
    files = (path, path.with_name(path.name + "-wal"))
    return next((file.name for file in files if file.exists() and not os.access(file, os.R_OK | os.W_OK)), "")


def cannot_open(error: sqlite3.Error, path: Path) -> bool:
    """True if the system refuses access to the files themselves."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code == sqlite3.SQLITE_CANTOPEN or (code in _FORBIDDEN and bool(_forbidden(path)))


def is_full(error: Exception) -> bool:
    if isinstance(error, StoreError):
        return error.code == "E_STORE_FULL"
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def translate(error: BaseException) -> None:
    """Raise SQLite's and the system's errors as ours."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        raise StoreError(_CODES.get(code, "E_STORE_IO"), str(error)) from error
    if isinstance(error, OSError):
        raise StoreError("E_STORE_FULL" if is_full(error) else "E_STORE_IO", str(error)) from error


# When the store is opened, what is none of these means that the file is not what it was.
NOT_DAMAGED = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN}
NOT_DAMAGED |= {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}
_FORBIDDEN = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}  # what a lack of rights looks like
_CODES = {
    sqlite3.SQLITE_FULL: "E_STORE_FULL",
    sqlite3.SQLITE_CORRUPT: "E_STORE_DAMAGED",
    sqlite3.SQLITE_NOTADB: "E_STORE_DAMAGED",
    sqlite3.SQLITE_BUSY: "E_STORE_LOCKED",
    sqlite3.SQLITE_LOCKED: "E_STORE_LOCKED",
}
