"""Raw sockets that say what they like: the frames that the attacks are made of."""

import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from tidings.kernel.codec import encode_message
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.values import Value
from tidings.protocols.native.frames import FrameType, control

PASSWORD = "a long password"
READ_BYTES = 1 << 20
_HEADER = struct.Struct("<IBBH")
_RECEIPT = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Target:
    """A broker under attack."""

    ports: Mapping[str, int]  # by protocol
    http_port: int
    end: float  # of the attack, monotonic seconds

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end


class Native:
    """A connection in the native protocol; by itself it reads nothing."""

    def __init__(self, target: Target, user: str = "", source: str = "", client: str = "") -> None:
        self.receipts = count(1)
        address = ("127.0.0.1", target.ports["native"])
        self.socket = socket.create_connection(address, 60, (source, 0) if source else None)
        password = PASSWORD if user else ""
        said: dict[str, Value] = {"version": 1, "heartbeat_ms": 600_000}
        said |= {"user": user, "client": client, "password": password}
        self.socket.sendall(control(FrameType.HELLO, said))
        self._bytes = b""
        self.wait(FrameType.WELCOME)

    def frames(self) -> Iterator[tuple[FrameType, bytes]]:
        """The broker's frames, until it has closed the connection."""
        buffer = bytearray(self._bytes)
        while True:
            at = 0
            while len(buffer) - at >= _HEADER.size:
                length, kind, _, _ = _HEADER.unpack_from(buffer, at)
                if len(buffer) - at < _HEADER.size + length:
                    break
                at += _HEADER.size + length
                self._bytes = b""
                yield FrameType(kind), bytes(buffer[at - length : at])
            del buffer[:at]
            data = self.socket.recv(READ_BYTES)
            if not data:
                return
            buffer += data

    def wait(self, *kinds: FrameType, times: int = 1) -> bytes:
        """The payload of the last of these frames, of which this number must come; ERROR counts as well."""
        for kind, payload in self.frames():
            if kind in kinds or kind is FrameType.ERROR:
                times -= 1
                if not times:
                    return payload
        raise ConnectionError("closed by the broker")

    def ask(self, type: FrameType, fields: Mapping[str, Value], *, session: int = 0) -> None:
        self.send([self.request(type, fields, session=session)])
        self.wait(FrameType.OK)

    def subscribe(self, number: int, destination: str, **fields: str) -> bytes:
        """A subscription whose messages are dropped when they are too many."""
        policy = {} if "durable" in fields else {"policy": "drop-oldest"}
        return self.request(
            FrameType.SUBSCRIBE, {"subscription": number, "destination": destination, **policy, **fields}
        )

    def request(self, type: FrameType, fields: Mapping[str, Value], *, session: int = 0) -> bytes:
        return control(type, {"receipt": next(self.receipts), **fields}, session=session)

    def send(self, frames: Iterable[bytes]) -> None:
        self.socket.sendall(b"".join(frames))

    def close(self) -> None:
        """Without a farewell."""
        self.socket.close()


def message(
    topic: str, properties: Mapping[str, Value] | None = None, body: bytes = b"", *, persistent: bool = False
) -> bytes:
    return encode_message(Message(Destination.parse(topic), properties or {}, body, persistent=persistent))


def publish(encoded: bytes, *, receipt: int = 0, session: int = 0) -> bytes:
    return encode_frame(FrameType.PUBLISH, _RECEIPT.pack(receipt) + encoded, session=session)


def publish_until(target: Target, sender: Native, frame: bytes, many: int = 1) -> None:
    """Flat out; what the broker says is thrown away."""
    block = memoryview(frame * many)
    sender.socket.setblocking(False)
    left = block
    while not target.over:
        try:
            left = left[sender.socket.send(left) :] or block
        except BlockingIOError:
            time.sleep(0.001)
        try:
            if not sender.socket.recv(READ_BYTES):
                return
        except BlockingIOError:
            pass
    sender.socket.setblocking(True)


def stomp(target: Target, source: str = "") -> socket.socket:
    one = socket.create_connection(("127.0.0.1", target.ports["stomp"]), 60, (source, 0) if source else None)
    one.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
    assert b"CONNECTED" in one.recv(4096)
    return one


def be_nice() -> None:
    """Attackers are on other machines: here they must not take the processor from the innocent."""
    os.nice(10)
