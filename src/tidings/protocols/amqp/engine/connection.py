"""An AMQP connection after login: header, frames, open and close (specification, part 2.4)."""

from typing import Protocol

from tidings.errors import CodecError, RemoteProtocolError, TidingsError
from tidings.kernel.amqp import AmqpTransfers
from tidings.protocols.amqp.conditions import condition_of
from tidings.protocols.amqp.engine.channel import AmqpChannel, ChannelHandler
from tidings.protocols.amqp.wire.frames import AMQP_FRAME, MIN_MAX_FRAME_SIZE, AmqpFrame, FrameReader, frame
from tidings.protocols.amqp.wire.performatives import (
    AmqpBegin,
    AmqpClose,
    AmqpEnd,
    AmqpOpen,
    Performative,
    read_performative,
    write_performative,
)

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
IDLE_MS_MIN = 500  # the client's idle time-out; ticks come every quarter of a second
_EMPTY_FRAME = frame(b"")


class ConnectionHandler(ChannelHandler, Protocol):
    def opened(self, said: AmqpOpen) -> None: ...

    def closed(self) -> None: ...

    def taken(self) -> None:
        """The kernel has handled frames: it may have something for the broker."""

    def session_opened(self, channel: AmqpChannel) -> None: ...

    def session_closed(self, channel: AmqpChannel) -> None: ...


class AmqpConnection:
    """`opening`: what we say of ourselves."""

    def __init__(
        self, handler: ConnectionHandler, opening: AmqpOpen, handle_max: int, transfers: AmqpTransfers
    ) -> None:
        self.handler = handler
        self.remote_frame_bytes_max = MIN_MAX_FRAME_SIZE
        self.settling: dict[AmqpChannel, None] = {}  # with dispositions that are not written yet
        self.transfers = transfers
        transfers.frame_bytes_max = opening.max_frame_size
        self._opening = opening
        self._handle_max = handle_max
        self._header = b""
        self._reader = FrameReader(opening.max_frame_size)
        self._output: list[bytes] = []
        self._channels: dict[int, AmqpChannel] = {}
        self._idle_ms = 0  # the longest silence that the client bears; 0: any
        self._written_ms = 0
        self._header_sent = self._opened = self._remote_opened = self._closed = self._remote_closed = False

    # --- bytes ----------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int) -> None:
        """An error is the client's fault, and ends the connection: see `fail`."""
        if len(self._header) < len(AMQP_HEADER):
            missing = len(AMQP_HEADER) - len(self._header)
            self._header, data = self._header + data[:missing], data[missing:]
            if not AMQP_HEADER.startswith(self._header):
                raise RemoteProtocolError("E_AMQP_HEADER", "not an AMQP 1.0 protocol header", position=0)
            if len(self._header) < len(AMQP_HEADER):
                return
            self._put_header()
        self._reader.append(data)
        while not self._closed and not self._remote_closed:
            if self._channels:
                self._take(now_ms)
            if (one := self._reader.next()) is None:
                break
            self._handle(one)

    def _take(self, now_ms: int) -> None:
        """Frames that the kernel handles."""
        data, at = self._reader.pending()
        if used := self.transfers.take(data, at, now_ms):
            self._reader.skip(used)
            self.handler.taken()

    def take_output(self) -> bytes:
        settling, self.settling = self.settling, {}
        for channel in settling:
            channel.put_dispositions()
        self.put_given()
        output = b"".join(self._output)
        self._output.clear()
        return output

    def tick(self, now_ms: int) -> None:
        """Every quarter of a second: the client may want a sign of life."""
        if self._output:
            self._written_ms = now_ms
        elif self._idle_ms and self._opened and not self._closed and 4 * (now_ms - self._written_ms) >= self._idle_ms:
            self._written_ms = now_ms
            self._output.append(_EMPTY_FRAME)

    @property
    def waiting_bytes(self) -> int:
        return sum(channel.outgoing_bytes for channel in self._channels.values())

    # --- to the client --------------------------------------------------------------------------------------------

    def put(self, performative: Performative, channel: int = 0) -> None:
        self.put_body(write_performative(performative), channel)

    def put_body(self, body: bytes, channel: int) -> None:
        if not self._closed:
            self._output.append(frame(body, channel))

    def put_given(self) -> None:
        """Queue the output of the kernel; nothing after the close."""
        if (output := self.transfers.take_output()) and not self._closed:
            self._output.append(output)

    def channel(self, number: int) -> AmqpChannel | None:
        return self._channels.get(number)

    def open(self) -> None:
        if not self._opened:
            self._put_header()
            self._opened = True
            self.put(self._opening)

    def close(self, error: TidingsError | None = None) -> None:
        """Once; without an open before it there is one now."""
        if self._closed:
            return
        self.open()
        for channel in self._channels.values():
            channel.put_dispositions()
        self.put(AmqpClose(None if error is None else condition_of(error)))
        self._closed = True

    def session_failed(self, channel: AmqpChannel) -> None:
        self.handler.session_closed(channel)

    def _put_header(self) -> None:
        if not self._header_sent:
            self._header_sent = True
            self._output.append(AMQP_HEADER)

    # --- from the client ------------------------------------------------------------------------------------------

    def _handle(self, one: AmqpFrame) -> None:
        if one.kind != AMQP_FRAME:
            raise CodecError("E_AMQP_DECODE", "frame does not contain an AMQP performative")
        if not one.body:
            return  # a sign of life
        performative, payload = read_performative(one.body)
        if isinstance(performative, AmqpOpen):
            self._said_open(performative, one.channel)
        elif not self._remote_opened:
            raise RemoteProtocolError("E_AMQP_FRAMING", "the first frame must be an open")
        elif isinstance(performative, AmqpClose):
            self._remote_closed = True
            self.handler.closed()
        elif isinstance(performative, AmqpBegin):
            self._begun(performative, one.channel)
        else:
            self._in_session(performative, payload, one.channel)

    def _said_open(self, said: AmqpOpen, channel: int) -> None:
        if self._remote_opened:
            raise RemoteProtocolError("E_AMQP_FRAMING", "a second open")
        if channel:
            raise RemoteProtocolError("E_AMQP_FRAMING", f"an open on channel {channel}: it must be 0")
        if said.max_frame_size < MIN_MAX_FRAME_SIZE:
            raise RemoteProtocolError("E_AMQP_OPEN", f"max-frame-size must be {MIN_MAX_FRAME_SIZE} or more")
        if 0 < (said.idle_time_out or 0) < IDLE_MS_MIN:
            raise RemoteProtocolError("E_AMQP_OPEN", f"idle-time-out must be {IDLE_MS_MIN} ms or more")
        self._remote_opened = True
        self._idle_ms = said.idle_time_out or 0
        self.remote_frame_bytes_max = min(said.max_frame_size, self._opening.max_frame_size)
        self.transfers.remote_frame_bytes_max = self.remote_frame_bytes_max
        self.handler.opened(said)

    def _begun(self, begin: AmqpBegin, number: int) -> None:
        if number in self._channels:
            raise RemoteProtocolError("E_AMQP_FRAMING", f"channel {number} has a session")
        if begin.remote_channel is not None:
            raise RemoteProtocolError("E_AMQP_FRAMING", "begin answers a session that the broker did not begin")
        if number > self._opening.channel_max:
            raise RemoteProtocolError("E_AMQP_FRAMING", f"channel {number} is above {self._opening.channel_max}")
        channel = AmqpChannel(self, number, begin, self._handle_max)
        self._channels[number] = channel
        channel.begin()
        self.handler.session_opened(channel)

    def _in_session(self, performative: Performative, payload: bytes, number: int) -> None:
        channel = self._channels.get(number)
        if channel is None:
            raise RemoteProtocolError("E_AMQP_FRAMING", f"there is no session on channel {number}")
        if isinstance(performative, AmqpEnd):
            del self._channels[number]
            if not channel.over:
                self.handler.session_closed(channel)
                channel.end()
        elif not channel.over:
            channel.handle(performative, payload)
