"""Replay without Spark: what a task says of its messages is what the matcher says of each."""

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.kernel.codec import MessageBatch
from tidings.matching.indexed import IndexedMatcher
from tidings.matching.matcher import per_message
from tidings.matching.workload import Workload
from tidings.pipeline import replay
from tidings.pipeline.generate import messages_of

MESSAGES, SUBSCRIPTIONS, ROUTERS, BROKEN = 900, 60, 4, 77


@pytest.fixture(scope="module")
def found() -> list[list[int]]:
    """By message, the subscriptions that want it."""
    workload, matcher = Workload(1, conjunctions=1), IndexedMatcher()
    for number, predicate in enumerate(workload.predicates(0, SUBSCRIPTIONS)):
        matcher.add(number, predicate)
    each = per_message(matcher.match(MessageBatch.from_messages(workload.encoded_messages(0, MESSAGES))))
    return [[] if number == BROKEN else sorted(own) for number, own in enumerate(each)]


def task(folder: Path) -> list[dict[str, object]]:
    """Rows of the table `matches`, of a task with two batches and a message that is none."""
    workload = Workload(1, conjunctions=1)
    data, ends = workload.encoded_predicates(0, SUBSCRIPTIONS)
    predicates = [data[a:b] for a, b in pairwise([0, *ends.tolist()])]
    columns = {"number": list(range(SUBSCRIPTIONS)), "router": [1 + i % ROUTERS for i in range(SUBSCRIPTIONS)]}
    pq.write_table(pa.table(columns | {"predicate": pa.array(predicates, pa.binary())}), folder / "s.parquet")
    encoded = messages_of(workload.encoded_messages(0, MESSAGES))
    encoded[BROKEN] = b"broken"
    ids = [number.to_bytes(16, "big") for number in range(MESSAGES)]
    batch = pa.RecordBatch.from_arrays([pa.array(one, pa.binary()) for one in (ids, encoded)], ["id", "message"])
    made = replay._replay(iter([batch.slice(0, 500), batch.slice(500)]), (str(folder),))
    rows: list[dict[str, object]] = pa.Table.from_batches(list(made)).to_pylist()
    return rows


@pytest.mark.parametrize("size", [64, 4096])
def test_a_task_says_what_the_matcher_says(
    tmp_path: Path, found: list[list[int]], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "SLICE", size)
    rows = task(tmp_path)
    at = [sorted({1 + one % ROUTERS for one in own}) for own in found]
    assert [(row["matches"], row["routers"]) for row in rows] == [
        (len(own), len(routers)) for own, routers in zip(found, at, strict=True)
    ]
    sets = {row["destinations"]: row["members"] for row in rows if row["members"] is not None}
    assert [sets[row["destinations"]] for row in rows] == at
    assert sum(row["members"] is not None for row in rows) == len(sets), "each set is told once"
    last = rows[-1]["tally"]
    assert isinstance(last, bytes)
    assert all(row["tally"] is None for row in rows[:-1])
    sums = replay.Sums.from_bytes(last, ROUTERS, SUBSCRIPTIONS)
    assert sums.damaged == 1
    assert sums.matched.tolist() == [sum(s in own for own in found) for s in range(SUBSCRIPTIONS)]
    assert sums.alone.tolist() == [sum(own == [s] for own in found) for s in range(SUBSCRIPTIONS)]
    assert sums.router_messages.tolist() == [sum(r in routers for routers in at) for r in range(1, ROUTERS + 1)]
    assert sums.router_matches.sum() == sums.matched.sum()
