"""Marks of forgotten message ids: the highest one of each source, so that what is above its mark is known to be new.

A source is a publisher at a broker: the first 8 bytes of an id; the other 8, time and counter, say how high it is. An
id that was taken before is either remembered (`seen`) or not above its source's mark. So one that is not remembered and
above the mark is new, whatever clocks show; any other may be a repetition. A source that keeps its order never falls
below its mark.

There are at most `sources_max` marks. Beyond that the lowest are given up, which are those of the sources that were
silent for longest, and the *floor* takes their place: it counts for every source without a mark.

>>> marks = RelayMarks()
>>> old, new = b"source A" + bytes(7) + b"1", b"source A" + bytes(7) + b"2"
>>> _ = marks.forget([old])
>>> marks.prove_new(old), marks.prove_new(new), marks.prove_new(b"source B" + bytes(8))
(False, True, True)
"""

from collections.abc import Iterable, Mapping

from tidings.delivery.store import Note

SOURCE_BYTES, HEIGHT_BYTES = 8, 8
BUCKETS = 64  # each has a note
FLOOR = -1  # its note, beside those of the buckets
PREFIX = "seen-marks:"


class RelayMarks:
    def __init__(self, sources_max: int = 4096, *, prefix: str = PREFIX) -> None:
        self._sources_max, self._prefix = sources_max, prefix
        self._floor = b""  # below all
        self._marks: dict[bytes, bytes] = {}
        self._buckets: list[dict[bytes, None]] = [{} for _ in range(BUCKETS)]  # sources

    def prove_new(self, message_id: bytes) -> bool:
        """True if an id that is not remembered was never forgotten either."""
        return message_id[SOURCE_BYTES:] > self._marks.get(message_id[:SOURCE_BYTES], self._floor)

    def forget(self, ids: Iterable[bytes]) -> set[int]:
        """These are no longer remembered. Returns the numbers of the notes that must be written with that."""
        changed = set()
        for one in ids:
            if self.prove_new(one):
                changed.add(self._set(one[:SOURCE_BYTES], one[SOURCE_BYTES:]))
        if len(self._marks) > self._sources_max:
            changed |= self._give_up(len(self._marks) - self._sources_max * 3 // 4)
        return changed

    def _give_up(self, count: int) -> set[int]:
        lowest = sorted(self._marks, key=self._marks.__getitem__)[:count]
        for source in lowest:
            self._floor = max(self._floor, self._marks.pop(source))
            del self._buckets[_bucket(source)][source]
        return {FLOOR, *map(_bucket, lowest)}

    def _set(self, source: bytes, mark: bytes) -> int:
        self._marks[source] = mark
        number = _bucket(source)
        self._buckets[number][source] = None
        return number

    def notes(self, numbers: Iterable[int]) -> list[Note]:
        return [Note(f"{self._prefix}{number}", self._value(number)) for number in sorted(numbers)]

    def _value(self, number: int) -> bytes:
        if number == FLOOR:
            return self._floor
        return b"".join([source + self._marks[source] for source in self._buckets[number]])

    def recover(self, notes: Mapping[str, bytes]) -> None:
        pair = SOURCE_BYTES + HEIGHT_BYTES
        for key, value in notes.items():
            if key == f"{self._prefix}{FLOOR}":
                self._floor = value
            elif key.startswith(self._prefix):
                for at in range(0, len(value), pair):
                    self._set(value[at : at + SOURCE_BYTES], value[at + SOURCE_BYTES : at + pair])


def _bucket(source: bytes) -> int:
    return int.from_bytes(source) % BUCKETS
