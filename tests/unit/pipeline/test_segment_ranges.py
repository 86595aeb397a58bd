"""Ranges of segments know the segments they were made of, and no other, in whatever order they came."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tidings.pipeline.segment_ranges import SegmentRanges
from tidings.segments.names import SegmentName

LIVES = st.lists(  # of one writer: how many segments before its folder was removed, and the steps of its clock
    st.tuples(st.integers(1, 12), st.lists(st.integers(0, 3), min_size=12, max_size=12)), min_size=1, max_size=3
)


def names_of(writer: str, lives: list[tuple[int, list[int]]]) -> list[SegmentName]:
    names, ms = [], 1_000
    for count, steps in lives:
        ms += 1  # a writer that starts again does so later
        for number in range(count):
            ms += steps[number]
            names.append(SegmentName(ms, writer, number, 7))
    return names


@given(LIVES, LIVES, st.data())
def test_ranges_are_the_set_of_what_was_added(
    one: list[tuple[int, list[int]]], other: list[tuple[int, list[int]]], data: st.DataObject
) -> None:
    names = names_of("b1", one) + names_of("b2", other)
    added = data.draw(st.lists(st.sampled_from(names), unique=True))
    ranges = SegmentRanges.from_json(json.loads(json.dumps(SegmentRanges.of(added).as_json())))
    assert {name for name in names if name in ranges} == set(added)


def test_ranges_take_four_characters_for_each_of_many_segments() -> None:
    names = [SegmentName(1_000 + number // 2, "b1", number, number) for number in range(1_000)]
    ((first, text),) = SegmentRanges.of(reversed(names)).as_json()["b1"]
    assert (first, len(text)) == (0, 4_000)
