"""A client of AMQP that says frame by frame what no library would, and sees all that the broker answers."""

import socket
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from hardening.fuzz.amqp_streams import (
    ACCEPT,
    ATTACH,
    BEGIN,
    COORDINATOR,
    DECLARE,
    DETACH,
    DISCHARGE,
    DISPOSITION,
    FLOW,
    MODIFIED,
    OPEN,
    REJECTED,
    RELEASED,
    SOURCE,
    TARGET,
    TRANSACTIONAL,
    TRANSFER,
    transfer,
)
from tidings.protocols.amqp.sasl import AMQP_HEADER, INIT, OUTCOME, SASL_HEADER, amqp_frame, sasl_frame
from tidings.protocols.amqp.sections import MessageSection, decode_sections, encode
from tidings.protocols.amqp.wire.decode import decode_first
from tidings.protocols.amqp.wire.types import Described, symbol, uint, ulong

SECONDS = 30
MANY = uint(1 << 30)
DEAD_LETTERS = "queue://dead-letters"
REJECT, RELEASE = Described(REJECTED, []), Described(RELEASED, [])
MODIFY = Described(MODIFIED, [True])
Open = Callable[..., "Client"]


class Client:
    """One session of one connection. Handles are the caller's choice; those of the broker are counted alike."""

    def __init__(self, port: int, container: str = "", plain: bytes = b"") -> None:
        self._stream = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._waiting: list[tuple[int, list[Any], bytes]] = []
        self._sent = 0
        if plain:
            self.say(SASL_HEADER, sasl_frame(INIT, [symbol("PLAIN"), plain]))
            assert self._read(8) == SASL_HEADER
            self.hear(OUTCOME)
        self.say(AMQP_HEADER, amqp_frame(OPEN, [container or uuid4().hex, "host"]))
        self.say(amqp_frame(BEGIN, [None, uint(0), MANY, MANY]))
        assert self._read(8) == AMQP_HEADER
        self.hear(BEGIN)

    def say(self, *frames: bytes) -> None:
        self._stream.sendall(b"".join(frames))

    def hear(self, wanted: int) -> tuple[list[Any], bytes]:
        """The fields of the next frame of this kind, as many as there can be, and what follows them."""
        while True:
            for i, (code, fields, payload) in enumerate(self._waiting):
                if code == wanted:
                    del self._waiting[i]
                    return fields, payload
            size = int.from_bytes(self._read(4), "big")
            content = self._read(size - 4)[4:]
            if content:
                value, used = decode_first(content)
                self._waiting.append((int(value.descriptor), [*value.value, *[None] * 14], content[used:]))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._stream.recv(size - len(data))
            assert part, "the broker has closed the connection"
            data += part
        return data

    def close(self) -> None:
        self._stream.close()

    # --- links ----------------------------------------------------------------------------------------------------

    def receive(
        self, handle: int, source: list[Any] | None, *, name: str = "", credit: int = 0, size_max: int = 0
    ) -> list[Any]:
        described = None if source is None else Described(SOURCE, source)
        link = [name or uuid4().hex, uint(handle), True, None, None, described, Described(TARGET, ["here"])]
        self.say(amqp_frame(ATTACH, [*link, None, None, None, ulong(size_max)]))
        if credit:
            self.say(amqp_frame(FLOW, [uint(0), MANY, uint(0), MANY, uint(handle), uint(0), uint(credit)]))
        return self.hear(ATTACH)[0]

    def publish(self, handle: int, target: Any) -> list[Any]:
        source = Described(SOURCE, ["here"])
        self.say(
            amqp_frame(ATTACH, [uuid4().hex, uint(handle), False, None, None, source, target, None, None, uint(0)])
        )
        return self.hear(ATTACH)[0]

    def detach(self, handle: int, *, closed: bool = True) -> list[Any]:
        self.say(amqp_frame(DETACH, [uint(handle), closed]))
        return self.hear(DETACH)[0]

    # --- messages -------------------------------------------------------------------------------------------------

    def send(
        self, handle: int, content: bytes, state: Any = None, *, presettled: bool = False, more: bool = False
    ) -> int:
        number, self._sent = self._sent, self._sent + 1
        fields = [uint(handle), uint(number), b"%d" % number, uint(0), presettled, more, None, state]
        self.say(transfer(fields, content))
        return number

    def outcome(self) -> Any:
        return self.hear(DISPOSITION)[0][4]

    def take(self) -> tuple[int, str]:
        """The number of the next delivery, and its text."""
        fields, content = self.hear(TRANSFER)
        return int(fields[1]), body(content)

    # --- transactions ---------------------------------------------------------------------------------------------

    def declare(self, handle: int = 9) -> bytes:
        self.publish(handle, Described(COORDINATOR, []))
        self.send(handle, encode(MessageSection.VALUE, Described(DECLARE, [])))
        declared: bytes = self.outcome().value[0]
        return declared

    def discharge(self, transaction: bytes, *, fails: bool = False, handle: int = 9) -> Any:
        number = self.send(handle, encode(MessageSection.VALUE, Described(DISCHARGE, [transaction, fails])))
        while True:
            fields = self.hear(DISPOSITION)[0]
            if fields[0] and fields[1] == number:
                return fields[4]


def body(content: bytes) -> str:
    return str(decode_sections(content)[-1].value)


def text(said: str) -> bytes:
    return encode(MessageSection.VALUE, said)


def to(address: str, said: str) -> bytes:
    return encode(MessageSection.PROPERTIES, [None, None, address]) + text(said)


def within(transaction: bytes, outcome: Any = None) -> Described:
    return Described(TRANSACTIONAL, [transaction] if outcome is None else [transaction, outcome])


def selecting(selector: str) -> dict[Any, Any]:
    return {symbol("s"): Described(symbol("apache.org:selector-filter:string"), selector)}


def source(address: str, *, selector: str = "", kept: bool = False, capabilities: Any = None) -> list[Any]:
    lasting = [uint(2), symbol("never")] if kept else [None, None]
    filters = selecting(selector) if selector else None
    return [address, *lasting, None, None, None, None, filters, None, None, capabilities]


def dead_letters_of(queue: str) -> list[Any]:
    return source(DEAD_LETTERS, selector=f"JMSXOriginalDestination = '{queue.replace('//', '')}'")


def refused_with(outcome: Any) -> str:
    assert outcome.descriptor == REJECTED, outcome
    return str(outcome.value[0].value[0])


def queue_with(client: Open, *said: str) -> str:
    queue = f"queue://q.{uuid4().hex}"
    put(client, queue, *said)
    return queue


def put(client: Open, address: str, *said: str) -> None:
    sender = client()
    sender.publish(0, Described(TARGET, [address]))
    for one in said:
        sender.send(0, text(one))
        assert sender.outcome().descriptor == ACCEPT.descriptor
