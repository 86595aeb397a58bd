"""A record of an MQTT session at the broker, written again when it has changed.

One KEEP is under way at a time; all changes meanwhile go with the next one, so that many changes cost few writes.
"""

from collections.abc import Callable

from tidings.errors import RemoteError, TidingsError
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Fields, NativePeer


class KeptRecord:
    """`value` gives the bytes to be kept; `fail` ends the connection if they cannot be."""

    def __init__(
        self, peer: NativePeer, name: str, value: Callable[[], bytes], fail: Callable[[TidingsError], None]
    ) -> None:
        self._peer, self._name, self._value, self._fail = peer, name, value, fail
        self._waiting: list[Callable[[], None]] = []
        self._under_way = False

    def changed(self, then: Callable[[], None]) -> None:
        """Call `then` when the value as it is now is on disk."""
        self._waiting.append(then)
        self._write()

    def _write(self) -> None:
        if self._under_way or not self._waiting:
            return
        ready, self._waiting, self._under_way = self._waiting, [], True

        def kept(answer: Fields | RemoteError) -> None:
            self._under_way = False
            if isinstance(answer, RemoteError):
                self._fail(answer)
                return
            for then in ready:
                then()
            self._write()

        self._peer.ask(FrameType.KEEP, {"name": self._name, "value": self._value()}, kept)
