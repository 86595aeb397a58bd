"""STOMP frames 1.0 to 1.2 between bytes and headers, for all but SEND and MESSAGE, which the kernel reads and writes.

>>> encode("RECEIPT", {"receipt-id": "a:b"}, StompVersion.V12)
b'RECEIPT\\nreceipt-id:a\\\\cb\\n\\n\\x00'
>>> frame = decode(b"SUBSCRIBE\\r\\nid:1\\nid:2\\ndestination:/topic/a\\\\cb\\n\\n", StompVersion.V12)
>>> frame.command, frame.headers
('SUBSCRIBE', {'id': '1', 'destination': '/topic/a:b'})
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from tidings.errors import RemoteProtocolError


class StompVersion(IntEnum):
    """As the kernel numbers them."""

    V10 = 0
    V11 = 1
    V12 = 2

    def __str__(self) -> str:
        return f"1.{self.value}"


class StompFrame(NamedTuple):
    command: str
    headers: dict[str, str]  # of repeated ones the first
    body: bytes


_UNESCAPED = {"\\n": "\n", "\\c": ":", "\\\\": "\\", "\\r": "\r"}
_ESCAPED = {"\n": "\\n", ":": "\\c", "\\": "\\\\", "\r": "\\r", "\0": "\ufffd"}
_ESCAPE = re.compile(r"\\.?", re.DOTALL)
_SPECIAL = re.compile(r"[\n\r:\\\0]")


def decode(data: bytes, version: StompVersion) -> StompFrame:
    """A frame without its NUL. CONNECT and its like know no escapes."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n", data.count(b"\n", 0, _head_end(data)))
    head, _, body = data.partition(b"\n\n")
    try:
        command, *lines = head.decode().rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError("E_STOMP_UTF8", "the headers are not UTF-8", position=error.start) from None
    headers: dict[str, str] = {}
    plain = command in ("CONNECT", "STOMP") or (b"\\" not in head and version is not StompVersion.V10)
    for line in lines:
        name, _, value = line.partition(":")
        if not plain:
            name, value = unescape(name, version), unescape(value, version)
        headers.setdefault(name, value)
    return StompFrame(command, headers, body)


def receipt_in(data: bytes) -> str | None:
    """The receipt that a frame asks for, whatever else is wrong with it.

    >>> receipt_in(b"SUBSCRIBE\\nid:\\\\x\\nreceipt:7\\n\\n")
    '7'
    """
    found = re.search(rb"\nreceipt:([^\r\n]*)", data[: _head_end(data)])
    return None if found is None else found[1].decode(errors="replace")


def _head_end(data: bytes) -> int:
    found = re.search(rb"\n\r?\n", data)
    return len(data) if found is None else found.end()


def unescape(text: str, version: StompVersion) -> str:
    if version is StompVersion.V10:
        return text.strip(" \t")
    if "\\" not in text:
        return text

    def one(found: re.Match[str]) -> str:
        if found[0] not in _UNESCAPED or (found[0] == "\\r" and version is StompVersion.V11):
            raise RemoteProtocolError("E_STOMP_ESCAPE", "unknown escape sequence in a header", position=found.start())
        return _UNESCAPED[found[0]]

    return _ESCAPE.sub(one, text)


def escape(text: str, version: StompVersion, *, name: bool = False) -> str:
    """As the kernel writes headers: 1.0 has no escapes, there only what would break the frame is escaped."""

    def one(found: re.Match[str]) -> str:
        character = found[0]
        if character == "\r" and version is StompVersion.V11:
            return character
        if version is StompVersion.V10 and (character == "\\" or (character == ":" and not name)):
            return character
        return _ESCAPED[character]

    return _SPECIAL.sub(one, text)


def encode(command: str, headers: Mapping[str, str], version: StompVersion, body: bytes = b"") -> bytes:
    lines = "".join(f"{name}:{escape(value, version)}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n".encode() + body + b"\0"
