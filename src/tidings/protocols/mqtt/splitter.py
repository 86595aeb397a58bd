"""Splits a stream of bytes into packets, each refused from its length alone if it is longer than allowed."""

from collections.abc import Callable, Iterator

from tidings.protocols.mqtt.reasons import MqttError, Reason


class PacketSplitter:
    """Yields the first byte and the content of each packet; `bytes_max` bounds a whole packet."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._input: bytes | bytearray = b""  # a bytearray while a packet is incomplete
        self._at = 0

    def feed(self, data: bytes) -> None:
        if not self.waiting_bytes:
            self._input, self._at = data, 0
            return
        if not isinstance(self._input, bytearray):
            self._input, self._at = bytearray(memoryview(self._input)[self._at :]), 0
        self._input += data

    @property
    def waiting_bytes(self) -> int:
        return len(self._input) - self._at

    def packets(self) -> Iterator[tuple[int, bytes]]:
        """All complete packets so far."""
        while (found := self.next()) is not None:
            yield found

    def next(self) -> tuple[int, bytes] | None:
        """Take the first packet, if it is complete."""
        found = self._length(self._at)
        if found is None or len(self._input) < sum(found):
            return None
        begin, length = found
        first, content = self._input[self._at], bytes(memoryview(self._input)[begin : begin + length])
        self._at = begin + length
        return first, content

    def take(self, take: Callable[[bytes, int], int]) -> None:
        """Let others take whole packets: `take` is given bytes and a place, and returns how many bytes it has taken."""
        found = self._length(self._at)
        if found is None or len(self._input) < sum(found):
            return
        if isinstance(self._input, bytearray):
            self._input, self._at = bytes(memoryview(self._input)[self._at :]), 0
        self._at += take(self._input, self._at)

    def _length(self, start: int) -> tuple[int, int] | None:
        """Begin and length of the content of the packet at this place; None if its length is incomplete."""
        length = shift = 0
        for position in range(start + 1, start + 5):
            if position >= len(self._input):
                return None
            byte = self._input[position]
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise MqttError(Reason.MALFORMED, "remaining length is not in its shortest form")
                if position + 1 - start + length > self.bytes_max:
                    raise MqttError(Reason.PACKET_TOO_LARGE, f"packet exceeds {self.bytes_max} bytes")
                return position + 1, length
            shift += 7
        raise MqttError(Reason.MALFORMED, "remaining length is longer than four bytes")
