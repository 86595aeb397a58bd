"""Keeps the last 100 asynchronous errors and passes each to `on_error`."""

import logging
from collections import deque
from collections.abc import Callable

from tidings.errors import TidingsError

log = logging.getLogger("tidings.client")
ERRORS_MAX = 100  # the latest are kept


class AsyncErrors:
    def __init__(self, on_error: Callable[[TidingsError], None] | None) -> None:
        self.errors: deque[TidingsError] = deque(maxlen=ERRORS_MAX)
        self._on_error = on_error

    def note(self, error: TidingsError) -> None:
        self.errors.append(error)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except Exception:  # called while a frame is read: the rest of the frame must not be lost
                log.exception("on_error failed")
