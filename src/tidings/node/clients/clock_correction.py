"""Keeps the clocks of publishers within T_s of the broker's, where messages are recorded (`tracking.skew`)."""

from tidings.errors import RemoteProtocolError
from tidings.kernel.forwarder import Forwarder
from tidings.node.protocol_session import ClockSession, Hello, ProtocolSession
from tidings.tracking.recording.clock_skew import SkewWatch


class ClientClocks:
    def __init__(self, plane: Forwarder, tolerance_ms: int | None) -> None:
        self._plane, self._tolerance_ms = plane, tolerance_ms

    def watch(
        self, connection: int, session: ProtocolSession, hello: Hello, now_ms: int
    ) -> tuple[SkewWatch | None, int]:
        """The watch over a client that wants to be corrected, and δ, what it has to add to its clock."""
        if not hello.time_ms or not isinstance(session, ClockSession):
            return None, 0
        watch = SkewWatch(self._tolerance_ms or 0)
        if self._tolerance_ms is not None:
            self._plane.watch_clock(connection, self._tolerance_ms)
        return watch, watch.connect(hello.time_ms, now_ms).delta_ms

    def correct(self, connection: int, session: ProtocolSession, watch: SkewWatch, sent_ms: int, now_ms: int) -> None:
        """A message came with a time that is off: the client gets a correction, unless one is on its way."""
        assert isinstance(session, ClockSession)
        correction = watch.observe(sent_ms, now_ms)
        if correction is None:  # it is within the tolerance by now
            self._plane.watch_clock(connection, watch.tolerance_ms)
        else:
            self._plane.send(connection, session.clock(correction))

    def confirmed(self, connection: int, watch: SkewWatch | None, number: int) -> None:
        """Messages after this one have the corrected time."""
        if watch is None:
            raise RemoteProtocolError("E_SKEW_CONFIRM", "no correction was sent")
        watch.confirm(number)
        self._plane.watch_clock(connection, watch.tolerance_ms)
