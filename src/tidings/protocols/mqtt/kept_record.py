"""A record of an MQTT session at the broker, written again when it has changed.

One KEEP is under way at a time; all changes meanwhile go with the next one: many changes cost few writes. Messages
that are acknowledged with a change are in one transaction with it: after a crash both are there, or neither.
"""

from collections.abc import Callable

from tidings.errors import RemoteError, TidingsError
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Fields, NativePeer

_SESSION = 2  # of the native connection, whose transactions are these (1: `exactly_once`)


class KeptRecord:
    """`value` gives the bytes to be kept; `fail` ends the connection if they cannot be."""

    def __init__(
        self, peer: NativePeer, name: str, value: Callable[[], bytes], fail: Callable[[TidingsError], None]
    ) -> None:
        self._peer, self._name, self._value, self._fail = peer, name, value, fail
        self._waiting: list[Callable[[], None]] = []
        self._acks: list[tuple[int, int]] = []
        self._under_way = False

    def changed(self, then: Callable[[], None], *, ack: tuple[int, int] | None = None) -> None:
        """Call `then` when the value as it is now is on disk; `ack`: a subscription's number and the message's tag."""
        self._waiting.append(then)
        self._acks += [] if ack is None else [ack]
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

        fields: Fields = {"name": self._name, "value": self._value()}
        acks, self._acks = self._acks, []
        if not acks:
            self._peer.ask(FrameType.KEEP, fields, kept)
            return
        self._peer.ask(FrameType.BEGIN, {}, self._unless_refused, session=_SESSION)
        for number, tag in acks:
            self._peer.ack(number, tag, session=_SESSION)
        self._peer.ask(FrameType.KEEP, fields, self._unless_refused, session=_SESSION)
        self._peer.ask(FrameType.COMMIT, {}, kept, session=_SESSION)

    def _unless_refused(self, answer: Fields | RemoteError) -> None:
        if isinstance(answer, RemoteError):
            self._fail(answer)
