"""Files by URI, the same on a disk and in an object store: what the driver and workers need beside Spark's own I/O.

>>> StoragePath.of("s3a://bucket/tables").uri, StoragePath.of("/data/x").under("y").uri
('s3a://bucket/tables', '/data/x/y')
>>> StoragePath.of("file:/data/x").uri, StoragePath.of("file:///data/x").uri
('/data/x', '/data/x')
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from tidings.errors import StoreError, UsageError


@dataclass(frozen=True, slots=True)
class StoragePath:
    """A file or folder. `uri` is how Spark names it."""

    uri: str

    @classmethod
    def of(cls, uri: str | os.PathLike[str]) -> "StoragePath":
        text = re.sub("^file:(//)?/", "/", os.fspath(uri)).rstrip("/")
        if not text:
            raise UsageError("E_PIPELINE_PLACE", "an input or output must be a path or a URI; it is empty")
        return cls(text if "://" in text else os.path.abspath(text))

    def under(self, *names: str) -> "StoragePath":
        return StoragePath("/".join((self.uri, *names)))

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def parent(self) -> "StoragePath":
        return StoragePath(self.uri.rpartition("/")[0])

    @property
    def url(self) -> str:
        """The URL by which libraries other than Spark know it.

        >>> StoragePath.of("s3a://bucket/a b").url, StoragePath.of("/a b").url
        ('s3://bucket/a%20b', 'file:///a%20b')
        """
        if "://" not in self.uri:
            return Path(self.uri).as_uri()
        return quote(self.uri.replace("s3a://", "s3://", 1), safe=":/@?=&%")  # options of Arrow may follow a '?'

    @property
    def pattern(self) -> str:
        """The path escaped for Spark's readers, which take patterns.

        >>> StoragePath.of("/data/[old]*").pattern
        '/data/\\\\[old\\\\]\\\\*'
        """
        return re.sub(r"[\\\[\]{}*?]", r"\\\g<0>", self.uri)

    def open(self) -> tuple[fs.FileSystem, str]:
        """The file system it is on, and its path there."""
        if "://" not in self.uri:
            return fs.LocalFileSystem(), self.uri
        try:
            system, path = fs.FileSystem.from_uri(self.url)
        except (pa.ArrowException, OSError) as error:
            raise UsageError("E_PIPELINE_PLACE", f"{self.uri}: {error}") from None
        return system, path

    def read(self) -> bytes:
        system, path = self.open()
        try:
            with system.open_input_stream(path) as stream:
                data: bytes = stream.read()
                return data
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot read {self.uri}: {error}") from None

    def list(self, *, recursive: bool = False) -> list[tuple["StoragePath", int, int]]:
        """Lists a folder without hidden files, sorted by name: path, size, and time of change in ns."""
        system, path = self.open()
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=recursive))
        visible = [one for one in found if not re.search("/[._]", one.path[len(path) :])]
        return sorted(
            ((StoragePath(self.uri + one.path[len(path) :]), one.size or 0, one.mtime_ns or 0) for one in visible),
            key=lambda entry: entry[0].uri,
        )

    def exists(self) -> bool:
        system, path = self.open()
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)

    def is_file(self) -> bool:
        system, path = self.open()
        return bool(system.get_file_info(path).type == fs.FileType.File)

    def move(self, target: "StoragePath") -> None:
        """To another place in the same file system."""
        system, path = self.open()
        _, other = target.open()
        try:
            system.create_dir(other.rpartition("/")[0], recursive=True)
            system.move(path, other)
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot move {self.uri} to {target.uri}: {error}") from None

    def remove_folder(self) -> None:
        system, path = self.open()
        if self.exists():
            system.delete_dir(path)

    def remove_empty_folders(self, oldest_ns: int) -> None:
        """Removes folders without files on a disk that have not changed since; an object store has none."""
        system, path = self.open()
        if isinstance(system, fs.LocalFileSystem):
            old = [one for one, _, _ in os.walk(path, topdown=False) if os.stat(one).st_mtime_ns < oldest_ns]
            for folder in old:
                if folder != path and not os.listdir(folder):
                    os.rmdir(folder)

    def remove_file(self) -> None:
        system, path = self.open()
        system.delete_file(path)

    def write(self, data: bytes) -> None:
        """Whatever was there before."""
        system, path = self.open()
        try:
            system.create_dir(path.rpartition("/")[0], recursive=True)
            with system.open_output_stream(path) as stream:
                stream.write(data)
        except OSError as error:
            raise StoreError("E_STORE_IO", f"cannot write {self.uri}: {error}") from None


def fingerprint(place: StoragePath) -> list[list[Any]]:
    """Name, size and time of change of everything in a folder, or of a file: what has been read."""
    found = place.list(recursive=True) if not place.is_file() else [_file(place)]
    return [[one.uri, size, ns] for one, size, ns in found]


def _file(place: StoragePath) -> tuple[StoragePath, int, int]:
    system, path = place.open()
    info = system.get_file_info(path)
    return place, info.size or 0, info.mtime_ns or 0
