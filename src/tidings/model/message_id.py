"""Message ids: publisher, broker and time in 16 bytes that sort in this order.

    publisher u32 | broker u32 | milliseconds since 1970 u48 | counter u16        all big-endian

The publisher's client makes them. Its clock may be wrong by a little, so the broker tells it a correction δ at connect
time, and again whenever the two drift apart; ids of one source are strictly increasing whatever the clock does.

>>> source = MessageIdSource(publisher=7, broker=1)
>>> first, second = source.next(now_ms=1000), source.next(now_ms=1000)
>>> str(second)
'00000007000000010000000003e80001'
>>> first < second, MessageId.parse(second.jms) == second
(True, True)
"""

import re
import struct
from dataclasses import dataclass
from typing import ClassVar

from tidings.errors import UsageError

SIZE = 16
JMS_PREFIX = "ID:"
_LAYOUT = struct.Struct(">IIHIH")
_NOT_HEX = re.compile(r"[^0-9a-fA-F]")
COUNTER_MAX = 2**16 - 1
_LIMITS = {"publisher": 2**32, "broker": 2**32, "ms": 2**48, "counter": COUNTER_MAX + 1}


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    publisher: int
    broker: int
    ms: int
    counter: int = 0

    NONE: ClassVar["MessageId"]  # of a message that was not given one yet

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            if not 0 <= getattr(self, name) < limit:
                raise UsageError("E_MESSAGE_ID_RANGE", f"{name} of a message id is not in 0 to {limit - 1}")

    def __bytes__(self) -> bytes:
        return _LAYOUT.pack(self.publisher, self.broker, self.ms >> 32, self.ms & 0xFFFFFFFF, self.counter)

    @classmethod
    def from_bytes(cls, data: bytes) -> "MessageId":
        if len(data) != SIZE:
            raise UsageError("E_MESSAGE_ID_LENGTH", f"a message id must have {SIZE} bytes, not {len(data)}")
        publisher, broker, high, low, counter = _LAYOUT.unpack(data)
        return cls(publisher, broker, high << 32 | low, counter)

    def __str__(self) -> str:
        return bytes(self).hex()

    @property
    def jms(self) -> str:
        """As JMSMessageID shows it."""
        return JMS_PREFIX + str(self)

    @classmethod
    def parse(cls, text: str) -> "MessageId":
        """Read 32 hexadecimal digits, with or without `ID:` before them."""
        start = len(JMS_PREFIX) if text.startswith(JMS_PREFIX) else 0
        if wrong := _NOT_HEX.search(text, start):
            reason = f"{wrong[0]!r} is not a hexadecimal digit"
            raise UsageError("E_MESSAGE_ID_TEXT", reason, position=wrong.start())
        if len(text) - start != 2 * SIZE:
            reason = f"a message id has {2 * SIZE} hexadecimal digits, not {len(text) - start}"
            raise UsageError("E_MESSAGE_ID_TEXT", reason, position=min(len(text), start + 2 * SIZE))
        return cls.from_bytes(bytes.fromhex(text[start:]))


MessageId.NONE = MessageId(0, 0, 0, 0)


class MessageIdSource:
    """Strictly increasing ids of one publisher at one broker. Reads no clock: each call takes the time as an argument.

    When the clock steps back, ids stay at the latest millisecond used and the counter runs on. The next δ from the
    broker, which makes up for the step, ends that.
    """

    def __init__(self, publisher: int, broker: int, delta_ms: int = 0) -> None:
        self._last = MessageId(publisher, broker, 0, 0)
        self._used = False
        self.delta_ms = delta_ms

    @property
    def publisher(self) -> int:
        return self._last.publisher

    @property
    def broker(self) -> int:
        return self._last.broker

    def adjust(self, delta_ms: int) -> None:
        """Take over the correction the broker sent: δ = its clock − ours."""
        self.delta_ms = delta_ms

    def next(self, now_ms: int) -> MessageId | None:
        """The next id; None if this millisecond's 65 536 are used up: call again `wait_ms` later."""
        last = self._last
        ms = now_ms + self.delta_ms
        if ms > last.ms:
            following = MessageId(last.publisher, last.broker, ms, 0)
        elif not self._used:
            following = last
        elif last.counter + 1 < _LIMITS["counter"]:
            following = MessageId(last.publisher, last.broker, last.ms, last.counter + 1)
        else:
            return None
        self._last, self._used = following, True
        return following

    def take(self, now_ms: int, count: int) -> list[bytes]:
        """The next ids, encoded, of one millisecond: up to this number of them, and at least one.

        >>> source = MessageIdSource(publisher=7, broker=1)
        >>> [one.hex()[16:] for one in source.take(1000, 2)], source.next(1000).counter
        (['0000000003e80000', '0000000003e80001'], 2)
        """
        first = self.next(now_ms)
        if first is None:
            return []
        last = min(first.counter + count, _LIMITS["counter"]) - 1
        self._last = MessageId(first.publisher, first.broker, first.ms, last)
        prefix = bytes(first)[:-2]
        return [prefix + counter.to_bytes(2, "big") for counter in range(first.counter, last + 1)]

    def wait_ms(self, now_ms: int) -> int:
        """Milliseconds until `next` is certain to have an id; 0 if it has one now."""
        if not self._used or self._last.counter + 1 < _LIMITS["counter"]:
            return 0
        return max(0, self._last.ms + 1 - (now_ms + self.delta_ms))
