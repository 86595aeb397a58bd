import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import UsageError
from tidings.sim.calendar import Calendar


@given(st.lists(st.floats(0, 100)))
def test_events_happen_in_time_and_ties_in_the_order_of_entry(times: list[float]) -> None:
    calendar = Calendar()
    seen: list[tuple[float, int]] = []
    for number, time in enumerate(times):
        calendar.at(time, lambda number=number: seen.append((calendar.now, number)))
    assert calendar.run() == len(times)
    assert seen == sorted(zip(times, range(len(times)), strict=True))


def test_events_enter_events_and_the_clock_stops_where_told() -> None:
    calendar = Calendar()
    seen: list[float] = []

    def again() -> None:
        seen.append(calendar.now)
        calendar.after(10, again)

    calendar.at(5, again)
    assert calendar.run(until=25) == 3
    assert (calendar.now, seen, len(calendar)) == (25, [5, 15, 25], 1)
    assert calendar.run(until=30) == 0
    assert calendar.now == 30
    assert calendar.run(events_max=2) == 2
    assert calendar.now == 45


@pytest.mark.parametrize("when", [4.9, float("nan")])
def test_nothing_happens_in_the_past(when: float) -> None:
    calendar = Calendar()
    calendar.run(until=5)
    with pytest.raises(UsageError, match="E_CALENDAR_PAST"):
        calendar.at(when, print)
    with pytest.raises(UsageError, match="E_CALENDAR_PAST"):
        calendar.after(when - 5, print)
