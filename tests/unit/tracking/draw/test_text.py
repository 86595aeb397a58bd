"""Pictures of a path."""

import json
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.message_id import MessageId
from tidings.tracking.draw.text import to_dot, to_text
from tidings.tracking.moments import utc
from tidings.tracking.query.path import Hop, Path
from tidings.tracking.query.path_json import to_dict
from tidings.tracking.trace_answer import Statement

PATH = Path(
    MessageId(7, 1, 1_762_000_000_123),
    False,
    (
        Hop(1, None, 8e-6, (Statement("a", 1e-6), Statement('b"\n', 2e-6))),
        Hop(2, 1, 0.0, opaque=True),
        Hop(3, 1, 8e-6, (Statement("c", 1e-6),), other_senders=(2,)),
        Hop(4, 2, 8e-6, suspect=True),
        Hop(9, None, 8e-6),
    ),
    (Hop(5, None, 8e-6),),
    {2: "no route"},
    (6,),
    asked=7,
    filters=12,
)


def test_text() -> None:
    assert to_text(PATH).splitlines() == [
        f"message {PATH.message} of publisher 7 at broker 1, 2025-11-01 12:26:40.123 UTC",
        "broker 1 does not confirm that it was published there",
        "broker 1 (origin, 8e-06)",
        "├── ▸ a (1e-06)",
        '├── ▸ b"� (2e-06)',
        "├── broker 2 (could not say)",
        "│   └── broker 4 (8e-06, suspect: neither delivered nor passed on)",
        "└── broker 3 (8e-06, or from 2)",
        "    └── ▸ c (1e-06)",
        "broker 9 (8e-06, no way there is known)",
        "false positive: broker 5 (no neighbour has it)",
        "not asked: broker 2 (no route)",
        "unknown: broker 6 (records of that time are lost, at least in part)",
    ]


def test_dot_names_everybody_once() -> None:
    text = to_dot(PATH)
    assert text.count(" -> ") == 6
    assert '"b\\"\\n"' in text
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg"], input=text.encode(), check=True, capture_output=True)


def test_json() -> None:
    row = json.loads(json.dumps(to_dict(PATH)))
    assert (row["origin"], row["publisher"], row["complete"], row["unknown"]) == (1, 7, False, [6])
    assert [hop["broker"] for hop in row["hops"]] == [1, 2, 3, 4, 9]
    assert row["unasked"] == [{"broker": 2, "reason": "no route"}]


def test_a_line_of_brokers_is_no_problem() -> None:
    hops = tuple(Hop(broker, broker - 1 if broker > 1 else None, 0.0) for broker in range(1, 3000))
    path = Path(MessageId(7, 1, 0), True, hops, (), {}, (), 0, 0)
    assert len(to_text(path).splitlines()) == 3000


@given(st.integers(0, 2**47))
def test_dates(ms: int) -> None:
    seconds, millis = divmod(min(ms, 253_402_300_799_999), 1000)
    expected = datetime.fromtimestamp(seconds, UTC)
    assert utc(seconds * 1000 + millis) == f"{expected:%Y-%m-%d %H:%M:%S}.{millis:03} UTC"


@pytest.mark.parametrize("year", range(1970, 2500, 7))
def test_new_year(year: int) -> None:
    ms = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 1000
    assert utc(ms) == f"{year}-01-01 00:00:00.000 UTC"
    assert utc(ms - 1).startswith(f"{year - 1}-12-31 23:59:59.999")
