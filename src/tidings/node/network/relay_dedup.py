"""Remembers the persistent messages that were taken from other brokers, across restarts.

A message arrives twice for one of two reasons. A broker that lost a link before an acknowledgement came sends again,
perhaps by another way: such a copy has the same number (`received_numbers`) and is recognised however late it is. Or
its publisher lost a connection before the receipt came and published it again, perhaps at another broker: then the
number is another, and the id the same. The ids of the last messages are kept, in the store as well, in slots that are
written over in turn: each batch rewrites one slot. Of the ids that are written over, the highest of each publisher is
kept (`relay_marks`): a message that was perhaps published before and is not above it is delivered with that mark.

What is published again may overtake what was published first, which does not say so and has a number of its own. So
the highest id that came again is kept for each publisher too, from the time when it came: a copy that is not above it
is perhaps a repetition, though its number is new.

What a batch writes is asked for when it leaves (`notes`): by then it is known which ids of the batch before were
refused, and have to be taken again.

>>> seen = RelayDedup(slots=2, slot_ids=2)
>>> records = []
>>> for n in range(5):
...     seen.add(bytes([n]) * 16)
...     records += seen.notes()
>>> [record.key for record in records]
['seen:0', 'seen:0', 'seen:1', 'seen:1', 'seen:0', 'seen-marks:0', 'seen-marks:1']
>>> bytes([0]) * 16 in seen, bytes([3]) * 16 in seen
(False, True)
>>> seen.prove_new(bytes([0]) * 16), seen.prove_new(bytes([7]) * 16)
(False, True)
>>> again = RelayDedup(slots=2, slot_ids=2)
>>> again.recover({record.key: record.value for record in records})
>>> bytes([3]) * 16 in again, bytes([0]) * 16 in again
(True, False)
"""

from collections.abc import Mapping

from tidings.delivery.store import Note
from tidings.node.network.copy_numbers import CopyNumber
from tidings.node.network.received_numbers import ReceivedNumbers, Recognition
from tidings.node.network.relay_marks import RelayMarks

ID_BYTES = 16
REPEATS_PREFIX = "repeats-marks:"


class RelayDedup:
    def __init__(self, slots: int = 256, slot_ids: int = 256, ranges_max: int = 1024) -> None:
        self.numbers = ReceivedNumbers(ranges_max)
        self._slots: list[dict[bytes, None]] = [{} for _ in range(slots)]
        self._slot_ids = slot_ids
        self._ids: dict[bytes, int] = {}  # id -> slot
        self._current = 0
        self._turns = [0] * slots
        self._changed: set[int] = set()  # slots, since `notes` was last asked
        self._marks = RelayMarks()
        self._marked: set[int] = set()  # notes of marks that the next batch must write
        self._leaving: set[int] = set()  # those that the batch before wrote, if it was not refused
        self._repeats = RelayMarks(prefix=REPEATS_PREFIX)  # of messages that were published again
        self._repeats_marked: set[int] = set()
        self._repeats_leaving: set[int] = set()
        self._turn = 0  # how often a slot was begun: tells after a restart which one is the latest

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self._ids

    def has_taken(self, message_id: bytes, copy: CopyNumber | None) -> bool:
        """True if it is known to be a repetition."""
        return message_id in self._ids or (copy is not None and self.numbers.judge(copy) is Recognition.TAKEN)

    def is_new(self, message_id: bytes, copy: CopyNumber | None, *, repeated: bool) -> bool:
        """True if what was not `has_taken` never was; False: it may have been, long ago. `repeated`: its publisher may
        have sent it before."""
        if copy is not None and not repeated and self.numbers.judge(copy) is Recognition.NEW:
            return self._repeats.prove_new(message_id)
        return self.prove_new(message_id)

    def prove_new(self, message_id: bytes) -> bool:
        """True if an id that is not in here was never taken."""
        return self._marks.prove_new(message_id)

    def add(
        self, message_id: bytes, copy: CopyNumber | None = None, now_ms: int = 0, *, repeated: bool = False
    ) -> None:
        """It is taken; that lasts once what `notes` says is written."""
        if copy is not None:
            self.numbers.add(copy, now_ms)
        if repeated:
            self._repeats_marked |= self._repeats.forget([message_id])
        slot = self._slots[self._current]
        if len(slot) >= self._slot_ids:
            self._turn += 1
            self._current = self._turn % len(self._slots)
            slot = self._slots[self._current]
            for old in slot:
                if self._ids.get(old) == self._current:  # after a refused batch the disk may have one in two slots
                    del self._ids[old]
            self._marked |= self._marks.forget(slot)
            slot.clear()
        slot[message_id] = None
        self._ids[message_id] = self._current
        self._turns[self._current] = self._turn
        self._changed.add(self._current)

    def may_repeat(self, message_id: bytes) -> bool:
        """True if a message that was not sent by number may be one that was published again."""
        return not self._repeats.prove_new(message_id)

    def published_again(self, message_id: bytes) -> list[Note]:
        """It was published again here: what was published first may be on its way. Returns the notes to be written."""
        return self._repeats.notes(self._repeats.forget([message_id]))

    def notes(self) -> list[Note]:
        """The slots that changed, marks and numbers; nothing if this was asked for the same batch before."""
        changed, self._changed = sorted(self._changed), set()
        if not changed:
            return []
        numbers = self.numbers.notes()
        slots = [
            Note(f"seen:{slot}", self._turns[slot].to_bytes(8, "little") + b"".join(self._slots[slot]))
            for slot in changed
        ]
        self._leaving, self._marked = self._marked, set()
        self._repeats_leaving, self._repeats_marked = self._repeats_marked, set()
        marks = [*self._marks.notes(self._leaving), *self._repeats.notes(self._repeats_leaving)]
        return [*slots, *marks, *numbers]

    def discard(self, message_id: bytes, copy: CopyNumber | None = None) -> None:
        """It could not be stored, so it was not taken after all; nor was anything else of its batch written."""
        if copy is not None:
            self.numbers.discard(copy)
        self._marked |= self._leaving
        self._repeats_marked |= self._repeats_leaving
        slot = self._ids.pop(message_id, None)
        if slot is not None:
            del self._slots[slot][message_id]

    def recover(self, notes: Mapping[str, bytes]) -> None:
        for key, value in notes.items():
            name, _, number = key.partition(":")
            if name != "seen" or int(number) >= len(self._slots):
                continue
            ids = [value[at : at + ID_BYTES] for at in range(8, len(value), ID_BYTES)]
            self._slots[int(number)] = dict.fromkeys(ids)
            self._ids.update(dict.fromkeys(ids, int(number)))
            self._turns[int(number)] = int.from_bytes(value[:8], "little")
        self._marks.recover(notes)
        self._repeats.recover(notes)
        self.numbers.recover(notes)
        self._turn = max(self._turns)
        self._current = self._turn % len(self._slots)
