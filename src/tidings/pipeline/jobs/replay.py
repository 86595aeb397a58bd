"""Job `replay`: matches archived messages against subscriptions, in the kernel, on the workers.

Each worker process builds the matcher once. A row says how many subscriptions a message matched, at how many brokers,
and which set of brokers that is, by a number; a set's members stand beside the first message of a task that had it. The
last row of a task carries what it has counted for each broker and subscription, so that no pair of message and
subscription ever becomes a row. Messages that cannot be decoded have no row.

Similarity. φ(S) of the covering paper is the share of a root's messages that are wanted by others too, once S is gone:
by those that become roots or by those S does not cover. Whatever S covers lies below one or the other, so φ(S) is the
share of S's messages that match anything besides S.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidings.errors import CodecError, UsageError
from tidings.kernel.codec import Buffer, MessageBatch
from tidings.kernel.tally import Tally
from tidings.matching.cover_index import CoverIndex
from tidings.matching.indexed import IndexedMatcher
from tidings.model.codec import decode_predicate
from tidings.model.message_id import SIZE
from tidings.model.predicate import Predicate
from tidings.pipeline.distinct import distinct
from tidings.pipeline.run import IMPROPER, JobOutcome, JobRun, left_out, parts_of
from tidings.pipeline.schemas import RESULTS, spark_schema
from tidings.pipeline.storage_paths import StoragePath

Numbers = NDArray[np.int64]
SLICE = 4096  # messages matched together: what they match must fit into memory, however many subscriptions there are
SPENT = {"kernel": 0.0}  # CPU seconds in the kernel, for benchmarks


@dataclass(frozen=True, slots=True)
class ReplaySubscriptions:
    """Numbers, brokers and encoded predicates; the i-th predicate ends at `ends[i]`."""

    numbers: Numbers
    routers: Numbers
    blobs: bytes
    ends: NDArray[np.uint64]

    @classmethod
    def read(cls, folders: Sequence[StoragePath]) -> "ReplaySubscriptions":
        table = pa.concat_tables([one for _, one in _tables(folders)]).sort_by("number")
        blobs, ends = column_of(table["predicate"].combine_chunks())
        return cls(table["number"].to_numpy(), table["router"].to_numpy(), bytes(blobs), ends)

    def __len__(self) -> int:
        return len(self.numbers)

    def predicate(self, i: int) -> Predicate:
        start = 0 if i == 0 else int(self.ends[i - 1])
        return decode_predicate(self.blobs[start : int(self.ends[i])])


def _tables(folders: Sequence[StoragePath]) -> Iterator[tuple[StoragePath, pa.Table]]:
    """Subscriptions file by file."""
    types = pa.schema([("number", pa.int64()), ("router", pa.int64()), ("predicate", pa.binary())])
    for folder in folders:
        inside = [place for place, _, _ in folder.list(recursive=True)] if not folder.is_file() else []
        for place in [one for one in inside if one.name.endswith(".parquet")] or [folder]:
            system, path = place.open()
            yield place, pq.read_table(path, filesystem=system, columns=types.names).cast(types)


def check_subscriptions(folders: Sequence[StoragePath]) -> None:
    """Raises an error that names the first row which no worker could use."""
    for place, table in _tables(folders):
        wrong = _wrong_row(table)
        if wrong is not None:
            row, reason = wrong
            raise UsageError("E_PIPELINE_INPUT", f"replay.subscriptions: row {row} (from 0) of {place.uri}: {reason}")


def _wrong_row(table: pa.Table) -> tuple[int, str] | None:
    for name in table.column_names:
        row = pc.index(pc.is_null(table[name]), True).as_py()
        if row >= 0:
            return row, f"{name} is null"
    row = pc.index(pc.less(table["router"], 0), True).as_py()
    if row >= 0:
        return row, f"the router is {table['router'][row]}, less than 0"
    try:
        blobs, ends = column_of(table["predicate"].combine_chunks())
        IndexedMatcher().add_many(np.arange(len(table), dtype=np.uint32), bytes(blobs), ends)
    except CodecError:
        return _wrong_predicate(table["predicate"])
    return None


def _wrong_predicate(predicates: pa.ChunkedArray) -> tuple[int, str] | None:
    for row, one in enumerate(predicates.to_pylist()):
        try:
            IndexedMatcher().add_many(np.zeros(1, np.uint32), one, np.array([len(one)], np.uint64))
        except CodecError as error:
            return row, f"this is no predicate: {error}"
    return None


@dataclass(slots=True)
class Sums:
    """The counts of a task; the job's are their sums."""

    router_messages: Numbers  # by router, in ascending order of routers
    router_matches: Numbers
    matched: Numbers  # by subscription: messages
    alone: Numbers  # of these, matched by no other

    @classmethod
    def empty(cls, routers: int, subscriptions: int) -> "Sums":
        return cls(*(np.zeros(n, np.int64) for n in (routers, routers, subscriptions, subscriptions)))

    def add(self, other: "Sums") -> None:
        for name in ("router_messages", "router_matches", "matched", "alone"):
            getattr(self, name).__iadd__(getattr(other, name))

    def to_bytes(self) -> bytes:
        parts = (self.router_messages, self.router_matches, self.matched, self.alone)
        return b"".join(part.astype("<i8").tobytes() for part in parts)

    @classmethod
    def from_bytes(cls, data: bytes, routers: int, subscriptions: int) -> "Sums":
        flat = np.frombuffer(data, "<i8").astype(np.int64)
        cuts = np.cumsum([routers, routers, subscriptions])
        return cls(*(part.copy() for part in np.split(flat, cuts)))


class Counting:
    """The counters of a task."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.sets: set[int] = set()  # of brokers, that were met

    def sums(self) -> Sums:
        tally = self.tally
        return Sums(tally.router_messages, tally.router_matches, tally.matched, tally.alone)


class Replayer:
    """A matcher, and where its subscriptions are attached."""

    def __init__(self, subscriptions: ReplaySubscriptions) -> None:
        self.subscriptions = subscriptions
        self.matcher = IndexedMatcher()
        self.matcher.add_many(np.arange(len(subscriptions), dtype=np.uint32), subscriptions.blobs, subscriptions.ends)
        self.routers, router_of = np.unique(subscriptions.routers, return_inverse=True)
        self._router_of = router_of.astype(np.uint32)
        self._marks = np.array([_hash(int(router)) for router in self.routers], np.uint64)

    def counting(self) -> Counting:
        return Counting(Tally(self._router_of, self._marks))

    def match(
        self, messages: Buffer, ends: NDArray[np.uint64], counting: Counting
    ) -> tuple[Numbers, Numbers, Numbers, Numbers, list[list[int] | None]]:
        """For each message that can be decoded: its place, matches, brokers, the number of the set of brokers, and the
        set where it is first met."""
        began = time.thread_time()
        batch = MessageBatch.from_column(messages, ends, derived=self.matcher.derived_mask)
        offsets, found = self.matcher.match(batch)
        routers, sets = counting.tally.add(offsets, found)
        SPENT["kernel"] += time.thread_time() - began
        whole = np.arange(len(batch))
        if batch.broken:
            whole = np.array([i for i in range(len(batch)) if batch.is_message(i)], np.int64)
        sets = sets[whole]
        members: list[list[int] | None] = [None] * len(whole)
        values, firsts, _ = distinct(sets)
        for value, first in zip(values.tolist(), firsts.tolist(), strict=True):
            if value not in counting.sets:
                counting.sets.add(value)
                place = whole[first]
                own = np.unique(self._router_of[found[offsets[place] : offsets[place + 1]]])
                members[first] = self.routers[own].tolist()
        matches: Numbers = (offsets[1:] - offsets[:-1]).astype(np.int64)
        return whole, matches[whole], routers[whole], sets.view(np.int64), members

    def match_column(self, messages: pa.Array, counting: Counting) -> tuple[Numbers, list[pa.Array]]:
        """The same as places and columns, for as many messages as there are."""
        data, ends = column_of(messages.fill_null(b""))
        found = []
        for start in range(0, max(len(ends), 1), SLICE):
            first = int(ends[start - 1]) if start else 0
            part = ends[start : start + SLICE]
            last = int(part[-1]) if len(part) else first
            whole, *numbers, members = self.match(data[first:last], part - np.uint64(first), counting)
            found.append((whole + start, numbers, members))
        numbers = [np.concatenate([one[i] for _, one, _ in found]) for i in range(3)]
        members = [one for _, _, some in found for one in some]
        columns = [*map(pa.array, numbers), pa.array(members, pa.list_(pa.int64()))]
        return np.concatenate([whole for whole, _, _ in found]), columns


def column_of(blobs: pa.Array) -> tuple[memoryview, NDArray[np.uint64]]:
    """The bytes of a binary column one after the other, and where each ends.

    >>> data, ends = column_of(pa.array([b"ab", b"", b"cde"]).slice(1))
    >>> bytes(data), ends.tolist()
    (b'cde', [0, 3])
    """
    _, offsets, data = blobs.buffers()
    bounds = np.frombuffer(offsets, np.int32)[blobs.offset : blobs.offset + len(blobs) + 1].astype(np.uint64)
    return memoryview(data or b"")[int(bounds[0]) : int(bounds[-1])], bounds[1:] - bounds[0]


def matches(messages: DataFrame, folders: Sequence[StoragePath]) -> DataFrame:
    """Columns of the table `matches`, of messages with `id` and `message`; what is no id is left out: see `counted`."""
    uris = tuple(place.uri for place in folders)
    proper = messages.select("id", "message").where(f.length("id") == SIZE)
    return proper.mapInArrow(partial(_replay, folders=uris), spark_schema(RESULTS["matches"]))


def counted(messages: DataFrame) -> tuple[int, int]:
    """Counts messages with a valid id and without one (null, or not of 16 bytes)."""
    proper = f.length("id") == SIZE
    (row,) = messages.agg(f.count("*").alias("all"), f.count(f.when(proper, 1)).alias("proper")).collect()
    return row["proper"], row["all"] - row["proper"]


@lru_cache(maxsize=1)
def _replayer(folders: tuple[str, ...]) -> Replayer:
    return Replayer(ReplaySubscriptions.read([StoragePath(uri) for uri in folders]))


def _replay(batches: Iterator[pa.RecordBatch], folders: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Runs on a worker."""
    replayer = _replayer(folders)
    counting, held = replayer.counting(), None
    names = [column.name for column in RESULTS["matches"].columns]
    for batch in batches:
        if not batch.num_rows:
            continue
        whole, columns = replayer.match_column(batch.column("message"), counting)
        if not len(whole):
            continue
        if held is not None:
            yield pa.RecordBatch.from_arrays([*held, pa.nulls(len(held[0]), pa.binary())], names)
        held = [batch.column("id").take(pa.array(whole)), *columns]
    if held is not None:
        tallies: list[bytes | None] = [None] * (len(held[0]) - 1) + [counting.sums().to_bytes()]
        yield pa.RecordBatch.from_arrays([*held, pa.array(tallies, pa.binary())], names)


def coverers(numbers: DataFrame, folders: Sequence[StoragePath]) -> DataFrame:
    """Of each subscription (by its index) how many others cover it, and one of them if it is the only one."""
    uris = tuple(place.uri for place in folders)
    return numbers.mapInArrow(partial(_coverers, folders=uris), "number long, coverers long, only long")


@lru_cache(maxsize=1)
def _cover_index(folders: tuple[str, ...]) -> tuple[list[Predicate], CoverIndex[int]]:
    subscriptions = ReplaySubscriptions.read([StoragePath(uri) for uri in folders])
    predicates = [subscriptions.predicate(i) for i in range(len(subscriptions))]
    index: CoverIndex[int] = CoverIndex()
    for i, predicate in enumerate(predicates):
        index.add(i, predicate)
    return predicates, index


def _coverers(batches: Iterator[pa.RecordBatch], folders: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    predicates, index = _cover_index(folders)
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for i in batch.column(0).to_pylist():
            equal = set(index.covered_by(predicates[i]))  # of those that cover each other the first stands for all
            above = [
                other for other in index.covering(predicates[i]) if other != i and (other not in equal or other < i)
            ]
            rows.append({"number": i, "coverers": len(above), "only": above[0] if len(above) == 1 else None})
        if rows:
            types = pa.schema([(name, pa.int64()) for name in ("number", "coverers", "only")])
            yield pa.RecordBatch.from_pylist(rows, types)


def _hash(router: int) -> int:
    return int.from_bytes(blake2b(router.to_bytes(8, "little"), digest_size=8).digest(), "little")


def replay_job(run: JobRun) -> list[JobOutcome]:
    messages, about = run.message_rows()
    folders, subscriptions = run.subscription_files()
    options = run.config.replay
    inputs = {"messages": about, "subscriptions": subscriptions, "options": asdict(options)}
    stored = run.result("matches")
    counts = cache(lambda: counted(messages))

    def matched_rows() -> DataFrame:
        if options.subscriptions != "generated":
            check_subscriptions(folders)  # refused here, not on a worker
        return matches(messages, folders)

    made = [run.write(stored, inputs, matched_rows, lambda: left_out(ids=(counts()[1], IMPROPER)))]
    matched = {"matches": parts_of(stored.need()), "name": options.name}
    rows = stored.read(run.spark)
    name = f.lit(options.name).alias("replay")
    grades = rows.groupBy(f.col("matches").alias("grade")).agg(f.count("*").alias("messages")).select(name, "*")
    sets = rows.groupBy("destinations").agg(f.min("members").alias("routers"), f.count("*").alias("messages"))
    made.append(run.write(run.result("grades"), matched, lambda: grades))
    made.append(run.write(run.result("destinations"), matched, lambda: sets.select(name, "*")))
    damaged = cache(lambda: counts()[0] - stored.need().rows)
    summed = cache(lambda: _summed(run, folders, damaged()))
    made.append(run.write(run.result("router_shares"), matched, lambda: summed()["router_shares"]))

    def skipped() -> dict[str, str]:
        return left_out(messages=(damaged(), "null, or damaged"))

    made.append(run.write(run.result("moments"), matched, lambda: summed()["moments"], skipped))
    return made


def _summed(run: JobRun, folders: list[StoragePath], damaged: int) -> dict[str, DataFrame]:
    """The tables that come of the tasks' sums and of the grades."""
    options = run.config.replay
    rows = run.result("matches").read(run.spark)
    subscriptions = ReplaySubscriptions.read(folders)
    routers = np.unique(subscriptions.routers)
    total = Sums.empty(len(routers), len(subscriptions))
    for row in rows.where("tally IS NOT NULL").select("tally").toLocalIterator():
        total.add(Sums.from_bytes(bytes(row.tally), len(routers), len(subscriptions)))
    shares = [
        (options.name, int(router), int(messages), int(matches))
        for router, messages, matches in zip(routers, total.router_messages, total.router_matches, strict=True)
    ]
    degree = similarity = None
    if 0 < len(subscriptions) <= options.covering_max:
        degree, similarity = _covering(run, folders, total)
    grades = [(row.grade, row.messages) for row in run.result("grades").read(run.spark).collect()]
    messages = sum(count for _, count in grades)
    sums = [sum(grade**power * count for grade, count in grades) for power in (1, 2, 3)]
    means = [one / max(messages, 1) for one in (*sums, int(total.router_messages.sum()))]
    made = [(options.name, messages, damaged, *means, degree, similarity)]
    return {
        "router_shares": run.spark.createDataFrame(shares, spark_schema(RESULTS["router_shares"])),
        "moments": run.spark.createDataFrame(made, spark_schema(RESULTS["moments"])),
    }


def _covering(run: JobRun, folders: list[StoragePath], total: Sums) -> tuple[float | None, float | None]:
    """The covering degree and the mean similarity φ of roots that matched anything."""
    count = len(total.matched)
    found = coverers(run.spark.range(0, count, 1, min(count, 64)), folders).collect()
    roots = {row.number for row in found if row.coverers == 0}
    subtypes = sum(row.only in roots for row in found if row.only is not None)
    active = [i for i in sorted(roots) if total.matched[i]]
    similar = [1 - total.alone[i] / total.matched[i] for i in active]
    return subtypes / len(roots), float(np.mean(similar)) if similar else None
