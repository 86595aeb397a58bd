"""The index against two dictionaries: batches of any size, one by one and many at a time, squeezed and moved."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidings.delivery.batch_codec import Head, outline, pack, scan
from tidings.delivery.store import Stored
from tidings.store.log.index import Index

MAILBOXES = st.sets(st.integers(1, 6), max_size=4).map(lambda boxes: tuple(sorted(boxes)))
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(MAILBOXES, max_size=50)),
    st.tuples(st.just("add few"), st.lists(MAILBOXES.filter(bool), max_size=3)),
    st.tuples(st.just("leave"), st.integers(1, 6), st.lists(st.integers(1, 120), max_size=60)),
    st.tuples(st.just("leave all"), st.integers(1, 6), st.integers(0, 100)),
    st.tuples(st.just("move"), st.integers(1, 3000)),
)


def message(seq: int) -> bytes:
    return b"%d" % seq * (seq % 7)


@given(st.lists(STEPS, max_size=12))
def test_the_index_keeps_account(steps: list[tuple[Any, ...]]) -> None:
    index, blobs, waiting, last_seq = Index(squeeze_min=10, young_max=4), {0: b""}, dict[int, set[int]](), 0

    def append(records: list[Stored]) -> bytes:
        number = max(blobs) + 1
        blobs[number] = pack(Head(number), records)
        return blobs[number]

    for step in steps:
        match step:
            case ("add" | "add few" as way, list(batch)):
                records = [Stored(last_seq + at, message(last_seq + at), boxes) for at, boxes in enumerate(batch, 1)]
                blob = append(records)
                if way == "add":
                    index.add(scan(blob), len(blob))
                else:
                    index.add_few(max(blobs), outline(len(blob), records)[0], len(blob), len(records))
                waiting |= {record.seq: set(record.mailboxes) for record in records}
                last_seq += len(batch)
            case ("leave", int(mailbox), list(seqs)):
                index.leave(mailbox, seqs)
                for seq in seqs:
                    waiting.get(seq, set()).discard(mailbox)
            case ("leave all", int(mailbox), int(last)):
                index.leave_all(mailbox, last)
                for seq in waiting:
                    waiting[seq] -= {mailbox} if seq <= last else set()
            case ("move", int(size)) if index.batches:
                until = index.oldest(size)
                found = index.live_until(until)
                moved = [
                    Stored(seq, blobs[number][start : start + length], boxes)
                    for seq, number, start, length, boxes in found
                ]
                assert [(one.message_bytes, set(one.mailboxes)) for one in moved] == [
                    (message(one.seq), waiting[one.seq]) for one in moved
                ]
                blob = append(moved)
                index.move(scan(blob), len(blob))
                index.forget(until + 1)
                blobs = {number: old for number, old in blobs.items() if number > until}
        index.forget(index.dead_until())
    for mailbox in range(1, 7):
        assert set(index.waiting(mailbox).seqs) == {seq for seq, boxes in waiting.items() if mailbox in boxes}
        assert all(index.waits(mailbox, seq) == (mailbox in boxes) for seq, boxes in waiting.items())
    live = [seq for seq, boxes in waiting.items() if boxes]
    expected = sum(len(message(seq)) + 27 + 4 * len(waiting[seq]) for seq in live)
    assert index.live_bytes == expected <= index.disk_bytes
