"""Publication of a batch by the driver: all staged rows become visible in its commit, once, however often it is tried.

Tasks stage rows (`row_writer`) and publish nothing. The driver joins what they staged and publishes it in a transaction
under a key of the query and the number of the batch, which the broker stores with it. How Spark cut the batch into
tasks therefore does not matter, nor do speculative or repeated tasks: Spark passes one result for each partition.

    start ──► part 1 ──► … ──► last part       numbers of the commits of batch b: b·2²⁰ + 0, 1, …, 2²⁰ − 1

A batch that is larger than one transaction (in bytes, or by rows) is published in parts. Its rows are then sorted by
content, so that a batch that is repeated with other partitions has the same parts, and goes on behind the last that was
committed. Every commit carries a digest of all rows of the batch; if a batch that was published in part comes again
with other rows, it is refused (E_SINK_CHANGED), because no continuation would be right. One transaction needs no such
check: what was committed first is the batch.
"""

import asyncio
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from pyspark.sql.datasource import WriterCommitMessage

from tidings.client.client import Client
from tidings.client.factory import connect
from tidings.errors import ConnectionLostError, LimitError, RemoteError, UsageError
from tidings.node.settings import NodeSettings
from tidings.pipeline.source.options import PAUSE_SECONDS, WriteOptions

PARTS = 1 << 20
COMPLETE = PARTS - 1
DIGEST_BYTES = 16
ROW_BYTES = 64  # of a message besides its content
ROWS_MAX = NodeSettings().transaction_messages_max  # of a transaction


@dataclass
class StagedRows(WriterCommitMessage):
    """The rows of one partition as encoded messages without ids; equal rows have equal encodings."""

    query: str  # of a stream; empty: a batch write
    rows: list[bytes]


def digest_of(rows: Sequence[bytes]) -> str:
    """A text that stands for these rows in this order.

    >>> digest_of([b"a", b"bc"]) == digest_of([b"ab", b"c"]), len(digest_of([]))
    (False, 32)
    """
    hashed = blake2b(array("Q", map(len, rows)).tobytes(), digest_size=DIGEST_BYTES)
    hashed.update(b"".join(rows))
    return hashed.hexdigest()


class BatchPublisher:
    """Publishes one batch of a query."""

    def __init__(self, options: WriteOptions, key: str, batch: int, staged: Sequence[StagedRows]) -> None:
        self._options, self._key, self._base = options, key, batch * PARTS
        rows = [row for one in staged for row in one.rows]
        size = sum(len(row) + ROW_BYTES for row in rows)
        self._parts, arranged = [rows], sorted(rows)
        if size > options.transaction_bytes or len(rows) > ROWS_MAX:
            self._parts = list(parts_of(arranged, options.transaction_bytes))
        self._digest = f"{digest_of(arranged)}-{len(rows)}-{options.transaction_bytes}"
        if len(self._parts) >= COMPLETE:
            raise LimitError("E_SINK_SIZE", f"a batch can have at most {COMPLETE} transactions: raise transactionBytes")

    def publish(self) -> bool:
        """Publish what is not published yet; False if all of it was."""
        return asyncio.run(self._patiently())

    async def _patiently(self) -> bool:
        """Tries again while the broker cannot be reached, or another driver's commit of this batch is under way."""
        deadline = time.monotonic() + self._options.access.retry_seconds
        while True:
            try:
                async with connect(self._options.access.url, **self._options.access.arguments()) as client:
                    return await self._publish(client)
            except ConnectionLostError:
                if time.monotonic() > deadline:
                    raise
            except RemoteError as error:
                if error.code != "E_COMMIT_BUSY" or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def _publish(self, client: Client) -> bool:
        done = await self._commit(client, [], 0)
        if done == COMPLETE:
            return False
        last = len(self._parts) - 1
        for index in range(done, len(self._parts)):
            number = COMPLETE if index == last else index + 1
            if number > done:
                done = await self._commit(client, self._parts[index], number)
        return True

    async def _commit(self, client: Client, rows: Sequence[bytes], number: int) -> int:
        """Commit rows under a number of this batch; returns the number that is committed now."""
        work = client.transaction()
        await work.begin()
        await work.publish_encoded(rows)
        if await work.commit(self._key, self._base + number, self._digest):
            return number
        stored, digest = work.last_commit
        if stored - self._base >= COMPLETE:
            return COMPLETE
        if stored > self._base and digest != self._digest:
            reason = f"batch {self._base // PARTS} was published in part, and has other rows now: "
            remedy = "the query or its source does not repeat a batch; raise transactionBytes above a batch's size"
            raise UsageError("E_SINK_CHANGED", reason + remedy)
        return stored - self._base


def parts_of(rows: Sequence[bytes], bytes_max: int, rows_max: int = ROWS_MAX) -> Iterator[list[bytes]]:
    """Rows one after the other, in parts of limited size; at least one row each.

    >>> [len(part) for part in parts_of([b"a" * 100, b"b" * 100, b"c" * 100], 400)]
    [2, 1]
    >>> [len(part) for part in parts_of([b"a", b"b", b"c"], 400, rows_max=2)]
    [2, 1]
    """
    part: list[bytes] = []
    size = 0
    for row in rows:
        if part and (size + len(row) + ROW_BYTES > bytes_max or len(part) >= rows_max):
            yield part
            part, size = [], 0
        part.append(row)
        size += len(row) + ROW_BYTES
    yield part
