"""A set of numbers from 1 on that mostly come in order: ascending ranges without common or adjacent numbers.

Of more than `ranges_max` ranges the lowest are joined. The numbers up to there are then uncertain (`closed`): it is not
known which of them were in a gap.

>>> ranges = NumberRanges(ranges_max=2)
>>> for number in (1, 2, 5, 3, 9, 11):
...     ranges.add(number)
>>> ranges.ranges, ranges.closed
([(1, 9), (11, 11)], 8)
"""

from bisect import bisect_right

from tidings.model.reader import Reader, put_varint


class NumberRanges:
    def __init__(self, ranges_max: int = 1024) -> None:
        self.closed = 0
        self._ranges_max = ranges_max
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._ends, strict=True))

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number <= self._ends[at]

    def add(self, number: int) -> None:
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, number) - 1
        if at >= 0 and number <= ends[at]:
            return
        after = at + 1 < len(starts) and starts[at + 1] == number + 1
        if at >= 0 and ends[at] == number - 1:
            ends[at] = ends.pop(at + 1) if after else number
            if after:
                del starts[at + 1]
        elif after:
            starts[at + 1] = number
        else:
            starts.insert(at + 1, number)
            ends.insert(at + 1, number)
            self._close()

    def discard(self, number: int) -> None:
        """It was not taken after all."""
        if number not in self or number <= self.closed:
            return
        starts, ends = self._starts, self._ends
        at = bisect_right(starts, number) - 1
        start, end = starts[at], ends[at]
        left = [(start, number - 1)] if start < number else []
        right = [(number + 1, end)] if number < end else []
        starts[at : at + 1] = [first for first, _ in left + right]
        ends[at : at + 1] = [last for _, last in left + right]
        self._close()

    def _close(self) -> None:
        while len(self._starts) > self._ranges_max:
            self.closed = self._starts.pop(1) - 1
            self._starts[0] = 1
            del self._ends[0]

    def encode(self, out: bytearray) -> None:
        """The closed number, the count of ranges, and for each its distance from the one before and its length."""
        put_varint(out, self.closed)
        put_varint(out, len(self._starts))
        before = 0
        for start, end in zip(self._starts, self._ends, strict=True):
            put_varint(out, start - before)
            put_varint(out, end - start)
            before = end

    def decode(self, reader: Reader) -> None:
        self.closed = reader.varint(2**64 - 1)
        before = 0
        for _ in range(reader.count()):
            start = before + reader.varint(2**64 - 1)
            before = start + reader.varint(2**64 - 1)
            self._starts.append(start)
            self._ends.append(before)
