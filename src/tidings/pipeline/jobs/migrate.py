"""Job `migrate`: converts tables of the earlier layout (manifests and folders of files) to Delta tables, once.

A table is converted as a whole: its rows are written again and committed, then the files of the earlier layout are
removed. One that was converted before is left alone, so the command can be repeated after a failure.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidings.errors import StoreError
from tidings.pipeline.jobs.ingest import newest_ms
from tidings.pipeline.jobs.optimize import stored_tables
from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.schemas import DAY, spark_schema
from tidings.pipeline.segment_ranges import SegmentRanges
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import StoredTable
from tidings.segments.names import SegmentName


def old_manifests(stored: StoredTable) -> list[StoragePath]:
    """Manifests of the earlier layout, the newest last."""
    found = (place for place, _, _ in stored.place.list())
    return [place for place in found if place.name.startswith("manifest-") and place.name.endswith(".json")]


def migrate_job(run: JobRun) -> list[JobOutcome]:
    made = []
    for stored in stored_tables(run):
        manifests = old_manifests(stored)
        if manifests:
            run.progress(f"converting {stored.table.name}")
            made.append(_migrate(run, stored, manifests))
    return made or [JobOutcome("migrate", "no table has the earlier layout")]


def _migrate(run: JobRun, stored: StoredTable, manifests: list[StoragePath]) -> JobOutcome:
    name, data = stored.table.name, stored.place.under("data")
    found = _document(manifests[-1])
    rows = 0
    if stored.log.load() is None:
        schema = spark_schema(stored.table)
        if stored.by_day:
            schema = schema.add(DAY, "string", False)
        folders = [data.under(part["folder"]).pattern for part in found["parts"].values()]
        read = run.spark.read.schema(schema).parquet(*folders) if folders else run.spark.createDataFrame([], schema)
        inputs = dict(found["inputs"])
        if isinstance(inputs.get("segments"), list):
            names = [one for text in inputs["segments"] if (one := SegmentName.parse(text)) is not None]
            inputs |= {"segments": SegmentRanges.of(names).as_json(), "newest": newest_ms(names, {})}
        staged = stored.stage(stored.begin(convert=True), read)
        rows = stored.commit(staged, lambda: (inputs, found["skipped"])).rows
    for place in manifests:
        place.remove_file()
    data.remove_folder()
    return JobOutcome(name, "converted", rows)


def _document(place: StoragePath) -> Mapping[str, Any]:
    try:
        found: dict[str, Any] = json.loads(place.read())
        return {key: found[key] for key in ("parts", "inputs", "skipped")}
    except (ValueError, KeyError) as error:
        raise StoreError("E_STORE_DAMAGED", f"{place.uri} is no manifest: {error}") from None
