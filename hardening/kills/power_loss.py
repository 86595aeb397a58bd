"""Power failures: of what a process wrote, only what it synced is sure to be there afterwards.

    python -m hardening.kills.power_loss 1000 [SEED]

A process writes batches to a store, with `native/tests/disk_log.cpp` between it and the C library, which notes every
write and every sync in order. From these notes the disk is made as it may be after a power failure at any instant:
all that was synced; of the rest any part, in any order the disk liked, cut off at a sector. The store must open, and
hold every batch that was acknowledged before that instant, whole, and perhaps the one that was under way.
"""

import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hardening.contracts.store import check_same
from hardening.kills.store_writer import LIMITS, batch
from hardening.record import noted, times
from tidings.delivery.store import MemoryStore
from tidings.store.sqlite.store import SqliteStore

SOURCE = Path(__file__).parents[2] / "native" / "tests" / "disk_log.cpp"
HEAD = struct.Struct("<IIQQ")
NAME, WRITTEN, TRUNCATED, SYNCED, REMOVED = range(5)
SECTOR_BYTES = 512
BATCHES = 60  # of one process
ACKNOWLEDGED = "acknowledged"  # the file in which the writer says so
STORE = "store.db"


@dataclass(frozen=True, slots=True)
class Act:
    kind: int
    file: str
    offset: int = 0
    data: bytes = b""


def build(folder: Path) -> Path:
    library = folder / "disk_log.so"
    subprocess.run(["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def watched_writer(library: Path, folder: Path, seed: int, log: Path) -> list[Act]:
    """Let a process write BATCHES batches into a new store; what it did to the disk."""
    environment = {**os.environ, "LD_PRELOAD": str(library), "DISK_LOG_DIR": str(folder), "DISK_LOG": str(log)}
    arguments = ["-m", "hardening.kills.store_writer", folder / STORE, seed, 0, BATCHES, folder / ACKNOWLEDGED]
    subprocess.run([sys.executable, *map(str, arguments)], env=environment, check=True, stdout=subprocess.DEVNULL)
    return list(acts(log.read_bytes()))


def acts(log: bytes) -> Iterator[Act]:
    at, names = 0, {}
    while at < len(log):
        kind, file, offset, length = HEAD.unpack_from(log, at)
        at += HEAD.size
        data = log[at : at + length] if kind in (NAME, WRITTEN) else b""
        at += len(data)
        if kind == NAME:
            names[file] = Path(data.decode()).name
        else:
            yield Act(kind, names[file], offset, data)


def after_power_loss(done: list[Act], rng: random.Random) -> dict[str, bytes]:
    """The files as they may be: each act since the last sync of its file happened, in part, or not at all."""
    synced = {}
    for position, act in enumerate(done):
        if act.kind in (SYNCED, REMOVED):
            synced[act.file] = position
    files: dict[str, bytearray] = {}
    keep = rng.choice((0.0, 0.3, 0.7, 1.0))
    for position, act in enumerate(done):
        sure = position <= synced.get(act.file, -1)
        if sure or rng.random() < keep:
            apply(files, act if sure else torn(act, rng))
    return {name: bytes(content) for name, content in files.items()}


def torn(act: Act, rng: random.Random) -> Act:
    if act.kind != WRITTEN or rng.random() < 0.7:
        return act
    return Act(act.kind, act.file, act.offset, act.data[: SECTOR_BYTES * rng.randint(0, len(act.data) // SECTOR_BYTES)])


def apply(files: dict[str, bytearray], act: Act) -> None:
    if act.kind == REMOVED:
        files.pop(act.file, None)
        return
    content = files.setdefault(act.file, bytearray())
    if act.kind == TRUNCATED:
        content[act.offset :] = bytes(max(0, act.offset - len(content)))
    elif act.kind == WRITTEN:
        content.extend(bytes(max(0, act.offset - len(content))))
        content[act.offset : act.offset + len(act.data)] = act.data


def judge(files: dict[str, bytes], acknowledged: int, seed: int, folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    store = SqliteStore(folder / STORE, LIMITS)
    try:
        damaged = [damage.reason for damage in store.recover().damaged]
        assert not any("is gone" in reason or "is empty" in reason for reason in damaged), f"no file is lost: {damaged}"
        found = int(store.recover().notes.get("batch", b"0"))
        assert acknowledged <= found <= acknowledged + 1, f"{acknowledged} were acknowledged, {found} are there"
        model = MemoryStore()
        for number in range(1, found + 1):
            model.append(batch(seed, number))
        check_same(store, model, torn=True)
    finally:
        store.close()


def power_losses(count: int, seed: int, *, each: int = 100) -> int:
    """Run this number of power failures, `each` of them at instants of one process; return the number of batches
    checked."""
    rng, checked = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as place:
        library = build(Path(place))
        for first in range(0, count, each):
            writer_seed = rng.randrange(2**32)
            folder = Path(place) / f"written {first}"
            folder.mkdir()
            done = watched_writer(library, folder, writer_seed, Path(place) / f"log {first}")
            lost = [act for act in done if act.file != ACKNOWLEDGED]
            assert sum(act.kind == SYNCED for act in lost) >= BATCHES, "the writer's syncs were seen"
            for number in range(min(each, count - first)):
                instant = rng.randrange(1, len(done))
                before = done[:instant]
                acknowledged = sum(act.file == ACKNOWLEDGED for act in before)
                image = Path(place) / f"image {first + number}"
                image.mkdir()
                files = after_power_loss([act for act in before if act.file != ACKNOWLEDGED], rng)
                try:
                    judge(files, acknowledged, writer_seed, image)
                except Exception as error:
                    error.add_note(f"Repeat with: python -m hardening.kills.power_loss {count} {seed}")
                    raise
                checked += acknowledged
    return checked


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 3 or not all(one.isdecimal() for one in arguments[:2]):
        sys.exit("usage: python -m hardening.kills.power_loss COUNT [SEED [RESULTS]]")
    count, seed = times(arguments[0]), int(arguments[1]) if arguments[1:] else random.SystemRandom().randrange(2**32)
    results = arguments[2] if arguments[2:] else None
    found = noted(results, "power failures", lambda: {"batches": power_losses(count, seed)}, times=count, seed=seed)
    checked = found["batches"]
    sys.stdout.write(f"{count} power failures, seed {seed}: nothing lost of {checked:,} acknowledged batches\n")


if __name__ == "__main__":
    main(sys.argv[1:])
