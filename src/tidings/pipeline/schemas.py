"""All tables of the pipeline, in one place: raw ones come from `tidings.model.tables`, clean and results are here.

Clean tables have a raw table's columns, the day they are partitioned by, and where each row came from. Results are
small, and their columns stay: figures and reports read nothing else.

>>> CLEAN["runs"].columns[-1].name, spark_schema(RESULTS["fits"]).fieldNames()[:3]
('position', ['experiment', 'server', 'model'])
"""

from pyspark.sql import types as t

from tidings.model.tables import ATTACHMENTS, HISTORIES, MESSAGES, RUNS, SAMPLES, SIMULATIONS, Column, Table, Type

_SPARK: dict[Type, t.DataType] = {
    Type.INT: t.LongType(),
    Type.FLOAT: t.DoubleType(),
    Type.FLAG: t.BooleanType(),
    Type.TEXT: t.StringType(),
    Type.BYTES: t.BinaryType(),
    Type.INTS: t.ArrayType(t.LongType(), False),
}
INT, FLOAT, FLAG, TEXT, BYTES = Type.INT, Type.FLOAT, Type.FLAG, Type.TEXT, Type.BYTES
LINEAGE = (Column("segment", TEXT, "the segment it came from"), Column("position", INT, "its row there, from 0"))
DAY = "day"


def spark_schema(table: Table) -> t.StructType:
    return t.StructType([t.StructField(c.name, _SPARK[c.type], c.nullable) for c in table.columns])


def _table(name: str, about: str, *columns: tuple[str, Type, str] | tuple[str, Type, str, bool]) -> Table:
    return Table(name, 1, about, tuple(Column(*column) for column in columns))


# The time whose day a row belongs to. A filter's must be the same in all its copies, which its range is not.
DAY_OF = {
    "samples": "ms",
    "runs": "started_ms",
    "histories": "opened_ms",
    "attachments": "ms",
    "messages": "ms",
    "simulations": "",  # virtual time has no days
}
# Rows that are equal in these are copies of one; the one with the highest `count` holds, of a filter.
KEYS = {
    "samples": ("run", "source", "ms", "metric", "labels"),
    "runs": ("run", "started_ms"),  # two runs with one name are not duplicates: their samples cannot be told apart
    "histories": ("broker", "incarnation", "sequence", "kind", "origin", "peer"),
    "attachments": ("segment", "position"),
    "messages": ("id",),
    "simulations": ("run", "node", "metric", "at_ms", "labels"),
}
CLEAN = {
    table.name: Table(table.name, table.version, table.about, (*table.columns, *LINEAGE))
    for table in (SAMPLES, RUNS, HISTORIES, ATTACHMENTS, MESSAGES, SIMULATIONS)
}
COMPACTED = Table(
    "compacted", HISTORIES.version, "histories with neighbouring filters merged", CLEAN["histories"].columns
)

SUBSCRIPTIONS = _table(
    "subscriptions",
    "what a replay matches messages against",
    ("number", INT, "below 2^32, unique"),
    ("router", INT, "the broker it is attached to, from 0"),
    ("predicate", BYTES, "its wire encoding (docs/wire.md)"),
)

RESULTS = {
    table.name: table
    for table in (
        _table(
            "traces",
            "where messages went: of each id the number of its path",
            ("id", BYTES, "16 bytes"),
            ("path", INT, "in table paths"),
            ("report", TEXT, "where a task met a path first: its report, for table paths", True),
        ),
        _table(
            "paths",
            "paths that messages took, each once",
            ("path", INT, "a hash of the report without the id"),
            ("origin", INT, "the broker the message was published at"),
            ("confirmed", FLAG, "the origin holds the message"),
            ("complete", FLAG, "everybody could be asked and knew"),
            ("brokers", INT, "how many it passed"),
            ("subscribers", INT, "how many got it"),
            ("probability_max", FLOAT, "the least sure of its statements"),
            ("report", TEXT, "all of it, a JSON object"),
        ),
        _table(
            "matches",
            "a replay: how many subscriptions each message matched",
            ("id", BYTES, "16 bytes"),
            ("matches", INT, "subscriptions"),
            ("routers", INT, "brokers with at least one of them"),
            ("destinations", INT, "in table destinations"),
            ("members", Type.INTS, "where a task met a set first: its brokers, for table destinations", True),
            ("tally", BYTES, "in the last row of a task: its sums, for the other tables", True),
        ),
        _table(
            "destinations",
            "sets of brokers that messages go to",
            ("replay", TEXT, "name of the replay"),
            ("destinations", INT, "a hash of the set"),
            ("routers", Type.INTS, "ascending"),
            ("messages", INT, "that went to exactly these"),
        ),
        _table(
            "grades",
            "the distribution of replication grades",
            ("replay", TEXT, "name of the replay"),
            ("grade", INT, "copies of a message"),
            ("messages", INT, "with this grade"),
        ),
        _table(
            "moments",
            "of the replication grade: what the planner needs",
            ("replay", TEXT, "name of the replay"),
            ("messages", INT, "that were matched"),
            ("damaged", INT, "that could not be decoded, and count nowhere else"),
            ("mean", FLOAT, "E[R]"),
            ("second", FLOAT, "E[R²]"),
            ("third", FLOAT, "E[R³]"),
            ("routers_mean", FLOAT, "brokers a message goes to"),
            ("covering_degree", FLOAT, "new roots when a root goes, mean; null: not computed", True),
            ("similarity", FLOAT, "φ, mean over roots that matched; null: not computed", True),
        ),
        _table(
            "router_shares",
            "how often each broker is among the destinations",
            ("replay", TEXT, "name of the replay"),
            ("router", INT, "the broker"),
            ("messages", INT, "that went there"),
            ("matches", INT, "subscriptions matched there"),
        ),
        _table(
            "verdicts",
            "measured runs: which count, and why others do not",
            ("run", TEXT, "unique name"),
            ("experiment", TEXT, "what it is a run of; with --busy at its end: rates of a second of processor time"),
            ("server", TEXT, "what was measured"),
            ("point", TEXT, "its parameters, a JSON object"),
            ("load", TEXT, "what the models make of it, a JSON object; empty: nothing"),
            ("valid", FLAG, "whether it counts"),
            ("reasons", TEXT, "why not; empty: it does"),
            ("received_per_s", FLOAT, "in the trimmed window", True),
            ("dispatched_per_s", FLOAT, "in the trimmed window", True),
            ("seconds", FLOAT, "of that window", True),
        ),
        _table(
            "throughput",
            "means over the runs that count, with confidence intervals",
            ("experiment", TEXT, "what was varied"),
            ("server", TEXT, "what was measured"),
            ("point", TEXT, "its parameters, a JSON object"),
            ("load", TEXT, "what the models make of it, a JSON object; empty: nothing"),
            ("runs", INT, "that count"),
            ("rejected", INT, "that do not"),
            ("received_per_s", FLOAT, "mean"),
            ("received_deviation", FLOAT, "standard deviation over runs; null: one run", True),
            ("received_half_width", FLOAT, "of the 95 % confidence interval; null: one run", True),
            ("dispatched_per_s", FLOAT, "mean"),
            ("dispatched_half_width", FLOAT, "of the 95 % confidence interval; null: one run", True),
        ),
        _table(
            "fits",
            "processing-time models fitted to throughput, by non-negative least squares",
            ("experiment", TEXT, "whose points"),
            ("server", TEXT, "what was measured"),
            ("model", TEXT, "its name"),
            ("points", INT, "it was fitted to"),
            ("parameters", TEXT, "in seconds, a JSON object; empty: the points cannot tell its terms apart"),
            ("error_rms", FLOAT, "relative, of the received throughput", True),
            ("error_max", FLOAT, "relative", True),
            ("held_out_rms", FLOAT, "the same of points the fit has not seen", True),
            ("best", FLAG, "the model chosen for this server"),
        ),
        _table(
            "predictions",
            "measured against predicted by the chosen model",
            ("experiment", TEXT, "whose points"),
            ("server", TEXT, "what was measured"),
            ("model", TEXT, "its name"),
            ("point", TEXT, "parameters, a JSON object"),
            ("received_per_s", FLOAT, "measured"),
            ("predicted_per_s", FLOAT, "by the model"),
        ),
        _table(
            "simulated",
            "simulated experiments: means over runs, with confidence intervals",
            ("scenario", TEXT, "what was simulated"),
            ("metric", TEXT, "what, with the unit last"),
            ("series", TEXT, "which curve: the labels, a JSON object"),
            ("x", FLOAT, "the label x, what was varied; without it the virtual time in seconds"),
            ("runs", INT, "values that were averaged"),
            ("mean", FLOAT, "of the value"),
            ("half_width", FLOAT, "of the 95 % confidence interval; null: one value", True),
        ),
        _table(
            "quality",
            "data-quality checks of the clean tables",
            ("table", TEXT, "what was checked"),
            ("check", TEXT, "what must hold"),
            ("rows", INT, "that were checked"),
            ("wrong", INT, "for which it does not hold"),
            ("passed", FLAG, "whether it holds for all"),
        ),
        _table(
            "sweeps",
            "simulator runs: what came of each",
            ("run", TEXT, "unique name"),
            ("seed", INT, "made of the name"),
            ("published", INT, "messages"),
            ("matched", INT, "deliveries that should be"),
            ("delivered", INT, "deliveries that were"),
            ("transcript", TEXT, "what happened, a line each"),
        ),
    )
}
