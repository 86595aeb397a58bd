"""Files by URI, the same on a disk and in an object store: what the driver and workers need beside Spark's own I/O.

>>> StoragePath.of("s3a://bucket/tables").uri, StoragePath.of("/data/x").under("y").uri
('s3a://bucket/tables', '/data/x/y')
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tidings.errors import StoreError, UsageError
from tidings.segments.durable import sync_directory


@dataclass(frozen=True, slots=True)
class StoragePath:
    """A file or folder. `uri` is how Spark names it."""

    uri: str

    @classmethod
    def of(cls, uri: str | os.PathLike[str]) -> "StoragePath":
        text = os.fspath(uri).rstrip("/")
        if not text:
            raise UsageError("E_PIPELINE_PLACE", "an input or output must be a path or a URI; it is empty")
        return cls(text if "://" in text else os.path.abspath(text))

    def under(self, *names: str) -> "StoragePath":
        return StoragePath("/".join((self.uri, *names)))

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

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
            system, path = fs.FileSystem.from_uri(self.uri.replace("s3a://", "s3://", 1))
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
        visible = [one for one in found if not one.base_name.startswith((".", "_"))]
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

    def remove_folder(self) -> None:
        system, path = self.open()
        if self.exists():
            system.delete_dir(path)

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

    def create(self, document: dict[str, Any]) -> bool:
        """Write JSON under this name as a whole or not at all; False if the name is taken."""
        system, path = self.open()
        folder, _, name = path.rpartition("/")
        data = json.dumps(document, indent=1, sort_keys=True).encode()
        temporary = f"{folder}/.{name}.{os.getpid()}"
        system.create_dir(folder, recursive=True)
        with system.open_output_stream(temporary) as stream:
            stream.write(data)
        if isinstance(system, fs.LocalFileSystem):
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(temporary)
            sync_directory(Path(folder))
            return True
        if self.exists():
            system.delete_file(temporary)
            return False
        system.move(temporary, path)  # an object store has no exclusive rename: one run at a time
        return True


def fingerprint(place: StoragePath) -> list[list[Any]]:
    """Name, size and time of change of everything in a folder, or of a file: what has been read."""
    found = place.list(recursive=True) if not place.is_file() else [_file(place)]
    return [[one.uri, size, ns] for one, size, ns in found]


def _file(place: StoragePath) -> tuple[StoragePath, int, int]:
    system, path = place.open()
    info = system.get_file_info(path)
    return place, info.size or 0, info.mtime_ns or 0
