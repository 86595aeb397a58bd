"""Reading what a broker retains: a range of offsets, cut into partitions; in a stream, one range after another.

A stream's position is an offset and the time at which the subscription was made, which Spark keeps in the checkpoint
of each query: queries do not affect each other, and a broker that lost its data, whose offsets mean other messages, is
noticed. Reading deletes nothing, unless the option `release` is set. A micro-batch that is repeated reads the same
offsets again and finds the same messages, because the broker keeps them as long as the limits of the subscription say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidings.client import sync
from tidings.client.retained import PAGE, RetainedPage
from tidings.errors import RemoteError, UsageError
from tidings.model.message import Message
from tidings.pipeline.source.filters import OffsetBounds, bounds_of, selector_of
from tidings.pipeline.source.options import ReadOptions, joined
from tidings.pipeline.source.rows import RowMaker

ROWS_PER_BATCH = 4096


@dataclass
class OffsetRange(InputPartition):
    """Offsets above `start`, up to `end`, of the subscription that was made at a time."""

    start: int
    end: int
    made_ms: int


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema
        self._bounds = OffsetBounds()
        RowMaker(schema)  # columns that cannot be are refused here, not on a worker

    def partitions(self) -> Sequence[InputPartition]:
        with self.options.access.connect() as client:
            kept = prepared(client, self.options)
            page = kept.read(messages=0)
            first, last = page.first, page.last
            start, end = self.options.start, min(self.options.end or last, last)
            if self.options.from_latest:
                start = last
            if self.options.fail_on_loss and 0 < start < min(first, end):  # from 0: all there are
                raise loss(f"offsets {start + 1} to {min(first, end)} of {self.options.subscription!r} are gone")
            low, high = max(start, first, self._bounds.above), min(end, self._bounds.up_to)
            return ranges(beginning(kept, low), high, page.made_ms, self.options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return read_range(self.options, self.schema, partition)


class PushingReader(BatchReader):
    """The same where Spark lets filters be pushed down."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802
        columns = {one.name: one.dataType for one in self.schema.fields}
        self.options = replace(self.options, selector=joined(self.options.selector, selector_of(filters, columns)))
        self._bounds = bounds_of(filters)
        return filters


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options, self.schema = options, schema
        RowMaker(schema)
        self._client: sync.Client | None = None
        self._until: int | None = None  # a run of what is available now ends here

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = self._kept().range()[1]

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        kept = self._kept()
        page = kept.read(messages=0)
        if self.options.from_latest:
            return position(page.last, page)
        return position(beginning(kept, max(self.options.start, page.first)), page)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        kept, at, name = self._kept(), int(start["offset"]), self.options.subscription
        now = kept.read(messages=0)
        last = now.last
        if start["made"] != now.made_ms:  # the broker lost its data, and assigns offsets again
            if self.options.fail_on_loss:
                raise loss(f"{name!r} is not the subscription that was read up to offset {at}: it was made later")
            at = 0
        if at < now.first and self.options.fail_on_loss:
            raise loss(f"offsets {at + 1} to {now.first} of {name!r} are gone")
        if last < at and at > self.options.start and self.options.fail_on_loss:
            raise loss(f"{name!r} ends at offset {last}, but was read up to {at}")
        last = last if self._until is None else min(self._until, last)
        if not isinstance(limit, ReadMaxRows):
            return position(max(at, last), now)
        wanted = int(limit.max_rows)
        while wanted > 0 and at < last:  # offsets have gaps: only the broker can count messages; it sends none
            page = kept.read(at, up_to=last, messages=min(wanted, PAGE), selector="1 = 0")
            if page.next <= at:
                break
            wanted, at = wanted - PAGE, page.next
        return position(at, now)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The last offset there is, for the query's progress: the lag is its distance from `endOffset` there."""
        page = self._kept().read(messages=0)
        return position(page.last, page)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        count = self.options.batch_messages
        return ReadMaxRows(count) if count else ReadAllAvailable()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begun = int(start["offset"]) if start["made"] == end["made"] else 0
        return ranges(begun, int(end["offset"]), int(end["made"]), self.options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)
        return read_range(self.options, self.schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        # Before the first batch of a broker that lost its data Spark commits the last one of the old: not its messages.
        if not self.options.release:
            return
        now = self._kept().read(messages=0)
        if end["made"] == now.made_ms and end["offset"] <= now.last:
            self._kept().release(int(end["offset"]))

    def stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _kept(self) -> sync.RetainedSubscription:
        if self._client is None:
            self._client = self.options.access.connect()
            prepared(self._client, self.options)
        return self._client.retained(self.options.subscription)


def position(offset: int, page: RetainedPage) -> dict[str, Any]:
    """As it is in a checkpoint."""
    return {"offset": offset, "made": page.made_ms}


def loss(reason: str) -> UsageError:
    return UsageError("E_SOURCE_LOSS", f"{reason}; set failOnDataLoss=false to continue with what is left")


def prepared(client: sync.Client, options: ReadOptions) -> sync.RetainedSubscription:
    """The retained subscription to read; created if it does not exist and a destination is set."""
    if not options.destination:
        return client.retained(options.subscription)
    try:
        return client.retain(
            options.subscription,
            options.destination,
            age_seconds=options.age_seconds,
            bytes_max=options.bytes_max,
            keep_limits=True,
        )
    except RemoteError as error:
        if error.code != "E_RETAIN_DIFFERS":
            raise
        raise UsageError("E_SOURCE_OPTION", f"{error.reason}: leave the option destination out") from None


def beginning(kept: sync.RetainedSubscription, after: int) -> int:
    """Just before the first message above an offset: what lies between is others', and would make partitions uneven."""
    return max(after, kept.read(after, messages=1, selector="1 = 0").next - 1)  # it tells the place and sends nothing


def ranges(start: int, end: int, made_ms: int, count: int) -> list[InputPartition]:
    """At least one: without any Spark asks for a partition that is none.

    >>> [(one.start, one.end) for one in ranges(10, 15, 1, 2)]
    [(10, 12), (12, 15)]
    >>> ranges(5, 5, 1, 2), ranges(9, 5, 1, 2)
    ([OffsetRange(start=5, end=5, made_ms=1)], [OffsetRange(start=9, end=9, made_ms=1)])
    """
    size = max(0, end - start)
    count = max(1, min(count, size))
    return [OffsetRange(a, b, made_ms) for a, b in pairwise(start + size * i // count for i in range(count + 1))]


def read_range(options: ReadOptions, schema: StructType, asked: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Runs on a worker."""
    maker = RowMaker(schema)
    waiting: list[tuple[int, Message]] = []
    with options.access.connect() as client:
        kept = client.retained(options.subscription)
        at = asked.start
        while at < asked.end:
            page = kept.read(at, up_to=asked.end, selector=options.selector)
            if page.made_ms != asked.made_ms:
                if options.fail_on_loss:
                    raise loss(f"{options.subscription!r} was made again since the read began")
                break
            if at < page.first and options.fail_on_loss:
                gone = f"offsets {at + 1} to {min(page.first, asked.end)}"
                raise loss(f"{gone} of {options.subscription!r} are gone")
            waiting += page.messages
            if len(waiting) >= ROWS_PER_BATCH:
                yield maker.batch(waiting)
                waiting = []
            if page.next <= at:
                break
            at = page.next
    if waiting:
        yield maker.batch(waiting)
