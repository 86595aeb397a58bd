"""The index of stored messages that still wait: mailboxes and position of the bytes, about fifty bytes a message.

The index is a table of messages sorted by seq, and beside it a table of *pairs*, one for each mailbox a message was
stored for, in the order of the messages and of the mailbox numbers within a message:

    messages   seq | batch | start | size | priority | first | width | waits
                                                         |      '--- number of pairs, number of live pairs
    pairs      box | live   <----------------------------'

Both are numpy columns that grow at the end, so that a million acknowledgements are a few searches in sorted arrays
and not a million dictionary look-ups. Dead messages stay until they are the majority; then both tables are squeezed.

Messages that come one by one are *young* at first: rows of plain Python beside the tables, because most of them are
acknowledged at once and never need a place there.

Besides the tables it keeps for each batch how many of its messages are live and how large it is: batches leave from
the oldest on, once nothing in them is live and they are not among the last ones (`tail`).

>>> from tidings.delivery.batch_codec import Head, pack, scan
>>> from tidings.delivery.store import Stored
>>> blob = pack(Head(1), [Stored(1, b"a", (7, 9)), Stored(2, b"b", (7,))])
>>> index = Index()
>>> index.add(scan(blob), len(blob))
>>> index.leave(7, [1, 2, 3])
>>> index.waiting(9).seqs, index.waiting(7).seqs
(array('Q', [1]), array('Q'))
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidings.delivery.batch_codec import FEW, Ints, Row, Scan, spread
from tidings.delivery.store import Waiting
from tidings.store.log.tail import LogTail, TailLimits

RECORD_BYTES = 27  # what a stored message costs besides its own bytes: two table entries and a front
MAILBOX_BYTES = 4  # and this for each mailbox
SQUEEZE_MIN = 65536  # dead messages that are not worth it
YOUNG_MAX = 1024
LEFT_BATCHES, LEFT_BYTES = 16, 8 << 10  # dead batches below both are not worth a deletion
Mask = NDArray[np.bool_]


class Columns:
    """Arrays that grow together."""

    def __init__(self, **types: Any) -> None:
        self.size = 0
        self._arrays = {name: np.empty(64, kind) for name, kind in types.items()}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._arrays[name][: self.size]

    def extend(self, count: int, /, **new: Any) -> None:
        end = self.size + count
        for name, old in self._arrays.items():
            column = old
            if end > len(old):
                column = np.empty(max(end, len(old) * 3 // 2), old.dtype)
                column[: self.size] = old[: self.size]
                self._arrays[name] = column
            column[self.size : end] = new[name]
        self.size = end

    def take(self, rows: Ints) -> None:
        """Only these, in this order."""
        self._arrays = {name: column[: self.size][rows] for name, column in self._arrays.items()}
        self.size = len(rows)


class Index:
    def __init__(
        self, squeeze_min: int = SQUEEZE_MIN, young_max: int = YOUNG_MAX, tail: TailLimits | None = None
    ) -> None:
        self.tail = LogTail(tail or TailLimits())
        self._last_seq = 0
        self._squeeze_min = squeeze_min
        self._young_max = young_max
        self._young: dict[int, tuple[int, Row, set[int]]] = {}  # seq -> batch, row, mailboxes it waits in
        self._messages = Columns(
            seq=np.int64, batch=np.int64, start=np.int32, size=np.int32, priority=np.uint8, first=np.int64,
            width=np.int32, waits=np.int32,
        )  # fmt: skip
        self._pairs = Columns(box=np.uint32, live=np.bool_)
        self._oldest = self._newest = 0  # batches; all between them are there, unless they were lost
        self._live: dict[int, int] = {}  # batch -> live messages
        self._bytes: dict[int, int] = {}  # batch -> size on disk
        self._dead = 0
        self.live_bytes = 0
        self.disk_bytes = 0

    # --- batches ---

    @property
    def batches(self) -> int:
        return len(self._live)

    @property
    def first(self) -> int:
        """The oldest batch on disk."""
        return self._oldest

    def dead_until(self) -> int:
        """The oldest batch to be kept: one that is needed, as the newest always is, which knows the last seq, or is in
        the tail.

        Or an older one, as long as it is not worth deleting what little is dead.
        """
        oldest, dead_bytes, newest = self._oldest, 0, self.last_before_tail + 1
        while oldest < newest and not self._live.get(oldest):
            dead_bytes += self._bytes.get(oldest, 0)
            oldest += 1
        return self._oldest if oldest - self._oldest < LEFT_BATCHES and dead_bytes < LEFT_BYTES else oldest

    @property
    def last_before_tail(self) -> int:
        """The last batch that may leave, if nothing in it is live."""
        return (self._newest if self.tail.first is None else min(self._newest, self.tail.first)) - 1

    def oldest(self, disk_bytes: int) -> int:
        """The last batch to rewrite, if rewriting begins with the oldest and covers about this number of bytes."""
        last = self.last_before_tail
        for number in range(self._oldest, last):
            disk_bytes -= self._bytes.get(number, 0)
            if disk_bytes <= 0:
                return number
        return last

    def forget(self, oldest: int) -> None:
        """The batches before this one are no longer on disk."""
        for number in range(self._oldest, oldest):
            assert not self._live.pop(number, 0)
            self.disk_bytes -= self._bytes.pop(number, 0)
        self._oldest = max(self._oldest, oldest)

    def _register(self, number: int, live: int, blob_bytes: int, new: int, last_seq: int) -> None:
        """`new`: the number of messages that were in no batch before."""
        self._last_seq = last_seq
        self.tail.add(number, new, blob_bytes, blob_bytes if new or not live else 0)
        self._oldest = self._oldest if self._live else number
        self._newest = number
        self._live[number] = live
        self._bytes[number] = blob_bytes
        self.disk_bytes += blob_bytes

    # --- messages ---

    def add(self, found: Scan, blob_bytes: int) -> None:
        """A batch was appended."""
        self._ripen()
        count = len(found.seqs)
        new = int((found.seqs > self._last_seq).sum())
        self._register(found.head.number, count, blob_bytes, new, max(self._last_seq, found.head.last_seq))
        if not count:
            return
        first = self._pairs.size + np.cumsum(found.widths) - found.widths
        self._messages.extend(
            count, seq=found.seqs, batch=found.head.number, start=found.starts, size=found.sizes,
            priority=found.priorities, first=first, width=found.widths, waits=found.widths,
        )  # fmt: skip
        self._pairs.extend(len(found.mailboxes), box=found.mailboxes, live=True)
        self.live_bytes += int(found.sizes.sum()) + RECORD_BYTES * count + MAILBOX_BYTES * len(found.mailboxes)
        homeless = np.nonzero(found.widths == 0)[0]
        if len(homeless):
            self._bury(self._messages.size - count + homeless)

    def add_few(self, number: int, rows: Sequence[Row], blob_bytes: int, new: int) -> None:
        """The same for a small batch. `new`: its messages, those included that are done with already."""
        self._register(number, len(rows), blob_bytes, new, rows[-1].seq if rows else self._last_seq)
        for row in rows:
            assert row.mailboxes, "nobody wants it"
            self.live_bytes += row.size + RECORD_BYTES + MAILBOX_BYTES * len(row.mailboxes)
            self._young[row.seq] = number, row, set(row.mailboxes)
        if len(self._young) > self._young_max:
            self._ripen()

    def _ripen(self) -> None:
        """Young messages take their place in the tables."""
        if not self._young:
            return
        young, self._young = self._young.values(), {}
        boxes = [sorted(waits) for _, _, waits in young]
        widths = np.array([len(one) for one in boxes], np.int64)
        columns = {name: [getattr(row, name) for _, row, _ in young] for name in ("seq", "start", "size", "priority")}
        first = self._pairs.size + np.cumsum(widths) - widths
        batches = [number for number, _, _ in young]
        self._messages.extend(len(young), batch=batches, first=first, width=widths, waits=widths, **columns)
        self._pairs.extend(int(widths.sum()), box=[box for one in boxes for box in one], live=True)

    def rows(self, seqs: Ints) -> tuple[Ints, Mask]:
        """The rows of these messages, and which of them there are."""
        self._ripen()
        column = self._messages["seq"]
        rows = np.searchsorted(column, seqs)
        if not len(column):
            return rows, np.zeros(len(seqs), np.bool_)
        return rows, column[np.minimum(rows, len(column) - 1)] == seqs

    def leave(self, mailbox: int, seqs: Sequence[int]) -> None:
        """These no longer wait in this mailbox, if they did."""
        if len(seqs) <= FEW:
            for seq in seqs:
                self._leave_one(mailbox, seq)
            return
        rows, there = self.rows(np.unique(np.array(seqs, np.int64)))
        rows = rows[there]
        pairs, held = self._search(rows, mailbox)
        self._release(rows[held], pairs[held])

    def _leave_one(self, mailbox: int, seq: int) -> None:
        """The same without arrays, which cost more than they bring for one."""
        if (young := self._young.get(seq)) is not None:
            self._leave_young(mailbox, seq, *young)
            return
        seqs = self._messages["seq"]
        row = int(seqs.searchsorted(seq))
        if row == len(seqs) or seqs.item(row) != seq:
            return
        pair, width = self._messages["first"].item(row), self._messages["width"].item(row)
        boxes, live = self._pairs["box"], self._pairs["live"]
        if width > 1:
            pair += min(int(boxes[pair : pair + width].searchsorted(mailbox)), width - 1)
        if width and boxes.item(pair) == mailbox and live.item(pair):
            live[pair] = False
            self.live_bytes -= MAILBOX_BYTES
            self._messages["waits"][row] -= 1
            if not self._messages["waits"].item(row):
                self._live[self._messages["batch"].item(row)] -= 1
                self._died(1, self._messages["size"].item(row))

    def _leave_young(self, mailbox: int, seq: int, batch: int, row: Row, waits: set[int]) -> None:
        if mailbox not in waits:
            return
        waits.remove(mailbox)
        self.live_bytes -= MAILBOX_BYTES
        if not waits:
            del self._young[seq]
            self._live[batch] -= 1
            self.live_bytes -= row.size + RECORD_BYTES

    def leave_all(self, mailbox: int, last_seq: int) -> None:
        """Nothing up to this seq waits in this mailbox any longer."""
        self._ripen()
        pairs = np.nonzero((self._pairs["box"] == mailbox) & self._pairs["live"])[0]
        rows = np.searchsorted(self._messages["first"], pairs, "right") - 1
        old = self._messages["seq"][rows] <= last_seq
        self._release(rows[old], pairs[old])

    def waits(self, mailbox: int, seq: int) -> bool:
        rows, there = self.rows(np.array([seq]))
        return bool(there[0]) and bool(self._search(rows, mailbox)[1][0])

    def places(self, seqs: Ints) -> list[tuple[int, int, int]] | int:
        """(batch, start, size) of each message; or, if one does not wait, its position in the list."""
        rows, there = self.rows(seqs)
        if there.all():
            there = self._messages["waits"][rows] > 0
        if not there.all():
            return int(np.argmin(there))
        columns = [self._messages[name][rows].tolist() for name in ("batch", "start", "size")]
        return list(zip(*columns, strict=True))

    def waiting(self, mailbox: int) -> Waiting:
        return self.all_waiting([mailbox])[mailbox]

    def all_waiting(self, mailboxes: Iterable[int]) -> dict[int, Waiting]:
        self._ripen()
        pairs = np.nonzero(self._pairs["live"])[0]
        boxes = self._pairs["box"][pairs]
        order = np.argsort(boxes, kind="stable")
        boxes = boxes[order]
        rows = (np.searchsorted(self._messages["first"], pairs, "right") - 1)[order]
        waiting = {}
        for mailbox in mailboxes:
            low, high = np.searchsorted(boxes, [mailbox, mailbox + 1]).tolist()
            mine = rows[low:high]
            seqs = array("Q", self._messages["seq"][mine].tobytes())
            sizes = array("I", self._messages["size"][mine].astype(np.uint32).tobytes())
            waiting[mailbox] = Waiting(seqs, array("B", self._messages["priority"][mine].tobytes()), sizes)
        return waiting

    # --- moving ---

    def live_until(self, batch: int) -> list[tuple[int, int, int, int, tuple[int, ...]]]:
        """(seq, batch, start, size, mailboxes) of what is live in the batches up to this one, by seq."""
        self._ripen()
        rows = np.nonzero((self._messages["batch"] <= batch) & (self._messages["waits"] > 0))[0]
        pairs = spread(self._messages["first"][rows], self._messages["width"][rows].astype(np.int64))
        live, boxes = self._pairs["live"][pairs], self._pairs["box"][pairs]
        ends = np.cumsum(self._messages["waits"][rows]).tolist()
        left = boxes[live].tolist()
        columns = [self._messages[name][rows].tolist() for name in ("seq", "batch", "start", "size")]
        return [
            (seq, number, start, size, tuple(left[low:high]))
            for seq, number, start, size, low, high in zip(*columns, [0, *ends], ends, strict=False)
        ]

    def move(self, found: Scan, blob_bytes: int) -> None:
        """A batch was appended that holds messages of older batches; they are there from now on."""
        number = found.head.number
        rows, there = self.rows(found.seqs)
        assert there.all()
        for old, count in _counts(self._messages["batch"][rows]):
            self._live[old] -= count
        for name, value in (("batch", number), ("start", found.starts), ("size", found.sizes)):
            self._messages[name][rows] = value
        self._register(number, len(rows), blob_bytes, 0, self._last_seq)

    # --- inside ---

    def _search(self, rows: Ints, mailbox: int | Ints) -> tuple[Ints, Mask]:
        """The pair of each row that belongs to the mailbox, and whether it is there and live: a binary search."""
        box, low = self._pairs["box"], self._messages["first"][rows]
        count = self._messages["width"][rows].astype(np.int64)
        end, last = low + count, len(box) - 1
        while count.any():
            half = count >> 1
            less = (count > 0) & (box[np.minimum(low + half, last)] < mailbox)
            low = np.where(less, low + half + 1, low)
            count = np.where(less, count - half - 1, half)
        if last < 0:
            return low, np.zeros(len(rows), np.bool_)
        at = np.minimum(low, last)
        return low, (low < end) & (box[at] == mailbox) & self._pairs["live"][at]

    def _release(self, rows: Ints, pairs: Ints) -> None:
        self._pairs["live"][pairs] = False
        self.live_bytes -= MAILBOX_BYTES * len(pairs)
        waits = self._messages["waits"]
        np.subtract.at(waits, rows, 1)
        self._bury(np.unique(rows[waits[rows] == 0]))

    def _bury(self, rows: Ints) -> None:
        """Rows that have just lost their last mailbox."""
        if not len(rows):
            return
        for batch, count in _counts(self._messages["batch"][rows]):
            self._live[batch] -= count
        self._died(len(rows), int(self._messages["size"][rows].sum(dtype=np.int64)))

    def _died(self, count: int, size: int) -> None:
        self.live_bytes -= size + RECORD_BYTES * count
        self._dead += count
        if self._dead > self._squeeze_min and self._dead * 2 > self._messages.size:
            self._squeeze()

    def _squeeze(self) -> None:
        alive = self._messages["waits"] > 0
        self._rearrange(np.nonzero(alive)[0])
        self._dead = 0

    def _rearrange(self, rows: Ints) -> None:
        width = self._messages["width"][rows].astype(np.int64)
        self._pairs.take(spread(self._messages["first"][rows], width))
        self._messages.take(rows)
        self._messages["first"][:] = np.cumsum(width) - width

    def settle(self, since: Mapping[int, int], mailboxes: Ints, seqs: Ints, batches: Ints) -> None:
        """After all batches of a journal were added: sort, and let go of what does not wait any longer.

        `since` says for each mailbox the last seq before it was made. Then the acknowledgements, as three columns;
        only those count that are not older than the message's batch: a message that was moved has left behind the
        mailboxes it was acknowledged in before.
        """
        self._rearrange(np.argsort(self._messages["seq"], kind="stable"))
        numbers = np.array([*sorted(since), 2**40], np.int64)  # the last one is no mailbox and keeps `at` in bounds
        starts = np.array([*(since[mailbox] for mailbox in sorted(since)), 0], np.int64)
        rows = np.repeat(np.arange(self._messages.size), self._messages["width"])
        at = np.searchsorted(numbers, self._pairs["box"].astype(np.int64))
        gone = (numbers[at] != self._pairs["box"]) | (self._messages["seq"][rows] <= starts[at])
        self._release(rows[gone], np.nonzero(gone)[0])
        rows, there = self.rows(seqs)
        rows, mailboxes, batches = rows[there], mailboxes[there], batches[there]
        fresh = batches >= self._messages["batch"][rows]
        rows, mailboxes = rows[fresh], mailboxes[fresh]
        pairs, held = self._search(rows, mailboxes)
        pairs, once = np.unique(pairs[held], return_index=True)
        self._release(rows[held][once], pairs)


def _counts(batches: Ints) -> list[tuple[int, int]]:
    numbers, counts = np.unique(batches, return_counts=True)
    return list(zip(numbers.tolist(), counts.tolist(), strict=True))
