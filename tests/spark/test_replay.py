"""Replay without Spark: what a task says of its messages is what the matcher says of each."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidings.errors import UsageError
from tidings.kernel.codec import MessageBatch, encode_message
from tidings.matching.indexed import IndexedMatcher
from tidings.matching.matcher import per_message
from tidings.matching.workload import Workload
from tidings.model.codec import encode_predicate
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.selector import Selector
from tidings.pipeline.jobs import replay
from tidings.pipeline.jobs.generate import messages_of
from tidings.pipeline.storage_paths import StoragePath

MESSAGES, SUBSCRIPTIONS, ROUTERS = 900, 60, 4
BROKEN, NULL = 77, 501


@pytest.fixture(scope="module")
def found() -> list[list[int]]:
    """By message that is one, the subscriptions that want it."""
    workload, matcher = Workload(1, conjunctions=1), IndexedMatcher()
    for number, predicate in enumerate(workload.predicates(0, SUBSCRIPTIONS)):
        matcher.add(number, predicate)
    each = per_message(matcher.match(MessageBatch.from_messages(workload.encoded_messages(0, MESSAGES))))
    return [sorted(own) for number, own in enumerate(each) if number not in (BROKEN, NULL)]


def task(folder: Path) -> list[dict[str, object]]:
    """Rows of the table `matches`, of a task with three batches and messages that are none."""
    workload = Workload(1, conjunctions=1)
    data, ends = workload.encoded_predicates(0, SUBSCRIPTIONS)
    predicates = [data[a:b] for a, b in pairwise([0, *ends.tolist()])]
    columns = {"number": list(range(SUBSCRIPTIONS)), "router": [1 + i % ROUTERS for i in range(SUBSCRIPTIONS)]}
    pq.write_table(pa.table(columns | {"predicate": pa.array(predicates, pa.binary())}), folder / "s.parquet")
    encoded: list[bytes | None] = [*messages_of(workload.encoded_messages(0, MESSAGES))]
    encoded[BROKEN], encoded[NULL] = b"broken", None
    ids = [number.to_bytes(16, "big") for number in range(MESSAGES)]
    batch = pa.RecordBatch.from_arrays([pa.array(one, pa.binary()) for one in (ids, encoded)], ["id", "message"])
    made = replay._replay(iter([batch.slice(0, 501), batch.slice(501, 1), batch.slice(502)]), (str(folder),))
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
    ids = [number.to_bytes(16, "big") for number in range(MESSAGES) if number not in (BROKEN, NULL)]
    assert [row["id"] for row in rows] == ids
    sets = {row["destinations"]: row["members"] for row in rows if row["members"] is not None}
    assert [sets[row["destinations"]] for row in rows] == at
    assert sum(row["members"] is not None for row in rows) == len(sets), "each set is told once"
    last = rows[-1]["tally"]
    assert isinstance(last, bytes)
    assert all(row["tally"] is None for row in rows[:-1])
    sums = replay.Sums.from_bytes(last, ROUTERS, SUBSCRIPTIONS)
    assert sums.matched.tolist() == [sum(s in own for own in found) for s in range(SUBSCRIPTIONS)]
    assert sums.alone.tolist() == [sum(own == [s] for own in found) for s in range(SUBSCRIPTIONS)]
    assert sums.router_messages.tolist() == [sum(r in routers for routers in at) for r in range(1, ROUTERS + 1)]
    assert sums.router_matches.sum() == sums.matched.sum()


def test_a_set_is_told_by_the_first_message_that_can_be_read(tmp_path: Path) -> None:
    write_subscriptions(tmp_path / "s.parquet", [(1, 1, encode_predicate(Selector("price > 9").predicate))])
    messages = [b"broken", encode_message(Message(Destination("t"), {"price": 1}))]
    columns = [pa.array(one, pa.binary()) for one in ([bytes(16), bytes(15) + b"1"], messages)]
    made = replay._replay(iter([pa.RecordBatch.from_arrays(columns, ["id", "message"])]), (str(tmp_path),))
    (row,) = pa.Table.from_batches(list(made)).to_pylist()
    assert (row["matches"], row["members"]) == (0, [])
    assert row["tally"]


def write_subscriptions(path: Path, rows: Sequence[tuple[int | None, int | None, bytes | None]]) -> None:
    types = pa.schema([("number", pa.int64()), ("router", pa.int32()), ("predicate", pa.large_binary())])
    pq.write_table(pa.table([list(column) for column in zip(*rows, strict=True)], schema=types), path)


GOOD = (1, 0, encode_predicate(Selector("price > 9").predicate))
PROGRAM = encode_predicate(Selector("price + 1 > 9").predicate)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((None, 1, GOOD[2]), "number is null"),
        ((2, None, GOOD[2]), "router is null"),
        ((2, -3, GOOD[2]), "the router is -3"),
        ((2, 1, None), "predicate is null"),
        ((2, 1, b"garbage"), "no predicate: E_CODEC_"),
        ((2, 1, PROGRAM[:-1] + b"\xff"), "no predicate: E_CODEC_PROGRAM"),
    ],
)
def test_subscriptions_that_are_none_are_named(
    tmp_path: Path, row: tuple[int | None, int | None, bytes | None], reason: str
) -> None:
    write_subscriptions(tmp_path / "a.parquet", [GOOD, (2, 7, PROGRAM)])
    replay.check_subscriptions([StoragePath(str(tmp_path))])
    write_subscriptions(tmp_path / "b.parquet", [GOOD, row])
    with pytest.raises(UsageError, match=rf"E_PIPELINE_INPUT.*row 1 \(from 0\) of .*b\.parquet: .*{reason}"):
        replay.check_subscriptions([StoragePath(str(tmp_path))])
