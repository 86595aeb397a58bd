"""The part of each protocol that the load generator speaks.

Everything sent is built beforehand in blocks. What comes back is counted, not parsed: deliveries of the native protocol
all have the same known size, STOMP frames end with the only NUL in them. So the generator works at the speed of the
socket and never holds up the server it measures.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import ACK_CUMULATIVE, FrameType, control, encode_ack, encode_credit

TAG_AT = 16  # of a DELIVER frame: after its header, the subscription and the delivery count
CREDIT = 2000  # of a durable subscriber: as many messages may be with it without acknowledgement
PROPERTY = "prop"
VECTOR_BYTES = 4096  # from here on numpy counts faster, although it has to be called
TAIL_BYTES = 4096  # of a stream of STOMP frames: enough to hold the head of the last whole one


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The messages to publish: identical, to one topic; by default each one matches `prop = '0'`."""

    topic: str
    body: bytes = b""
    persistent: bool = False
    receipts: bool = False
    properties: tuple[tuple[str, str], ...] = ((PROPERTY, "0"),)


class Counter(Protocol):
    """Counts messages in the bytes of one connection."""

    def feed(self, data: bytearray, size: int) -> int:
        """Number of messages (or receipts) that ended in these bytes."""

    def acknowledgement(self, messages: int) -> bytes:
        """Acknowledgement that a durable subscriber sends after this number of messages; empty: none."""


class LoadProtocol(Protocol):
    name: str

    def hello(self, client: str) -> bytes: ...

    def subscribe(self, number: int, topic: str, selector: str, durable: str = "") -> bytes:
        """With a request for a receipt."""

    def replies(self, data: bytes) -> int:
        """Number of answers (to hello or subscribe) in these bytes; an error raises."""

    def seen(self, data: bytes) -> tuple[bool, bool]:
        """True for each of: these bytes contain an answer, these bytes contain a message."""

    def block(self, plan: LoadPlan, count: int) -> bytes:
        """An encoded block of this number of messages, to be sent repeatedly."""

    def deliveries(self, plan: LoadPlan) -> Counter: ...

    def receipts(self) -> Counter: ...

    def answers(self) -> Counter:
        """To hello or subscribe; an error raises."""


class NativeLoad:
    name = "native"

    def hello(self, client: str) -> bytes:
        return control(FrameType.HELLO, {"version": 1, "client": client})

    def subscribe(self, number: int, topic: str, selector: str, durable: str = "") -> bytes:
        fields: dict[str, Value] = {"receipt": number, "subscription": number, "destination": topic}
        fields |= {"selector": selector, "durable": durable, "credit": CREDIT if durable else 0}
        return control(FrameType.SUBSCRIBE, fields)

    def replies(self, data: bytes) -> int:
        return sum(type in (FrameType.WELCOME, FrameType.OK) for type in self._types(data))

    def seen(self, data: bytes) -> tuple[bool, bool]:
        types = set(self._types(data))
        return FrameType.OK in types, FrameType.DELIVER in types

    def _types(self, data: bytes) -> Iterator[int]:
        position = 0
        while len(data) - position >= 8:
            size, type = struct.unpack_from("<IB", data, position)
            position += 8 + size
            if position > len(data):
                break
            if type == FrameType.ERROR:
                raise RuntimeError(f"the broker says: {data!r:.500}")
            yield type

    def block(self, plan: LoadPlan, count: int) -> bytes:
        message = Message(Destination(plan.topic), dict(plan.properties), plan.body, persistent=plan.persistent)
        frames = []
        for number in range(1, count + 1):
            one = encode_message(replace(message, id=MessageId(1, 1, 1_700_000_000_000, number)))
            receipt = struct.pack("<I", number if plan.receipts else 0)
            frames.append(encode_frame(FrameType.PUBLISH, receipt + one))
        return b"".join(frames)

    def deliveries(self, plan: LoadPlan) -> Counter:
        publish_bytes = len(self.block(plan, 1))
        return _Deliveries(publish_bytes - 4 + 16)

    def receipts(self) -> Counter:
        return _Receipts()

    def answers(self) -> Counter:
        return _Answers(self)


class _Answers:
    """WELCOME and OK frames, each looked at once."""

    def __init__(self, wire: "NativeLoad") -> None:
        self._wire = wire
        self._rest = b""

    def feed(self, data: bytearray, size: int) -> int:
        stream = self._rest + data[:size]
        position = 0
        while len(stream) - position >= 8:
            (payload,) = struct.unpack_from("<I", stream, position)
            if position + 8 + payload > len(stream):
                break
            position += 8 + payload
        self._rest = bytes(stream[position:])
        return self._wire.replies(bytes(stream[:position]))

    def acknowledgement(self, messages: int) -> bytes:
        return b""


class _Deliveries:
    """DELIVER frames of one size: their number follows from the number of bytes."""

    def __init__(self, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
        self._rest = 0  # bytes of a frame that has begun
        self._last = b""  # bytes: with them the last whole frame
        self._taken = 0  # and no credit returned for it

    def feed(self, data: bytearray, size: int) -> int:
        count, self._rest = divmod(self._rest + size, self._frame_bytes)
        kept = 2 * self._frame_bytes
        self._last = bytes(data[size - kept : size]) if size >= kept else (self._last + data[:size])[-kept:]
        return count

    def acknowledgement(self, messages: int) -> bytes:
        """Up to the last whole frame. Credit is returned by halves of the window, as the client does it."""
        (tag,) = struct.unpack_from("<Q", self._last, len(self._last) - self._rest - self._frame_bytes + TAG_AT)
        self._taken += messages
        said = encode_ack(1, [tag], ACK_CUMULATIVE)
        if self._taken * 2 >= CREDIT:
            said += encode_credit(1, self._taken)
            self._taken = 0
        return said


class _Receipts:
    """RECEIPTS frames: each says how many it holds."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytearray, size: int) -> int:
        stream = self._rest + data[:size]
        count = position = 0
        while len(stream) - position >= 12:
            payload, type, number = struct.unpack_from("<IB3xI", stream, position)
            if position + 8 + payload > len(stream):
                break
            if type != FrameType.RECEIPTS:
                raise RuntimeError(f"unexpected frame {type:#x}: {bytes(stream[position : position + 200])!r}")
            count += number
            position += 8 + payload
        self._rest = bytes(stream[position:])
        return count

    def acknowledgement(self, messages: int) -> bytes:
        return b""


class StompLoad:
    name = "STOMP 1.2"

    def hello(self, client: str) -> bytes:
        return _frame(
            "CONNECT", {"accept-version": "1.2", "host": "localhost", "heart-beat": "0,0", "client-id": client}
        )

    def subscribe(self, number: int, topic: str, selector: str, durable: str = "") -> bytes:
        headers = {"id": str(number), "destination": f"/topic/{topic}", "selector": selector, "receipt": f"s{number}"}
        if durable:
            more = {"activemq.subscriptionName": durable, "ack": "client", "activemq.prefetchSize": str(CREDIT)}
            headers.update(more)
        return _frame("SUBSCRIBE", headers)

    def replies(self, data: bytes) -> int:
        if b"ERROR\n" in data:
            raise RuntimeError(f"the server says: {data!r}")
        return data.count(b"\0")

    def seen(self, data: bytes) -> tuple[bool, bool]:
        self.replies(data)
        return b"RECEIPT\n" in data, b"MESSAGE\n" in data

    def block(self, plan: LoadPlan, count: int) -> bytes:
        headers = {"destination": f"/topic/{plan.topic}", **dict(plan.properties)}
        if plan.persistent:
            headers["persistent"] = "true"
        if plan.body:
            headers["content-length"] = str(len(plan.body))
        if not plan.receipts:
            return _frame("SEND", headers, plan.body) * count
        return b"".join(_frame("SEND", {**headers, "receipt": str(i)}, plan.body) for i in range(1, count + 1))

    def deliveries(self, plan: LoadPlan) -> Counter:
        return _Frames()

    def receipts(self) -> Counter:
        return _Frames()

    def answers(self) -> Counter:
        return _Frames()


def _count_nuls(data: bytearray, size: int) -> int:
    """A long look at every byte must not cost the generator more than it costs the server to send them."""
    if size < VECTOR_BYTES:
        return data.count(b"\0", 0, size)
    return size - int(np.count_nonzero(np.frombuffer(data, np.uint8, size)))


class _Frames:
    """STOMP frames whose bodies hold no NUL."""

    def __init__(self) -> None:
        self._last = b""

    def feed(self, data: bytearray, size: int) -> int:
        self._last = (
            bytes(data[size - TAIL_BYTES : size]) if size >= TAIL_BYTES else (self._last + data[:size])[-TAIL_BYTES:]
        )
        return _count_nuls(data, size)

    def acknowledgement(self, messages: int) -> bytes:
        """Cumulative: the last whole message that came."""
        start = self._last.rfind(b"\nack:", 0, self._last.rfind(b"\0"))
        end = self._last.find(b"\n", start + 1)
        return b"ACK\nid:" + self._last[start + 5 : end] + b"\n\n\0"


def _frame(command: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [command, *(f"{name}:{value}" for name, value in headers.items() if value), "", ""]
    return "\n".join(lines).encode() + body + b"\0"
