"""Data types of MQTT (section 1.5): integers, variable byte integers, UTF-8 strings, binary data, string pairs.

>>> writer = Writer()
>>> writer.variable(321)
>>> writer.text("a/b")
>>> bytes(writer.data).hex()
'c1020003612f62'
"""

import re
from typing import NoReturn

from tidings.protocols.mqtt.reasons import MqttError, Reason

VARIABLE_MAX = 268_435_455
TEXT_BYTES_MAX = 0xFFFF
# U+0000 must not be in a string [MQTT-1.5.4-2].
_NUL = re.compile("\x00")


class PacketReader:
    """Reads one packet's content; every fault is a malformed packet."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes) -> None:
        self.data, self.position, self.end = data, 0, len(data)

    @property
    def left(self) -> int:
        return self.end - self.position

    def fail(self, text: str) -> NoReturn:
        raise MqttError(Reason.MALFORMED, text, position=self.position)

    def take(self, count: int) -> bytes:
        if count > self.end - self.position:
            self.fail("packet ends inside a field")
        start = self.position
        self.position += count
        return self.data[start : start + count]

    def byte(self) -> int:
        return self.take(1)[0]

    def short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def long(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def variable(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    self.fail("variable byte integer is not in its shortest form")  # [MQTT-1.5.5-1]
                return value
            shift += 7
            if shift > 21:
                self.fail("variable byte integer is longer than four bytes")

    def binary(self) -> bytes:
        return self.take(self.short())

    def text(self) -> str:
        start = self.position
        try:
            text = self.binary().decode()  # strict: no surrogates [MQTT-1.5.4-1], a mark at the front stays [-3]
        except UnicodeDecodeError:
            self.position = start
            self.fail("string is not UTF-8")
        if _NUL.search(text):
            self.position = start
            self.fail("string contains U+0000")
        return text

    def pair(self) -> tuple[str, str]:
        return self.text(), self.text()

    def rest(self) -> bytes:
        return self.take(self.left)

    def finish(self) -> None:
        if self.left:
            self.fail(f"{self.left} bytes after the end of the packet")


class Writer:
    """Collects the content of a packet."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def byte(self, value: int) -> None:
        self.data.append(value)

    def short(self, value: int) -> None:
        self.data += value.to_bytes(2, "big")

    def long(self, value: int) -> None:
        self.data += value.to_bytes(4, "big")

    def variable(self, value: int) -> None:
        self.data += variable(value)

    def binary(self, value: bytes) -> None:
        self.data += len(value).to_bytes(2, "big")
        self.data += value

    def text(self, value: str) -> None:
        self.binary(value.encode())

    def pair(self, value: tuple[str, str]) -> None:
        self.text(value[0])
        self.text(value[1])


def variable(value: int) -> bytes:
    """A variable byte integer."""
    if value < 0x80:
        return bytes((value,))
    if value > VARIABLE_MAX:
        raise MqttError(Reason.PACKET_TOO_LARGE, f"{value} does not fit in a variable byte integer")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
