"""Ids and the filters that concern them, put together by Spark in buckets of time.

    ids       ··ids of slot 0··|··1··|·····2·····|··3··|       slots: equal pieces of the time that most ids are of
    buckets   ───────0─────────|────────1, 2───────────|       about as many ids each; a slot of very many has several
    filters   ────             |        ──────         |       in every bucket that their times overlap

A worker gets one bucket at a time: its ids, and the metadata of the filters whose times overlap it, so that no worker
and no driver holds what grows with all of history. How ids are cut has no influence on what is found: each id meets
every filter that may hold it. Slots and buckets are planned from a sample of the ids.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from tidings.model.message_id import SIZE

BUCKET = "bucket"
SLOTS = 1024
BUCKET_IDS = 1 << 22  # that a worker sorts and asks together: filters at its ends are read for the next one again
BUCKET_LEAST = 50_000  # what is smaller costs more than it gains
SAMPLE = 100_000
EDGE = 0.001  # of the ids at each end: what lies beyond is in the first and the last slot


@dataclass(frozen=True, slots=True)
class IdSummary:
    """Summary of ids, from one pass."""

    proper: int
    improper: int  # null, or not of 16 bytes
    first_ms: int
    last_ms: int


def summary(ids: DataFrame) -> IdSummary:
    proper = is_proper()
    time = f.when(proper, f.substring("id", 9, 6))  # the milliseconds, big-endian: bytes sort as numbers
    found = ids.agg(f.count("*"), f.count(f.when(proper, 1)), f.min(time), f.max(time)).first()
    assert found is not None
    total, count, first, last = found
    ends = (int.from_bytes(one or b"", "big") for one in (first, last))
    return IdSummary(count, total - count, *ends)


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """`first[i]` to `last[i]` are the buckets of slot i."""

    low_ms: int  # where slot 0 begins; what is earlier is in it too
    width_ms: int
    first: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.last[-1] + 1

    def of_ids(self, ids: DataFrame) -> DataFrame:
        """Ids of 16 bytes, with their bucket."""
        slot = self._slot(milliseconds())
        first, last = _look_up(self.first, slot), _look_up(self.last, slot)
        bucket = first if self.first == self.last else first + f.pmod(f.xxhash64("id"), last - first + 1).cast("int")
        return ids.select("id").where(is_proper()).select("id", bucket.alias(BUCKET))

    def of_filters(self, filters: DataFrame, known: IdSummary) -> DataFrame:
        """Filters in the buckets of all ids whose times they match; of none if there are no such ids."""

        def buckets(first: Column, last: Column) -> Column:
            low, high = f.greatest(first, f.lit(known.first_ms)), f.least(last, f.lit(known.last_ms))
            between = f.sequence(_look_up(self.first, self._slot(low)), _look_up(self.last, self._slot(high)))
            return f.when(low <= high, between).otherwise(f.array().cast("array<int>"))

        own = f.when(f.col("first_ms").isNotNull(), buckets(f.col("first_ms"), f.col("last_ms")))
        single = f.flatten(f.transform("singles_ms", lambda at: buckets(at, at)))
        every = f.array_distinct(f.concat(f.coalesce(own, f.array().cast("array<int>")), single))
        return filters.withColumn(BUCKET, f.explode(every))

    def _slot(self, ms: Column) -> Column:
        place = f.floor((ms - self.low_ms) / self.width_ms)
        return f.greatest(f.least(place, f.lit(len(self.first) - 1)), f.lit(0)).cast("int")


def is_proper() -> Column:
    return f.length("id") == SIZE


def milliseconds() -> Column:
    """The time in the column `id`."""
    return f.conv(f.hex(f.substring("id", 9, 6)), 16, 10).cast("bigint")


def plan(ids: DataFrame, known: IdSummary, parallelism: int) -> TimeBuckets:
    """Buckets of about equal numbers of ids: enough for all tasks, unless they would be small."""
    wanted = max(1, min(parallelism, known.proper // BUCKET_LEAST), -(-known.proper // BUCKET_IDS))
    if wanted == 1:
        return TimeBuckets(0, 1, (0,), (0,))
    fraction = min(1.0, SAMPLE / known.proper)
    times = ids.where(is_proper()).sample(fraction, 1).select(milliseconds().alias("ms"))
    ends = times.agg(f.percentile_approx("ms", [EDGE, 1 - EDGE], 10_000)).first()
    low, high = (ends[0] if ends is not None else None) or (known.first_ms, known.last_ms)
    even = TimeBuckets(low, max(1, -(-(high + 1 - low) // SLOTS)), (0,) * SLOTS, (0,) * SLOTS)
    counts = [0] * SLOTS
    for row in times.groupBy(even._slot(f.col("ms")).alias("slot")).count().collect():
        counts[row["slot"]] = row["count"]
    return TimeBuckets(even.low_ms, even.width_ms, *_divided(counts, max(1.0, sum(counts) / wanted)))


def _divided(counts: Sequence[int], size: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first and last bucket of each slot, for buckets of about a size.

    >>> _divided([5, 5, 10, 0, 35, 1], 10)
    ((0, 0, 1, 1, 2, 6), (0, 0, 1, 1, 5, 6))
    """
    first, last = list[int](), list[int]()
    bucket, filled = 0, 0.0
    for count in counts:
        if filled and filled + count > size:
            bucket, filled = bucket + 1, 0.0
        first.append(bucket)
        pieces = math.ceil(count / size) if count > 2 * size else 1
        bucket += pieces - 1
        last.append(bucket)
        filled = size if pieces > 1 else filled + count
    return tuple(first), tuple(last)


def _look_up(numbers: Sequence[int], slot: Column) -> Column:
    return f.element_at(f.lit(list(numbers)), slot + 1)
