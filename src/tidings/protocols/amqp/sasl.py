"""The SASL layer in front of AMQP (specification, part 5.3), the server's side, without I/O.

HEADER ──AMQP──────────────────────────────────────► PASSED  (no SASL: who it is, if anybody, the certificate says)
   └─SASL header─► INIT ──► [RESPONSE] ──► CHECKING ──outcome──► PASSED
                                               └────────────────► REFUSED
"""

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum

from tidings.errors import CodecError, RemoteProtocolError
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.encode import encode_value
from tidings.protocols.amqp.wire.types import AmqpValue, Described, symbols, ubyte, ulong

AMQP_HEADER, SASL_HEADER = b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"
FRAME_BYTES_MAX = 24 << 10  # the standard's 512 bytes are too few for tokens
LOG_IN_BYTES_MAX = 2 * FRAME_BYTES_MAX + len(AMQP_HEADER)  # not taken to pieces
WAITING_BYTES_MAX = 64 << 10  # for the layer above, from a client whose login is being checked
_FRAME = struct.Struct(">IBBH")
_SASL_FRAME = 1
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)


class SaslState(Enum):
    HEADER = "header"
    INIT = "init"
    RESPONSE = "response"
    CHECKING = "checking"
    PASSED = "passed"
    REFUSED = "refused"


class SaslOutcome(IntEnum):
    OK = 0
    AUTH = 1
    SYS = 2
    SYS_TEMP = 4


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a client; empty for ANONYMOUS and for a certificate."""

    user: str = ""
    password: str = ""


class Sasl:
    def __init__(self, mechanisms: tuple[str, ...]) -> None:
        self.state = SaslState.HEADER
        self.output = bytearray()
        self._mechanisms = mechanisms
        self._input = bytearray()

    @property
    def layered(self) -> bool:
        """True if the client speaks SASL and waits for an outcome."""
        return self.state not in (SaslState.HEADER, SaslState.PASSED)

    def receive(self, data: bytes) -> Credentials | None:
        """Bytes from the client; what it says of itself once it has said so."""
        self._input += data
        if self.state is SaslState.HEADER and len(self._input) >= len(AMQP_HEADER):
            header = bytes(self._input[: len(AMQP_HEADER)])
            if header == AMQP_HEADER:
                self.state = SaslState.PASSED
                return Credentials()
            if header != SASL_HEADER:
                self.output += SASL_HEADER  # what is understood here, and no frames: the client speaks something else
                self.state = SaslState.REFUSED
                raise RemoteProtocolError("E_AMQP_HEADER", "not an AMQP 1.0 or SASL protocol header", position=0)
            del self._input[: len(header)]
            self.state = SaslState.INIT
            self.output += SASL_HEADER + sasl_frame(MECHANISMS, [symbols(*self._mechanisms)])
        while self.state in (SaslState.INIT, SaslState.RESPONSE) and (frame := self._next_frame()) is not None:
            if (credentials := self._said(frame)) is not None:
                return credentials
        waits = self.state in (SaslState.CHECKING, SaslState.PASSED)
        if len(self._input) > (WAITING_BYTES_MAX if waits else LOG_IN_BYTES_MAX):
            raise RemoteProtocolError("E_AMQP_SASL", "more bytes than a SASL login allows")
        return None

    def decide(self, outcome: SaslOutcome) -> None:
        """Queue the SASL outcome."""
        self.output += sasl_frame(OUTCOME, [ubyte(outcome)])
        self.state = SaslState.REFUSED if outcome else SaslState.PASSED

    def take_input(self) -> bytes:
        """The input that belongs to the layer above."""
        data = bytes(self._input)
        self._input.clear()
        return data

    def _next_frame(self) -> AmqpValue:
        """A described list; None if the frame is incomplete."""
        if len(self._input) < _FRAME.size:
            return None
        size, offset, kind, _ = _FRAME.unpack_from(self._input)
        if kind != _SASL_FRAME or not 2 <= offset <= size // 4 or size > FRAME_BYTES_MAX:
            raise RemoteProtocolError("E_AMQP_SASL", "not a SASL frame", position=0)
        if len(self._input) < size:
            return None
        content = bytes(self._input[4 * offset : size])
        del self._input[:size]
        try:
            value, _ = decode_first(content)
        except CodecError as error:
            raise RemoteProtocolError("E_AMQP_SASL", error.reason) from None
        if not isinstance(value, Described) or not isinstance(value.value, list):
            raise RemoteProtocolError("E_AMQP_SASL", "not a SASL frame")
        return value

    def _said(self, frame: AmqpValue) -> Credentials | None:
        fields: list[AmqpValue] = frame.value
        first = fields[0] if fields else None
        if self.state is SaslState.RESPONSE and frame.descriptor in (ulong(RESPONSE), "amqp:sasl-response:list"):
            return self._plain(first)
        if self.state is not SaslState.INIT or frame.descriptor not in (ulong(INIT), "amqp:sasl-init:list"):
            raise RemoteProtocolError("E_AMQP_SASL", f"unexpected SASL frame in state {self.state.value}")
        response = fields[1] if len(fields) > 1 else None
        if first not in self._mechanisms:
            self.decide(SaslOutcome.AUTH)
            offered = ", ".join(self._mechanisms)
            raise RemoteProtocolError("E_AMQP_MECHANISM", f"{str(first)[:40]!r} is not offered; use {offered}")
        if first == "XOAUTH2":
            return self._xoauth2(response)
        if first == "PLAIN":
            if response is not None:
                return self._plain(response)
            self.output += sasl_frame(CHALLENGE, [b""])
            self.state = SaslState.RESPONSE
            return None
        self.state = SaslState.CHECKING
        return Credentials(_text(response) if first == "EXTERNAL" else "")

    def _xoauth2(self, response: AmqpValue) -> Credentials:
        """user=… ^A auth=Bearer … ^A ^A; the user may be left out."""
        kind, _, token = _xoauth2_part(response, "auth").partition(" ")
        if kind.lower() != "bearer" or not token:
            self.decide(SaslOutcome.AUTH)
            raise RemoteProtocolError("E_AMQP_SASL", "XOAUTH2 needs auth=Bearer and a token")
        self.state = SaslState.CHECKING
        return Credentials(_xoauth2_part(response, "user"), token)

    def _plain(self, response: AmqpValue) -> Credentials:
        """RFC 4616: [whom to act for] NUL who NUL password. Nobody acts for others here."""
        parts = _text(response).split("\0")
        if len(parts) != 3 or parts[0] not in ("", parts[1]) or not parts[1]:
            self.decide(SaslOutcome.AUTH)
            raise RemoteProtocolError("E_AMQP_SASL", "PLAIN needs a user and a password")
        self.state = SaslState.CHECKING
        return Credentials(parts[1], parts[2])


def _xoauth2_part(response: AmqpValue, name: str) -> str:
    parts = (part.partition("=") for part in _text(response).split("\x01"))
    return next((value for key, _, value in parts if key == name), "")


def _text(response: AmqpValue) -> str:
    if not isinstance(response, bytes):
        return ""
    try:
        return response.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("E_AMQP_SASL", "PLAIN response is not UTF-8") from None


def sasl_frame(code: int, fields: AmqpValue) -> bytes:
    return amqp_frame(code, fields, _SASL_FRAME)


def amqp_frame(code: int, fields: AmqpValue, kind: int = 0) -> bytes:
    content = encode_value(Described(ulong(code), fields))
    return _FRAME.pack(_FRAME.size + len(content), 2, kind, 0) + content
