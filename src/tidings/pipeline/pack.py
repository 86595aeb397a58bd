"""Packs what Spark's executors need beside Spark itself: an archive for clusters whose machines have no Tidings.

    python -m tidings.pipeline.pack executors.tar.gz
    spark-submit --archives executors.tar.gz#packed --conf spark.executorEnv.PYTHONPATH=packed …

It has the installed packages that tasks import: Tidings with its kernel, Arrow, NumPy and what they need. Executors
bring Spark and the same minor version of Python. PySpark, the console and the plots stay out.
"""

import importlib.metadata
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path, PurePath

from tidings.errors import UsageError

ROOTS = ("numpy", "pyarrow", "deltalake", "scipy")  # installed beside Tidings, with what they need
LEFT_OUT = {"tests", "include", "__pycache__", "bin"}
SUFFIXES_LEFT_OUT = {".pyi", ".a", ".h", ".pyx", ".pxd", ".pyc"}
UNUSED = re.compile(r"(lib)?(arrow)?_?(flight|gandiva)\b.*")  # parts of Arrow that nothing here imports
COMPRESSION = 6


def needed(roots: Iterable[str] = ROOTS) -> set[str]:
    """Names of distributions: these, and those that they need and that are installed."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            asked = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        plain = (one for one in asked if "extra ==" not in one)
        waiting += [match[0] for one in plain if (match := re.match(r"[A-Za-z0-9._-]+", one))]
    return found


def files() -> Iterator[tuple[Path, str]]:
    """Each file, and its name in the archive."""
    for package in ("tidings", "pyspark_tidings"):
        folder = _place(package).parent
        for path in sorted(folder.rglob("*")):
            yield path, str(PurePath(folder.name) / path.relative_to(folder))
    kernel = _place("tidings._kernel")
    yield kernel, f"tidings/{kernel.name}"
    for name in sorted(needed()):
        for one in importlib.metadata.files(name) or []:
            yield Path(str(one.locate())), str(one)


def _place(module: str) -> Path:
    found = find_spec(module)
    assert found is not None
    return Path(str(found.origin))


def pack(target: Path) -> int:
    """Writes the archive; returns its size in bytes."""
    if not target.name.endswith(".tar.gz"):
        raise UsageError("E_PIPELINE_PLACE", f"{target}: the archive's name must end with .tar.gz")
    there = set[str]()
    with tarfile.open(target, "w:gz", compresslevel=COMPRESSION) as archive:
        for path, name in files():
            inside = PurePath(name)
            if name in there or ".." in inside.parts or LEFT_OUT & {*inside.parts} or not path.is_file():
                continue
            if inside.suffix not in SUFFIXES_LEFT_OUT and not UNUSED.fullmatch(inside.name):
                there.add(name)
                archive.add(path, name)
    return target.stat().st_size


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tidings.pipeline.pack FILE.tar.gz")
    size = pack(Path(sys.argv[1]))
    sys.stdout.write(f"{sys.argv[1]}: {size / 1e6:.0f} MB\n")


if __name__ == "__main__":
    main()
