"""What tests of the command line type, and what they get: the fixture `tidings` of tests/cli."""

from typing import Protocol


class Command(Protocol):
    def __call__(self, *arguments: object, stdin: str = "") -> tuple[int, str, str]:
        """Exit status, output, error output."""
        ...
