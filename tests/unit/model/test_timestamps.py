"""Moments as text are those that Python's own datetime reads."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model.selector.parser import parse
from tidings.model.selector.printer import to_text
from tidings.model.selector.times import with_times
from tidings.model.timestamps import parse_timestamp

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
zones = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones)  # noqa: DTZ001


@given(moments, st.sampled_from(("milliseconds", "seconds", "minutes")), st.sampled_from("T "))
def test_a_moment_is_read_as_python_reads_it(moment: datetime, precision: str, separator: str) -> None:
    text = moment.isoformat(separator, precision)
    assert parse_timestamp(text) == (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)


@given(st.dates())
def test_a_date_is_its_midnight(date: datetime) -> None:
    midnight = datetime(date.year, date.month, date.day, tzinfo=UTC)
    assert parse_timestamp(date.isoformat()) == (midnight - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025",
        "2025-13-01",
        "2025-02-29",
        "2100-02-29",
        "2025-01-00",
        "2025-01-01T24:00Z",
        "2025-01-01T00:60Z",
        "2025-01-01T00:00",
        "2025-01-01Z",
        "2025-01-01T00:00:60Z",
        "2025-01-01T00:00+24:00",
        "2025-01-01T00:00:00.1234Z",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    assert parse_timestamp(text) is None


def test_only_text_beside_a_time_becomes_a_number() -> None:
    text = (
        "NOT at BETWEEN '1970-01-01' AND until OR '1970-01-02' < at AND (x = '1970-01-01' OR at IS NULL OR at > 5 + y)"
    )
    expected = "NOT at BETWEEN 0 AND until OR 86400000 < at AND (x = '1970-01-01' OR at IS NULL OR at > 5 + y)"
    assert with_times(parse(text), {"at", "until"}) == parse(expected)
    assert to_text(with_times(parse(text), ())) == to_text(parse(text))
