"""The client's side of the native protocol, without I/O: how sessions of other protocols talk to the broker.

Frames for the broker gather until `take`; what each of them asks for has a callback, which `receive` calls when the
broker's answer comes. Acknowledgements that agree in all but the tag leave as one frame.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidings.errors import RemoteError
from tidings.model.codec import encode_frame
from tidings.model.values import Value
from tidings.protocols.native.frames import (
    VERSION,
    FrameSplitter,
    FrameType,
    control,
    decode_fields,
    decode_receipts,
    decode_retained,
    encode_ack,
    encode_credit,
    field,
    unsigned,
)

Fields: TypeAlias = dict[str, Value]
OnAnswer: TypeAlias = Callable[[Fields | RemoteError], None]
OnRefusal: TypeAlias = Callable[[int, RemoteError], None]
OnReceipt: TypeAlias = Callable[[RemoteError | None], None]
RECEIPT_MAX = 0x7FFF_FFFF  # those above are the kernel's
_DELIVER = struct.Struct("<IIQ")


class Delivered(NamedTuple):
    subscription: int
    attempt: int
    tag: int  # 0: no acknowledgement wanted
    message: bytes


@dataclass(frozen=True, slots=True)
class Dropped:
    """The broker has dropped messages of a subscription that did not keep up."""

    subscription: int
    count: int
    reason: str


class Ended(NamedTuple):
    """The broker ends the connection, and says why."""

    error: RemoteError


class Welcomed(NamedTuple):
    fields: Fields


Said: TypeAlias = Delivered | Dropped | Ended | Welcomed


class NativePeer:
    def __init__(self, frame_bytes_max: int) -> None:
        self._splitter = FrameSplitter(frame_bytes_max)
        self._frames: list[bytes] = []
        self._acks: dict[tuple[int, int, int], list[int]] = {}  # by subscription, flags and session
        self._asked: dict[int, OnAnswer] = {}
        self._published: dict[int, OnReceipt] = {}
        self._reads: dict[int, Callable[[int, bytes], None]] = {}
        self._receipt = 0
        self.on_foreign_refusal: OnRefusal | None = None  # of messages that others have published here

    # --- to the broker --------------------------------------------------------------------------------------------

    def hello(self, user: str, password: str, *, client_id: str = "", heartbeat_ms: int = 0) -> None:
        fields: Fields = {"version": VERSION, "user": user, "password": password}
        self._put(control(FrameType.HELLO, {**fields, "client": client_id, "heartbeat_ms": heartbeat_ms}))

    def ask(
        self,
        type: FrameType,
        fields: Fields,
        on_answer: OnAnswer,
        *,
        session: int = 0,
        on_message: Callable[[int, bytes], None] | None = None,
    ) -> None:
        """`on_message`: retained messages that are read, with their offsets, before the answer."""
        receipt = self._next_receipt()
        self._asked[receipt] = on_answer
        if on_message is not None:
            self._reads[receipt] = on_message
        self._put(control(type, {"receipt": receipt, **fields}, session=session))

    def publish(self, message: bytes, on_receipt: OnReceipt | None, *, session: int = 0) -> None:
        """Publish; without `on_receipt` the broker confirms nothing."""
        receipt = 0
        if on_receipt is not None:
            receipt = self._next_receipt()
            self._published[receipt] = on_receipt
        payload = receipt.to_bytes(4, "little") + message
        self._frames.append(encode_frame(FrameType.PUBLISH, payload, session=session))

    def ack(self, subscription: int, tag: int, flags: int = 0, *, session: int = 0) -> None:
        self._acks.setdefault((subscription, flags, session), []).append(tag)

    def credit(self, subscription: int, more: int) -> None:
        self._put(encode_credit(subscription, more))

    def forward(self, frames: bytes) -> None:
        """Frames that others have made."""
        self._put(frames)

    def close(self) -> None:
        self._put(control(FrameType.CLOSE, {}))

    def take(self) -> bytes:
        """All frames since the last call."""
        self._put_acks()
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    def _put(self, frame: bytes) -> None:
        self._put_acks()  # what is asked may rest on them
        self._frames.append(frame)

    def _put_acks(self) -> None:
        for (subscription, flags, session), tags in self._acks.items():
            self._frames.append(encode_ack(subscription, tags, flags, session=session))
        self._acks.clear()

    def _next_receipt(self) -> int:
        self._receipt = self._receipt % RECEIPT_MAX + 1
        return self._receipt

    # --- from the broker ------------------------------------------------------------------------------------------

    def receive(self, data: bytes, on_said: Callable[[Said], None]) -> None:
        """Answers go to those who asked; anything else to `on_said`."""
        for type, _, _, payload in self._splitter.feed(data):
            match type:
                case FrameType.DELIVER:
                    subscription, attempt, tag = _DELIVER.unpack_from(payload)
                    on_said(Delivered(subscription, attempt, tag, payload[_DELIVER.size :]))
                case FrameType.RECEIPTS:
                    for receipt in decode_receipts(payload):
                        self._receipted(receipt, None)
                case FrameType.REFUSED:
                    fields = decode_fields(payload)
                    self._receipted(unsigned(fields, "receipt"), _error(fields))
                case FrameType.OK:
                    fields = decode_fields(payload)
                    self._answered(unsigned(fields, "receipt"), fields)
                case FrameType.RETAINED:
                    receipt, offset, message = decode_retained(payload)
                    if (on_message := self._reads.get(receipt)) is not None:
                        on_message(offset, message)
                case FrameType.ERROR:
                    self._error(decode_fields(payload), on_said)
                case FrameType.CLOSE:
                    on_said(Ended(_error(decode_fields(payload))))
                case FrameType.DROPPED:
                    on_said(_dropped(decode_fields(payload)))
                case FrameType.WELCOME:
                    on_said(Welcomed(decode_fields(payload)))

    def _error(self, fields: Fields, on_said: Callable[[Said], None]) -> None:
        error, receipt = _error(fields), unsigned(fields, "receipt")
        if error.fatal:
            on_said(Ended(error))
        elif receipt:
            self._answered(receipt, error)

    def _answered(self, receipt: int, answer: Fields | RemoteError) -> None:
        self._reads.pop(receipt, None)
        on_answer = self._asked.pop(receipt, None)
        if on_answer is not None:
            on_answer(answer)

    def _receipted(self, receipt: int, error: RemoteError | None) -> None:
        on_receipt = self._published.pop(receipt, None)
        if on_receipt is not None:
            on_receipt(error)
        elif error is not None and self.on_foreign_refusal is not None:
            self.on_foreign_refusal(receipt, error)


def _dropped(fields: Fields) -> Dropped:
    return Dropped(unsigned(fields, "subscription"), unsigned(fields, "count", 63), field(fields, "reason", str))


def _error(fields: Fields) -> RemoteError:
    position = unsigned(fields, "position")
    return RemoteError(
        field(fields, "code", str),
        field(fields, "reason", str),
        position=position - 1 if position else None,
        fatal=field(fields, "fatal", bool),
    )
