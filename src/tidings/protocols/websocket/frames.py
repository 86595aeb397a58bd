"""WebSocket (RFC 6455) on the broker's side, without I/O: bytes of a socket in, what is inside out, and back.

Handshake, masks, fragments, pings and the closing handshake are those of the library `websockets`; here it is said who
may connect and what is spoken. The protocol inside is a stream: where messages of clients begin and end means nothing;
where those of the broker do, `tidings.protocols.websocket.messages` says.
"""

import codecs
import ipaddress
from http import HTTPStatus
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import InvalidMessage, InvalidOrigin
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Origin, Subprotocol

from tidings.protocols.websocket.messages import MESSAGE_BYTES_MAX, Cutter

SUBPROTOCOLS = ("v12.stomp", "v11.stomp", "v10.stomp")  # the best first
VERSION = "13"  # of WebSocket
LOGIN_BYTES_MAX = 64 << 10


class _Handshake(ServerProtocol):
    """Browsers say of which origin a page is: one in the list, or the very address that it connects to.

    An address, not a name: any domain's owner can make a name resolve to this address.
    """

    def __init__(self, allowed: tuple[str, ...], subprotocols: tuple[str, ...]) -> None:
        super().__init__(select_subprotocol=lambda _, offered: _best(offered, subprotocols), max_size=LOGIN_BYTES_MAX)
        self._allowed = allowed
        self._told = False

    def process_origin(self, headers: Headers) -> Origin | None:
        origin = super().process_origin(headers)
        if origin is None or "*" in self._allowed or origin in self._allowed:
            return origin
        try:
            place = urlsplit(origin)
        except ValueError:  # half an address of IPv6
            raise InvalidOrigin(origin) from None
        if place.netloc != headers.get("Host") or not _is_address(place.hostname or ""):
            raise InvalidOrigin(origin)
        return origin

    def accept(self, request: Request) -> Response:
        """Answer a client of another version with the supported one (RFC 6455, 4.4)."""
        response = super().accept(request)
        if request.headers.get_all("Sec-WebSocket-Version") not in ([], [VERSION]):
            if response.status_code == HTTPStatus.BAD_REQUEST:
                response = self.reject(HTTPStatus.UPGRADE_REQUIRED, f"The version of WebSocket is {VERSION}.\n")
                response.headers["Upgrade"] = "websocket"
            response.headers["Sec-WebSocket-Version"] = VERSION
        return response

    def send_eof(self) -> None:
        """Answer bytes that are not an HTTP request with 400 (RFC 6455, 4.2.1); the library would only close."""
        if self._told or not isinstance(self.handshake_exc, InvalidMessage):
            super().send_eof()
            return
        self._told = True
        self.send_response(self.reject(HTTPStatus.BAD_REQUEST, "Not a request that opens a WebSocket connection.\n"))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _best(offered: object, subprotocols: tuple[str, ...]) -> Subprotocol | None:
    assert isinstance(offered, (list, tuple))
    return next((Subprotocol(one) for one in subprotocols if one in offered), None)


class WebSocketLayer:
    """`binary`: all messages are, in both directions."""

    def __init__(
        self,
        origins: tuple[str, ...] = (),
        *,
        subprotocols: tuple[str, ...] = SUBPROTOCOLS,
        binary: bool = False,
    ) -> None:
        self._machine = _Handshake(origins, subprotocols)
        self._binary = binary
        self._text: codecs.IncrementalDecoder | None = None  # while a text message goes on
        self._cutter = Cutter()
        self.ended = False

    @property
    def message_bytes_max(self) -> int:
        return self._machine.max_message_size or 0

    @message_bytes_max.setter
    def message_bytes_max(self, bytes_max: int) -> None:
        self._machine.max_message_size = bytes_max

    def receive(self, data: bytes) -> bytes:
        """The unframed input; call `to_send` afterwards."""
        self._machine.receive_data(data)
        inside = []
        for event in self._machine.events_received():
            if isinstance(event, Request):
                self._machine.send_response(self._machine.accept(event))
            elif isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                if self._binary and event.opcode is Opcode.TEXT:
                    self._machine.fail(CloseCode.UNSUPPORTED_DATA, "only binary messages are allowed")
                    break
                if not self._is_text(event):
                    self._machine.fail(CloseCode.INVALID_DATA, "text message is not UTF-8")
                    break
                inside.append(bytes(event.data))
        if self._machine.close_expected():
            self.ended = True
        return b"".join(inside)

    def _is_text(self, frame: Frame) -> bool:
        """Text must be UTF-8, over all fragments of a message."""
        if frame.opcode is Opcode.TEXT:
            self._text = codecs.getincrementaldecoder("utf-8")()
        if self._text is None:
            return True
        try:
            self._text.decode(bytes(frame.data), final=frame.fin)
        except UnicodeDecodeError:
            return False
        if frame.fin:
            self._text = None
        return True

    def to_send(self) -> bytes:
        return b"".join(self._machine.data_to_send())

    def wrap(self, data: bytes) -> bytes:
        """The broker's next bytes as messages. Before the handshake nothing."""
        if self._machine.state is not State.OPEN:
            return b""
        if self._binary:
            for start in range(0, len(data), MESSAGE_BYTES_MAX):
                self._machine.send_binary(data[start : start + MESSAGE_BYTES_MAX])
            return self.to_send()
        for text, content in self._cutter.cut(data):
            if text:
                self._machine.send_text(content)
            else:
                self._machine.send_binary(content)
        return self.to_send()

    def close(self) -> None:
        if self._machine.state is State.OPEN:
            self._machine.send_close(CloseCode.NORMAL_CLOSURE)
