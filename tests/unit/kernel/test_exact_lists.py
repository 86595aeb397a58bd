"""Run lists and line filters against the plain definition: a set of ids."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.errors import CodecError
from tidings.kernel.exact_lists import LineFilter, RunIds, filter_bytes
from tidings.model.message_id import MessageId
from tidings.tracking.ids import id_array

ids = st.builds(
    MessageId,
    st.integers(0, 3) | st.integers(0, 2**32 - 1),
    st.integers(1, 2) | st.integers(0, 2**32 - 1),
    st.integers(1000, 1003) | st.integers(0, 2**48 - 1),
    st.integers(0, 3) | st.integers(0, 2**16 - 1),
)


@given(st.lists(ids), st.lists(ids))
def test_a_run_list_is_the_set_of_its_ids(held: list[MessageId], others: list[MessageId]) -> None:
    runs = RunIds.of(id_array(*held))
    read = RunIds.from_bytes(runs.to_bytes())
    asked = [*held, *others]
    assert read.contains(id_array(*asked)).tolist() == [one in held for one in asked]
    found = [MessageId.from_bytes(row.tobytes()) for row in read.ids()]
    assert found == sorted(set(held), key=lambda one: (one.broker, one))
    assert read.count == len(found)
    united = RunIds.united([runs.to_bytes(), RunIds.of(id_array(*others)).to_bytes()])
    assert united.to_bytes() == RunIds.of(id_array(*asked)).to_bytes()


@given(st.lists(ids), st.integers(1, 2**64 - 1))
def test_a_line_filter_forgets_nothing(held: list[MessageId], seed: int) -> None:
    lines = LineFilter.of(id_array(*held), seed)
    read = LineFilter.from_bytes(lines.to_bytes())
    assert read.contains(id_array(*held)).all()
    assert (read.count, read.seed, len(lines.to_bytes())) == (len(held), seed, filter_bytes(len(held)))


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(data: bytes) -> None:
    for read, magic in ((RunIds.from_bytes, b"TRL1"), (RunIds.from_bytes, b"R"), (LineFilter.from_bytes, b"TLF1")):
        with pytest.raises(CodecError):
            read(data)
        with suppress(CodecError):  # or they are another list
            read(magic + data)
