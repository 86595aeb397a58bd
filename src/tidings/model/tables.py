"""The tables that brokers, clients, lab and simulator append to and the pipeline reads: their columns and types.

Plain descriptions: the writers of Parquet (`tidings.segments`) and the readers in Spark derive their schemas from them.
All numbers are signed, because Spark knows no others; all times are milliseconds since 1970. A table's version changes
with any change of its columns; a reader refuses versions it does not know. docs/segments.md explains each table.

>>> HISTORIES.version, [column.name for column in ATTACHMENTS.columns]
(1, ['broker', 'incarnation', 'kind', 'peer', 'ms', 'attached'])
"""

from dataclasses import dataclass
from enum import Enum


class Type(Enum):
    INT = "int64"
    FLOAT = "float64"
    FLAG = "bool"
    TEXT = "utf8"
    BYTES = "binary"
    INTS = "list<int64>"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    about: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    version: int
    about: str
    columns: tuple[Column, ...]


SAMPLES = Table(
    "samples",
    1,
    "measurements: one number, of one metric, at one time",
    (
        Column("run", Type.TEXT, "the run it belongs to; empty: a broker in service"),
        Column("source", Type.TEXT, "who measured: a broker, client or generator"),
        Column("ms", Type.INT, "when"),
        Column("metric", Type.TEXT, "what, with the unit last: latency_ms, received_messages"),
        Column("value", Type.FLOAT, "the number"),
        Column("labels", Type.TEXT, "more about it, a JSON object"),
    ),
)

RUNS = Table(
    "runs",
    1,
    "experiments: one row when a run ends",
    (
        Column("run", Type.TEXT, "unique name"),
        Column("experiment", Type.TEXT, "what it is a run of"),
        Column("seed", Type.INT, "of all chance in it", nullable=True),
        Column("started_ms", Type.INT, "when it began"),
        Column("ended_ms", Type.INT, "when it ended"),
        Column("parameters", Type.TEXT, "a JSON object"),
        Column("outcome", Type.TEXT, "done, or why not"),
        Column("environment", Type.TEXT, "machine, commit and versions, a JSON object"),
    ),
)

HISTORIES = Table(
    "histories",
    1,
    "tracking: filters of message ids; of equal (broker, incarnation, sequence) the row with the highest count holds",
    (
        Column("broker", Type.INT, "who recorded"),
        Column("incarnation", Type.INT, "of its process"),
        Column("sequence", Type.INT, "of the filter, unique within the incarnation"),
        Column("kind", Type.TEXT, "publish, route, forward or deliver"),
        Column("origin", Type.INT, "the broker where the messages were published"),
        Column("peer", Type.TEXT, "the neighbour or subscriber they went to; empty: none"),
        Column("encoding", Type.TEXT, "runs, lines, bloom or ids"),
        Column("count", Type.INT, "how many ids"),
        Column("full", Type.FLAG, "whether it holds as many as it can"),
        Column("first_ms", Type.INT, "the range of the ids' times", nullable=True),
        Column("last_ms", Type.INT, "both ends belong to it", nullable=True),
        Column("singles_ms", Type.INTS, "times outside the range, ascending"),
        Column("opened_ms", Type.INT, "when it was begun, by the broker's clock"),
        Column("stored_ms", Type.INT, "when it was stored, by the broker's clock"),
        Column("data", Type.BYTES, "the filter or the ids (docs/wire.md)"),
    ),
)

ATTACHMENTS = Table(
    "attachments",
    1,
    "tracking: who was attached to a broker from when to when, one row a change",
    (
        Column("broker", Type.INT, "where"),
        Column("incarnation", Type.INT, "of its process"),
        Column("kind", Type.TEXT, "subscriber, neighbour, publisher or era"),
        Column(
            "peer", Type.TEXT, "who; of a publisher its number and description, of an era the strategy that recorded"
        ),
        Column("ms", Type.INT, "when, by the broker's clock"),
        Column("attached", Type.FLAG, "came or went"),
    ),
)

MESSAGES = Table(
    "messages",
    1,
    "archived messages as they travelled",
    (
        Column("id", Type.BYTES, "16 bytes"),
        Column("publisher", Type.INT, "of the id"),
        Column("broker", Type.INT, "of the id: where it was published"),
        Column("ms", Type.INT, "of the id: when"),
        Column("source", Type.TEXT, "who archived it"),
        Column("size", Type.INT, "bytes of the message"),
        Column("message", Type.BYTES, "the wire encoding (docs/wire.md)"),
    ),
)

SIMULATIONS = Table(
    "simulations",
    1,
    "what happened in simulated runs, in virtual time",
    (
        Column("run", Type.TEXT, "unique name"),
        Column("scenario", Type.TEXT, "what was simulated"),
        Column("seed", Type.INT, "of all chance in it"),
        Column("at_ms", Type.FLOAT, "virtual time"),
        Column("node", Type.INT, "where; null: the whole network", nullable=True),
        Column("metric", Type.TEXT, "what, with the unit last"),
        Column("value", Type.FLOAT, "the number"),
        Column("labels", Type.TEXT, "more about it, a JSON object"),
    ),
)

TABLES = {table.name: table for table in (SAMPLES, RUNS, HISTORIES, ATTACHMENTS, MESSAGES, SIMULATIONS)}
