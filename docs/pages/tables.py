"""The catalog of the pipeline's tables, from their schemas."""

from tidings.model.tables import MESSAGES, Table
from tidings.pipeline.delta_log import delta_schema
from tidings.pipeline.schemas import CLEAN, COMPACTED, DAY, DAY_OF, KEYS, RESULTS, SUBSCRIPTIONS

INTRO = (
    "The tables of a warehouse that `tidings pipeline` writes ([data pipeline](../pipeline.md)). All are Delta tables; types are "
    "Delta's, and the log of each table has these descriptions as comments of its columns."
)


def page() -> str:
    parts = [
        "# Tables of the pipeline",
        INTRO,
        "## clean",
        "Partitioned by day, in UTC. Of rows with one key there is one.",
    ]
    parts += [section(table, KEYS[name], DAY_OF[name], by_day=True) for name, table in CLEAN.items()]
    parts.append(section(COMPACTED, KEYS["histories"], DAY_OF["histories"], by_day=True))
    parts += ["## results", *(section(table) for table in RESULTS.values())]
    parts += ["## generated", *(section(table) for table in (MESSAGES, SUBSCRIPTIONS))]
    return "\n\n".join(parts) + "\n"


def section(table: Table, key: tuple[str, ...] = (), time: str = "", *, by_day: bool = False) -> str:
    lines = [f"### {table.name}", "", f"{table.about[:1].upper()}{table.about[1:]} (version {table.version})."]
    if key:
        lines[-1] += f" Key: {', '.join(key)}." + (f" Day of: {time}." if time else "")
    lines += ["", "| column | type | |", "|---|---|---|"]
    about = {column.name: column.about for column in table.columns} | {DAY: "the partition"}
    for field in delta_schema(table, [DAY] if by_day else []).fields:
        kind = "array of long" if field.type.type == "array" else str(getattr(field.type, "type", field.type))
        lines.append(f"| {field.name} | {kind}{', nullable' if field.nullable else ''} | {about[field.name]} |")
    return "\n".join(lines)
