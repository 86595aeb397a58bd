"""Job `generate`: workloads of any size; message i and subscription i depend only on the seed and i."""

from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache, partial
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidings.matching.workload import Workload
from tidings.model.message_id import MessageId
from tidings.model.tables import MESSAGES
from tidings.pipeline.config import GenerateOptions
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import SUBSCRIPTIONS, spark_schema
from tidings.pipeline.session import parallelism
from tidings.segments.arrow_schema import arrow_schema

PIECE = 10_000  # items a task draws at a time


def generated_messages(spark: SparkSession, options: GenerateOptions) -> DataFrame:
    draw = partial(_messages, options=options)
    return _pieces(spark, options.messages).mapInArrow(draw, spark_schema(MESSAGES))


def generated_subscriptions(spark: SparkSession, options: GenerateOptions) -> DataFrame:
    """Subscription i is attached to broker i mod routers, from 1."""
    draw = partial(_subscriptions, options=options)
    return _pieces(spark, options.subscriptions).mapInArrow(draw, spark_schema(SUBSCRIPTIONS))


def _pieces(spark: SparkSession, count: int) -> DataFrame:
    pieces = -(-count // PIECE)
    tasks = max(1, min(pieces, 4 * parallelism(spark)))
    first = f"id * {PIECE} AS start"
    return spark.range(0, pieces, 1, tasks).selectExpr(first, f"least({PIECE}, {count} - id * {PIECE}) AS size")


@lru_cache(maxsize=4)
def workload(options: GenerateOptions) -> Workload:
    return Workload(options.seed, conjunctions=options.conjunctions, zipf=options.zipf)


def _messages(batches: Iterator[pa.RecordBatch], options: GenerateOptions) -> Iterator[pa.RecordBatch]:
    for start, size in _asked(batches):
        encoded = messages_of(workload(options).encoded_messages(start, size))
        ids = [MessageId.from_bytes(one[4:20]) for one in encoded]
        columns = {
            "id": [bytes(id) for id in ids],
            "publisher": [id.publisher for id in ids],
            "broker": [id.broker for id in ids],
            "ms": [id.ms for id in ids],
            "source": [f"workload {options.seed}"] * size,
            "size": list(map(len, encoded)),
            "message": encoded,
        }
        yield pa.RecordBatch.from_pydict(columns, arrow_schema(MESSAGES).remove_metadata())


def messages_of(data: bytes) -> list[bytes]:
    """Messages that stand each after its length."""
    encoded, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        encoded.append(data[at + 4 : end])
        at = end
    return encoded


def _subscriptions(batches: Iterator[pa.RecordBatch], options: GenerateOptions) -> Iterator[pa.RecordBatch]:
    types = pa.schema([("number", pa.int64()), ("router", pa.int64()), ("predicate", pa.binary())])
    for start, size in _asked(batches):
        data, ends = workload(options).encoded_predicates(start, size)
        numbers = range(start, start + size)
        columns = {
            "number": list(numbers),
            "router": [1 + number % options.routers for number in numbers],
            "predicate": [data[a:b] for a, b in pairwise([0, *ends.tolist()])],
        }
        yield pa.RecordBatch.from_pydict(columns, types)


def _asked(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int]]:
    for batch in batches:
        yield from zip(batch.column("start").to_pylist(), batch.column("size").to_pylist(), strict=True)


def generate_job(run: JobRun) -> list[JobOutcome]:
    options = run.config.generate
    inputs = asdict(options)
    return [
        run.write(run.generated(MESSAGES), inputs, lambda: generated_messages(run.spark, options)),
        run.write(run.generated(SUBSCRIPTIONS), inputs, lambda: generated_subscriptions(run.spark, options)),
    ]
