"""The stream of STOMP frames to a client cut into WebSocket messages: text wherever it can be.

Every client takes text; some of those for browsers take nothing else, and some break if a text comes as bytes. What is
UTF-8 as a whole goes as a whole, unread. If it breaks off inside a character, the character waits for its end. Only
where something is not UTF-8 are frames looked at, so that a body of bytes does not carry its neighbours with it:

>>> cutter = Cutter()
>>> one = b"RECEIPT\\nreceipt-id:1\\n\\n\\0"
>>> other = b"MESSAGE\\ncontent-length:3\\n\\n\\xff\\0\\xff\\0"
>>> [(text, len(content)) for text, content in cutter.cut(one + one + other + one[:9])]
[(True, 46), (False, 30), (True, 9)]
"""

import re
from codecs import utf_8_decode
from collections.abc import Iterator

MESSAGE_BYTES_MAX = 1 << 20  # of one message: what clients take that have a limit of their own
_COMMAND = rb"\n*(?:CONNECTED|MESSAGE|RECEIPT|ERROR)\n"
_BEGINNING = re.compile(_COMMAND)
_BORDER = re.compile(rb"\0(?=" + _COMMAND + rb")")
_LENGTH = b"\ncontent-length:"
_DIGITS_MAX = 12
_LINE_END = 0x0A


class Cutter:
    def __init__(self) -> None:
        self._held = b""  # of a character that is not complete

    def cut(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """The messages to send, and whether each is text."""
        data, self._held = self._held + data, b""
        end = _text_end(data)
        if end >= 0:
            yield from self._texts(data, end)
            return
        for text, content in _runs(data):
            yield from self._texts(content, _text_end(content)) if text else _limited(False, content)

    def _texts(self, content: bytes, end: int) -> Iterator[tuple[bool, bytes]]:
        self._held = content[end:]
        return _limited(True, content[:end])


def _text_end(data: bytes) -> int:
    """Up to where it is text, if only the end of its last character is missing; below zero: it is none."""
    try:
        return utf_8_decode(data, "strict", False)[1]
    except UnicodeDecodeError:
        return -1


def _runs(data: bytes) -> Iterator[tuple[bool, bytes]]:
    """Successive frames that are text, or are not, together."""
    start = last = 0
    text = True
    for end in _ends(data):
        is_text = _text_end(data[last:end]) >= 0
        if is_text is not text and last > start:
            yield text, data[start:last]
            start = last
        text, last = is_text, end
    yield text, data[start:]


def _ends(data: bytes) -> Iterator[int]:
    """The end of each frame; the last may be incomplete.

    The first may be the rest of one whose length was read earlier. It ends before bytes that look like another frame:
    should these be part of its body, the same bytes are sent, in two messages.
    """
    at = 0
    if _BEGINNING.match(data) is None:
        border = _BORDER.search(data)
        at = len(data) if border is None else border.end()
        yield at
    while at < len(data):
        at = _end(data, at)
        yield at


def _end(data: bytes, at: int) -> int:
    """Of the frame that begins there, after signs of life."""
    size = len(data)
    while at < size and data[at] == _LINE_END:
        at += 1
    head = data.find(b"\n\n", at)
    if head < 0:
        return size
    length = data.rfind(_LENGTH, at, head)  # no header holds a line end
    if length < 0:
        return data.find(b"\0", head) + 1 or size
    digits = data[length + len(_LENGTH) : data.find(b"\n", length + 1)]
    if not digits.isdigit() or len(digits) > _DIGITS_MAX:
        return size  # a body that looks like a frame
    return min(head + 3 + int(digits), size)


def _limited(text: bool, content: bytes) -> Iterator[tuple[bool, bytes]]:
    while len(content) > MESSAGE_BYTES_MAX:
        end = MESSAGE_BYTES_MAX
        while text and content[end] & 0xC0 == 0x80:  # not inside a character
            end -= 1
        yield text, content[:end]
        content = content[end:]
    if content:
        yield text, content
