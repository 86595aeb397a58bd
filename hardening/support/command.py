"""Interface of the fixture `tidings`, with which tests run the command line in tests/integration/cli."""

from typing import Protocol


class Command(Protocol):
    def __call__(self, *arguments: object, stdin: str = "") -> tuple[int, str, str]:
        """Exit status, output, error output."""
        ...
