"""Connections of calibration: what a client of each protocol sends, and counts of what the broker sends to it.

One object per connection, without I/O. Everything that a message needs is encoded beforehand but for its number, so the
generator costs as little as it can. The client acknowledges what it was sent by a durable subscription.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidings.errors import UsageError
from tidings.kernel.codec import encode_message
from tidings.lab.load_protocols import CREDIT
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.protocols.native.frames import ACK_CUMULATIVE, FrameType, control, encode_ack, encode_credit

Pairs = tuple[tuple[str, str], ...]
_HEAD = struct.Struct("<IB3x")


def refused(data: bytes) -> UsageError:
    return UsageError("E_LAB_REFUSED", f"the broker refused a client of the calibration: {bytes(data[:300])!r}")


@dataclass(frozen=True, slots=True)
class ClientAccount:
    user: str = ""
    password: str = ""


@dataclass(frozen=True, slots=True)
class LoadMessage:
    """One of the messages that are published in turn. `kind` decides who gets it."""

    topic: str
    kind: int
    body: bytes = b""
    properties: Pairs = ()
    persistent: bool = False


@dataclass(frozen=True, slots=True)
class LoadSubscription:
    """By kinds of messages, or, as one of those that match nothing, by a selector. `durable`: its name, or empty."""

    topic: str
    kinds: tuple[int, ...]
    selector: str = ""
    durable: str = ""


@dataclass(slots=True)
class FrameCounts:
    """Of what came on a connection in one read."""

    answers: int = 0  # to logging in and to subscribing
    messages: int = 0
    confirmations: int = 0
    reply: bytes = b""  # acknowledgements to send


class WireClient(Protocol):
    """Interface of one connection's protocol."""

    def login(self, client: str, *, publishes: str = "") -> tuple[bytes, int]:
        """Returns the bytes to send and the number of answers. `publishes`: to this topic, or empty."""

    def subscribe(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]: ...

    def forget(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        """Deletes a durable subscription."""

    def publisher(self, plans: Sequence[LoadMessage]) -> Callable[[int, int], bytes]:
        """Encodes the messages; the result gives the bytes of a plan for the n-th message of this connection."""

    def feed(self, data: bytes) -> FrameCounts: ...


@dataclass(slots=True)
class NativeWire:
    account: ClientAccount
    _rest: bytes = b""
    _taken: int = 0  # messages for which no credit was returned

    def login(self, client: str, *, publishes: str = "") -> tuple[bytes, int]:
        fields: dict[str, Value] = {"version": 1, "client": client}
        fields |= {"user": self.account.user, "password": self.account.password}
        return control(FrameType.HELLO, fields), 1

    def subscribe(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        fields: dict[str, Value] = {"receipt": number, "subscription": number, "destination": plan.topic}
        fields |= {"selector": plan.selector, "durable": plan.durable, "credit": CREDIT if plan.durable else 0}
        return control(FrameType.SUBSCRIBE, fields), 1

    def forget(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        leave = control(FrameType.UNSUBSCRIBE, {"subscription": number, "release": False, "receipt": number})
        return leave + control(FrameType.UNSUBSCRIBE, {"durable": plan.durable, "receipt": number}), 2

    def publisher(self, plans: Sequence[LoadMessage]) -> Callable[[int, int], bytes]:
        frames = []
        for plan in plans:
            message = Message(
                Destination(plan.topic),
                dict(plan.properties),
                plan.body,
                id=MessageId(1, 1, 1_700_000_000_000, 1),
                persistent=plan.persistent,
            )
            receipt = struct.pack("<I", plan.persistent)
            frames.append(encode_frame(FrameType.PUBLISH, receipt + encode_message(message)))
        return lambda plan, _: frames[plan]

    def feed(self, data: bytes) -> FrameCounts:
        stream, position, found, tag = self._rest + data if self._rest else data, 0, FrameCounts(), None
        while len(stream) - position >= 8:
            size, kind = _HEAD.unpack_from(stream, position)
            after = position + 8 + size
            if after > len(stream):
                break
            if kind == FrameType.DELIVER:
                found.messages += 1
                tag = position + 16
            elif kind == FrameType.RECEIPTS:
                found.confirmations += struct.unpack_from("<I", stream, position + 8)[0]
            elif kind in (FrameType.OK, FrameType.WELCOME):
                found.answers += 1
            elif kind == FrameType.ERROR:
                raise refused(stream[position:after])
            position = after
        if tag is not None:
            found.reply = self._acknowledgement(struct.unpack_from("<Q", stream, tag)[0], found.messages)
        self._rest = stream[position:]
        return found

    def _acknowledgement(self, tag: int, messages: int) -> bytes:
        """Of a durable subscription, whose messages have tags."""
        if not tag:
            return b""
        self._taken += messages
        said = encode_ack(1, [tag], ACK_CUMULATIVE)
        if self._taken * 2 >= CREDIT:
            said += encode_credit(1, self._taken)
            self._taken = 0
        return said


@dataclass(slots=True)
class StompWire:
    account: ClientAccount
    _rest: bytes = b""

    def login(self, client: str, *, publishes: str = "") -> tuple[bytes, int]:
        headers = {"accept-version": "1.2", "host": "localhost", "heart-beat": "0,0", "client-id": client}
        return _stomp("CONNECT", headers | {"login": self.account.user, "passcode": self.account.password}), 1

    def subscribe(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        headers = {"id": str(number), "destination": f"/topic/{plan.topic}", "selector": plan.selector}
        if plan.durable:
            headers |= {"activemq.subscriptionName": plan.durable, "ack": "client"}
            headers |= {"activemq.prefetchSize": str(CREDIT)}
        return _stomp("SUBSCRIBE", headers | {"receipt": f"s{number}"}), 1

    def forget(self, number: int, plan: LoadSubscription) -> tuple[bytes, int]:
        headers = {"id": str(number), "activemq.subscriptionName": plan.durable, "receipt": f"s{number}"}
        return _stomp("UNSUBSCRIBE", headers), 1

    def publisher(self, plans: Sequence[LoadMessage]) -> Callable[[int, int], bytes]:
        frames = []
        for plan in plans:
            headers = {"destination": f"/topic/{plan.topic}", **dict(plan.properties)}
            if plan.persistent:
                headers |= {"persistent": "true", "receipt": "m"}
            if plan.body:
                headers["content-length"] = str(len(plan.body))
            frames.append(_stomp("SEND", headers, plan.body))
        return lambda plan, _: frames[plan]

    def feed(self, data: bytes) -> FrameCounts:
        *frames, self._rest = (self._rest + data if self._rest else data).split(b"\0")
        found, last = FrameCounts(), b""
        for frame in frames:
            start = frame.lstrip(b"\n")[:9]
            if start.startswith(b"MESSAGE"):
                found.messages += 1
                last = frame
            elif start.startswith(b"RECEIPT"):
                if b"receipt-id:m" in frame:
                    found.confirmations += 1
                else:
                    found.answers += 1
            elif start.startswith(b"CONNECTED"):
                found.answers += 1
            elif start.startswith(b"ERROR"):
                raise refused(frame)
        if (at := last.find(b"\nack:")) >= 0:
            found.reply = b"ACK\nid:" + last[at + 5 : last.find(b"\n", at + 5)] + b"\n\n\0"
        return found


def _stomp(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    lines = [command, *(f"{name}:{value}" for name, value in headers.items() if value), "", ""]
    return "\n".join(lines).encode() + body + b"\0"
