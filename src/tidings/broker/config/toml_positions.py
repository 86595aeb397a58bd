"""Finds the line of each key of a TOML document, which Python's parser does not report.

The text has been read by `tomllib` already, so it is known to be valid; this scanner only locates the keys. A path is a
tuple of keys and positions in arrays.

>>> lines_of('[broker]\\nname = "a"\\n\\n[[listeners]]\\nport = 1\\n')
{('broker',): 1, ('broker', 'name'): 2, ('listeners',): 4, ('listeners', 0): 4, ('listeners', 0, 'port'): 5}
"""

import re
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_LITERAL = re.compile(r"'([^'\n]*)'")
_LONG_BASIC = re.compile(r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL)
_SCALAR = re.compile(r"[^,\]}\n#]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, at which each table, array, element and key begins."""
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self._counted = (0, 1)  # offset, its line
        self._lengths: dict[Path, int] = {}  # of arrays of tables

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while True:
            self._skip(_BLANK)
            if self.at >= len(self.text):
                return self.lines
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        start, array = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        path: Path = ()
        keys = self._key()
        for key in keys:
            path = self._into((*path, key), start)
        self.at += 2 if array else 1
        if array:
            path = path[:-1] if isinstance(path[-1], int) else path
            number = self._lengths.get(path, 0)
            self._lengths[path] = number + 1
            path = (*path, number)
            self._mark(path, start)
        return path

    def _into(self, path: Path, start: int) -> Path:
        """A name in a header means the last element where the name is that of an array of tables."""
        self._mark(path, start)
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _pair(self, table: Path) -> None:
        start, path = self.at, table
        for key in self._key():
            path = (*path, key)
            self._mark(path, start)
        self.at += 1  # the equals sign
        self._value(path)

    def _key(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key_part())
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1

    def _key_part(self) -> str:
        if found := _BASIC.match(self.text, self.at):
            self.at = found.end()
            return _ESCAPE.sub(_unescape, found[1])
        found = _LITERAL.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            return found[1]
        found = _BARE.match(self.text, self.at)
        assert found is not None, "tomllib accepted a key that is none"
        self.at = found.end()
        return found[0]

    def _value(self, path: Path) -> None:
        self._skip(_SPACE)
        match self.text[self.at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._skip(_LONG_BASIC) or self._skip(_LONG_LITERAL) or self._skip(_BASIC) or self._skip(_LITERAL)
            case _:
                self._skip(_SCALAR)

    def _array(self, path: Path) -> None:
        self.at += 1
        number = 0
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._mark((*path, number), self.at)
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self._skip(_BLANK)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._pair(path)

    def _skip(self, what: re.Pattern[str]) -> bool:
        found = what.match(self.text, self.at)
        if found is None:
            return False
        self.at = found.end()
        return True

    def _mark(self, path: Path, offset: int) -> None:
        if path not in self.lines:
            at, line = self._counted
            line += self.text.count("\n", at, offset)
            self._counted = (offset, line)
            self.lines[path] = line


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    return _ESCAPES[code] if code in _ESCAPES else chr(int(code[1:], 16))
