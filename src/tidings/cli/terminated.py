"""SIGTERM as Ctrl-C: whoever has started processes ends them, too."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminated() -> Iterator[None]:
    """SIGTERM ends what runs within as Ctrl-C does, with everything it has started."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
