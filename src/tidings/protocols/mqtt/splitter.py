"""Splits a stream of bytes into packets, each refused from its length alone if it is longer than allowed."""

from collections.abc import Iterator

from tidings.protocols.mqtt.reasons import MqttError, Reason


class PacketSplitter:
    """Yields the first byte and the content of each packet; `bytes_max` bounds a whole packet."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._input = bytearray()

    def feed(self, data: bytes) -> None:
        self._input += data

    @property
    def waiting_bytes(self) -> int:
        return len(self._input)

    def packets(self) -> Iterator[tuple[int, bytes]]:
        """All complete packets so far."""
        input, start = self._input, 0
        try:
            while (found := self._length(start)) is not None:
                begin, length = found
                if len(input) < begin + length:
                    return
                first, content = input[start], bytes(memoryview(input)[begin : begin + length])
                start = begin + length
                yield first, content
        finally:
            del input[:start]

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
