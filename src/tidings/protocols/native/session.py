"""The broker's side of the native protocol: one session a connection, no I/O.

    GREETING ──Hello──► LOGIN ──welcome──► READY ──Bye──► CLOSED

`receive` turns a control frame into what is asked; `answer` turns what the node says into bytes. Publications and
deliveries do not come through here: the forwarding plane handles their frames by itself.
"""

from enum import Enum
from typing import assert_never

from tidings.errors import RemoteProtocolError, TidingsError
from tidings.kernel.forwarder import Forwarder
from tidings.model.codec import encode_frame
from tidings.model.values import Value
from tidings.node.protocol_session import Bye, Hello, Invalid, Ping, Received
from tidings.node.requests import (
    Ack,
    Credit,
    Done,
    Failed,
    Outcome,
    Refused,
)
from tidings.protocols.native.frames import (
    VERSION,
    FrameType,
    control,
    decode_ack,
    decode_credit,
    decode_fields,
    encode_retained,
    unsigned,
)
from tidings.protocols.native.request_decoding import decode_request
from tidings.tracking.recording.clock_skew import Correction


class NativeState(Enum):
    GREETING = "greeting"
    LOGIN = "login"
    READY = "ready"
    CLOSED = "closed"


# What may come in which state, and the state it leads to.
TRANSITIONS: dict[NativeState, dict[FrameType, NativeState]] = {
    NativeState.GREETING: {FrameType.HELLO: NativeState.LOGIN},
    NativeState.LOGIN: {},
    NativeState.READY: {
        FrameType.PING: NativeState.READY,
        FrameType.PONG: NativeState.READY,
        FrameType.CLOSE: NativeState.CLOSED,
        FrameType.SUBSCRIBE: NativeState.READY,
        FrameType.UNSUBSCRIBE: NativeState.READY,
        FrameType.CREDIT: NativeState.READY,
        FrameType.ACK: NativeState.READY,
        FrameType.BEGIN: NativeState.READY,
        FrameType.COMMIT: NativeState.READY,
        FrameType.ROLLBACK: NativeState.READY,
        FrameType.DRAIN: NativeState.READY,
        FrameType.SYNC: NativeState.READY,
        FrameType.IDENTIFY: NativeState.READY,
        FrameType.TEMPORARY: NativeState.READY,
        FrameType.BROWSE: NativeState.READY,
        FrameType.PURGE: NativeState.READY,
        FrameType.MOVE: NativeState.READY,
        FrameType.CREATE: NativeState.READY,
        FrameType.DELETE: NativeState.READY,
        FrameType.DISCONNECT: NativeState.READY,
        FrameType.ADVERTISE: NativeState.READY,
        FrameType.TRACE: NativeState.READY,
        FrameType.INSPECT: NativeState.READY,
        FrameType.RETAIN: NativeState.READY,
        FrameType.READ: NativeState.READY,
        FrameType.RELEASE: NativeState.READY,
        FrameType.CLOCK: NativeState.READY,
        FrameType.TYPE: NativeState.READY,
        FrameType.KEEP: NativeState.READY,
        FrameType.RECALL: NativeState.READY,
        FrameType.LINGER: NativeState.READY,
    },
    NativeState.CLOSED: {},
}


class NativeSession:
    name = "native"

    def __init__(self) -> None:
        self.state = NativeState.GREETING

    @property
    def ended(self) -> bool:
        return False  # its errors are fatal or not, and say so

    def opened(self, plane: Forwarder, connection: int) -> None:
        """The forwarding plane speaks native frames unless told otherwise."""

    def heartbeats(self, hello: Hello, longest_ms: int) -> tuple[int, int]:
        # A client whose pings are held up, behind a long message or since we do not read, hears us all the same.
        silence_ms = min(hello.heartbeat_ms or longest_ms, longest_ms)
        return silence_ms, silence_ms

    def receive(self, type: int, flags: int, session: int, payload: bytes) -> Received:
        """Decode a control frame into a request; a fatal error ends the connection."""
        try:
            frame = FrameType(type)
        except ValueError:
            raise RemoteProtocolError("E_FRAME_TYPE", f"unknown frame type {type:#04x}") from None
        if frame not in TRANSITIONS[self.state]:
            raise RemoteProtocolError(
                "E_FRAME_UNEXPECTED", f"unexpected frame {frame.name} in state {self.state.value}"
            )
        self.state = TRANSITIONS[self.state][frame]
        match frame:
            case FrameType.PING:
                return Ping()
            case FrameType.PONG:
                return None
            case FrameType.CLOSE:
                return Bye()
            case FrameType.CREDIT:
                return Credit(*decode_credit(payload))
            case FrameType.ACK:
                return Ack.of(*decode_ack(payload), session)
            case _:
                fields = decode_fields(payload)
                try:
                    return decode_request(frame, fields, session)
                except TidingsError as error:
                    if error.fatal or frame is FrameType.HELLO:
                        raise
                    return Invalid(unsigned(fields, "receipt"), error.alone())

    def welcome(self, fields: dict[str, Value]) -> bytes:
        self.state = NativeState.READY
        return control(FrameType.WELCOME, {"version": VERSION, **fields})

    def answer(self, answer: Outcome) -> bytes:
        match answer:
            case Done(receipt, fields, retained):
                messages = b"".join(encode_retained(receipt, offset, message) for offset, message in retained)
                return messages + control(FrameType.OK, {"receipt": receipt, **fields})
            case Failed(receipt, error):
                return self.error(error, receipt)
            case Refused(receipt, error):
                return control(FrameType.REFUSED, {"receipt": receipt, "code": error.code, "reason": error.reason})
            case _:
                assert_never(answer)

    def error(self, error: TidingsError, receipt: int = 0) -> bytes:
        fields: dict[str, Value] = {"code": error.code, "reason": error.reason, "receipt": receipt}
        if error.position is not None:
            fields["position"] = error.position + 1  # 0 would be left out
        fields["fatal"] = error.fatal
        return control(FrameType.ERROR, fields)

    def dropped(self, subscription: int, count: int, reason: str) -> bytes:
        return control(FrameType.DROPPED, {"subscription": subscription, "count": count, "reason": reason})

    def ping(self) -> bytes:
        return encode_frame(FrameType.PING, b"")

    def pong(self) -> bytes:
        return encode_frame(FrameType.PONG, b"")

    def clock(self, correction: Correction) -> bytes:
        return control(FrameType.CLOCK, {"number": correction.number, "delta_ms": correction.delta_ms})

    def close(self, code: str, reason: str) -> bytes:
        self.state = NativeState.CLOSED
        return control(FrameType.CLOSE, {"code": code, "reason": reason})
