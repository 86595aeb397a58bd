"""Copies of a broker's segments at a URI: in an object store, or a folder that other machines share.

    <uri>/histories/…parquet   <uri>/histories/since-b7   <uri>/attachments/…parquet   <uri>/era-7-…, tenure-7-…

What is finished is copied a moment later (`push`), and what was deleted here is deleted there. A process that starts on
another machine takes what its folder lacks (`fetch`); of the time in between, what was not in segments yet is missing,
and traces say so, because the process that recorded it is known by its era. Names have checksums: half a copy is not
taken.
"""

import errno
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.errors import StoreError, UsageError
from tidings.extras import lazy
from tidings.model.tables import ATTACHMENTS, HISTORIES
from tidings.segments.durable import sync_directory
from tidings.segments.names import TEMPORARY_PREFIX, SegmentName
from tidings.segments.retention import SINCE, mark, marked_ms
from tidings.segments.run_markers import PREFIX, TENURE

if TYPE_CHECKING:
    from pyarrow import fs
else:
    fs = lazy("pyarrow.fs")

TABLES = (HISTORIES.name, ATTACHMENTS.name)
GONE = (errno.ENOENT,)


class SegmentCopies:
    """Of one broker; all calls come from one thread at a time."""

    def __init__(self, root: Path, uri: str, broker: int) -> None:
        self._root, self._uri, self._writer = root, uri, f"b{broker}"
        self._markers = f"{PREFIX}-{broker}-", f"{TENURE}-{broker}-"
        self._system, self._base = _opened(uri)
        self._copied: dict[str, int] = {}  # relative name -> time of its last change

    def fetch(self) -> int:
        """Take what this folder lacks; returns the number of files."""
        count = 0
        try:
            for name in self._there():
                count += self._fetch(name)
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot read {self._uri}: {error}") from None
        return count

    def push(self) -> int:
        """Copy what is new, and delete what this process had copied and is gone here; returns the number of files."""
        here = self._here()
        changed = [name for name, ms in here.items() if self._copied.get(name) != ms]
        gone = [name for name in self._copied if name not in here]
        try:
            for name in changed:
                self._push(name, here[name])
            for name in gone:
                self._delete(name)
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot write {self._uri}: {error}") from None
        return len(changed) + len(gone)

    def _here(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for folder in (self._root, *(self._root / name for name in TABLES)):
            for path in folder.iterdir() if folder.is_dir() else ():
                name = str(path.relative_to(self._root))
                if self._is_mine(name):
                    try:
                        found[name] = path.stat().st_mtime_ns
                    except FileNotFoundError:
                        continue
        return found

    def _there(self) -> list[str]:
        selector = fs.FileSelector(self._base, recursive=True, allow_not_found=True)
        paths = [info.path for info in self._system.get_file_info(selector) if info.is_file]
        names = [path.removeprefix(self._base).lstrip("/") for path in paths]
        return sorted(name for name in names if self._is_mine(name))

    def _is_mine(self, name: str) -> bool:
        table, _, file = name.rpartition("/")
        if not table:
            return file.startswith(self._markers)
        segment = SegmentName.parse(file)
        mine = file == f"{SINCE}-{self._writer}" if segment is None else segment.writer == self._writer
        return mine and table in TABLES

    def _fetch(self, name: str) -> int:
        path = self._root / name
        is_mark = path.name.startswith(SINCE)
        if path.exists() and not is_mark:
            return 0
        with self._system.open_input_stream(f"{self._base}/{name}") as stream:
            data: bytes = stream.read()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_mark:
            mark(self._root, HISTORIES, self._writer, marked_ms(data, name))
            return 0
        segment = SegmentName.parse(path.name)
        if segment is not None and zlib.crc32(data) != segment.crc32:
            return 0  # not all of it was copied
        temporary = path.with_name(TEMPORARY_PREFIX + path.name)
        temporary.write_bytes(data)
        temporary.replace(path)
        sync_directory(path.parent)
        return 1

    def _push(self, name: str, changed_ns: int) -> None:
        try:
            data = (self._root / name).read_bytes()
        except FileNotFoundError:
            return
        folder, _, file = f"{self._base}/{name}".rpartition("/")
        self._system.create_dir(folder, recursive=True)
        temporary = f"{folder}/{TEMPORARY_PREFIX}{file}"
        with self._system.open_output_stream(temporary) as stream:
            stream.write(data)
        self._system.move(temporary, f"{folder}/{file}")
        self._copied[name] = changed_ns

    def _delete(self, name: str) -> None:
        try:
            self._system.delete_file(f"{self._base}/{name}")
        except OSError as error:
            if error.errno not in GONE:
                raise
        del self._copied[name]


def _opened(uri: str) -> "tuple[fs.FileSystem, str]":
    try:
        system, path = fs.FileSystem.from_uri(uri)
    except (ValueError, OSError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise UsageError("E_TRACKING_COPIES", f"{uri}: {error}") from None
    return system, path.rstrip("/")
