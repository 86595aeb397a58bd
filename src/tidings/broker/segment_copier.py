"""The thread that copies segments of histories to a URI, every few seconds and at the end."""

import logging
import threading
from pathlib import Path

from tidings.broker.logs import note
from tidings.errors import StoreError
from tidings.segments.copies import SegmentCopies

log = logging.getLogger("tidings.tracking")
COPY_SECONDS = 5.0
END_SECONDS = 10.0  # for the last copies, when the broker ends


class SegmentCopier:
    def __init__(self, folder: Path, uri: str, broker: int) -> None:
        self._copies = SegmentCopies(folder, uri, broker)
        self._uri = uri
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="segment-copies", daemon=True)
        self._failing = False

    def fetch(self) -> bool:
        """Take what is missing here; False: the copies cannot be read."""
        try:
            count = self._copies.fetch()
        except StoreError as error:
            reason = "what another machine has recorded is not known"
            note(log, logging.ERROR, "copies of histories cannot be read", reason=f"{error.reason}; {reason}")
            return False
        if count:
            note(log, logging.INFO, "histories taken from copies", files=count, uri=self._uri)
        return True

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Copy what is left, if that does not take too long."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def _run(self) -> None:
        self._push()
        while not self._end.wait(COPY_SECONDS):
            self._push()
        self._push()

    def _push(self) -> None:
        """An error that repeats is logged once."""
        try:
            self._copies.push()
        except StoreError as error:
            if not self._failing:
                note(log, logging.ERROR, "histories cannot be copied", reason=error.reason)
            self._failing = True
        else:
            if self._failing:
                note(log, logging.INFO, "histories are copied again", uri=self._uri)
            self._failing = False
