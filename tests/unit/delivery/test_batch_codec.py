"""Packed batches: what goes in comes out; any damage is noticed and costs the record it hits."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.batch_codec import Head, decode, outline, pack, scan, unpack
from tidings.delivery.store import (
    Acked,
    Attached,
    Counted,
    Detached,
    MailboxAdded,
    MailboxRemoved,
    Note,
    Record,
    Stored,
    priority_of,
)
from tidings.errors import CodecError, UsageError

U32 = st.integers(0, 2**32 - 1)
SEQS = st.integers(1, 2**63 - 1)
STORED = st.builds(Stored, SEQS, st.binary(max_size=30), st.lists(U32, max_size=4).map(tuple))
RECORDS: st.SearchStrategy[list[Record]] = st.lists(
    st.one_of(
        STORED,
        st.builds(Acked, U32, st.lists(SEQS, max_size=5).map(tuple)),
        st.builds(
            MailboxAdded, U32, st.text(max_size=5), st.text(max_size=5), st.binary(max_size=5), st.binary(max_size=5)
        ),
        st.builds(MailboxRemoved, U32),
        st.builds(Attached, U32),
        st.builds(Detached, U32),
        st.builds(Counted, U32, SEQS, U32),
        st.builds(Note, st.text(max_size=5), st.binary(max_size=5)),
    ),
    max_size=8,
)
HEADS = st.builds(Head, SEQS, SEQS, SEQS)


@given(HEADS, RECORDS)
def test_what_goes_in_comes_out(head: Head, records: list[Record]) -> None:
    found = unpack(pack(head, records))
    assert (found.head, found.records, found.damaged) == (head, records, [])


@given(HEADS, RECORDS, st.booleans())
def test_columns_say_the_same(head: Head, records: list[Record], trusted: bool) -> None:
    blob = pack(head, records)
    found = scan(blob, trusted=trusted)
    messages = [record for record in records if isinstance(record, Stored)]
    assert found.head.number == head.number
    assert found.seqs.tolist() == [record.seq for record in messages]
    places = zip(found.starts.tolist(), found.sizes.tolist(), strict=True)
    assert [blob[start : start + size] for start, size in places] == [record.message_bytes for record in messages]
    assert found.widths.tolist() == [len(record.mailboxes) for record in messages]
    assert found.mailboxes.tolist() == [mailbox for record in messages for mailbox in record.mailboxes]
    assert found.priorities.tolist() == [priority_of(record.message_bytes) for record in messages]
    assert (found.others, found.damaged) == ([one for one in records if not isinstance(one, Stored)], [])


@given(HEADS, RECORDS)
def test_rows_say_the_same(head: Head, records: list[Record]) -> None:
    blob = pack(head, records)
    rows, others = outline(len(blob), records)
    messages = [record for record in records if isinstance(record, Stored)]
    assert [(row.seq, blob[row.start : row.start + row.size], row.mailboxes) for row in rows] == [
        (record.seq, record.message_bytes, record.mailboxes) for record in messages
    ]
    assert [row.priority for row in rows] == [priority_of(record.message_bytes) for record in messages]
    assert others == [one for one in records if not isinstance(one, Stored)]


@given(RECORDS, st.data())
def test_a_flipped_bit_is_noticed_and_costs_one_record_at_most(records: list[Record], data: st.DataObject) -> None:
    blob = bytearray(pack(Head(3, 2, 1), records))
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    blob[bit // 8] ^= 1 << bit % 8
    found = unpack(bytes(blob))
    assert len(found.damaged) == 1
    hit = found.damaged[0].record
    assert found.records == (records if hit is None else records[:hit] + records[hit + 1 :])
    assert found.head == Head(3, 2, 1)
    assert scan(bytes(blob)).damaged == found.damaged


@given(RECORDS, st.data())
def test_a_shortened_batch_is_refused(records: list[Record], data: st.DataObject) -> None:
    blob = pack(Head(1), records)
    with pytest.raises(CodecError, match="E_BATCH_DAMAGED"):
        unpack(blob[: data.draw(st.integers(0, len(blob) - 1))])


@given(st.binary(max_size=100))
def test_arbitrary_bytes_are_refused(blob: bytes) -> None:
    for read in (unpack, scan):
        with pytest.raises(CodecError, match="E_BATCH_DAMAGED"):
            read(blob)


@given(
    st.one_of(
        st.binary(max_size=30), st.tuples(st.integers(0, 9), st.binary(max_size=30)).map(lambda x: bytes([x[0]]) + x[1])
    )
)
def test_a_record_is_read_back_or_refused(body: bytes) -> None:
    """Whatever is read packs to the same bytes: no two forms of one record."""
    with suppress(CodecError):
        record = decode(body)
        assert body in pack(Head(0), [record])


def test_a_message_cannot_pose_as_a_record() -> None:
    inner = pack(Head(1), [Stored(99, b"forged", (1,))])
    blob = bytearray(pack(Head(1), [Stored(1, inner, (7,)), Stored(2, b"next", (7,))]))
    blob[60] ^= 1
    assert unpack(bytes(blob)).records[-1] == Stored(2, b"next", (7,))
    assert all(record != Stored(99, b"forged", (1,)) for record in unpack(bytes(blob)).records)


@pytest.mark.parametrize(
    "record",
    [Stored(-1, b"", (1,)), Stored(1, b"", (2**32,)), Acked(1, (2**64,)), Note("x" * 70000, b""), Note("\ud800", b"")],
)
def test_what_does_not_fit_is_refused(record: Record) -> None:
    with pytest.raises(UsageError, match="E_STORE_RECORD"):
        pack(Head(1), [Attached(1), record])
