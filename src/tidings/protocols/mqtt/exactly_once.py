"""Takes publications of QoS 2 of a session that survives: each in one transaction with the packet ids received.

    PUBLISH ─┐                                                                   ┌─► PUBREC of each
    PUBLISH ─┴► BEGIN, messages ──all accepted──► KEEP mqtt/in, COMMIT ──on disk──┘
                     └──one refused──► ROLLBACK, once more without it
    PUBREL  ──► KEEP mqtt/in, or with the next transaction ──on disk──► PUBCOMP

So after a crash a packet id is known exactly if its message is there. One step is under way at a time, and what comes
meanwhile goes with the next one.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from tidings.errors import RemoteError, TidingsError
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Fields, NativePeer

RECORD = "mqtt/in"
_SESSION = 1  # of the native connection, whose transactions are these


@dataclass(slots=True)
class _Publication:
    packet_id: int
    message: bytes
    settled: Callable[[TidingsError | None], None]
    error: RemoteError | None = None


class ExactlyOnceReceiver:
    """`fail` ends the connection."""

    def __init__(self, peer: NativePeer, record: bytes, fail: Callable[[TidingsError], None]) -> None:
        self._peer, self._fail = peer, fail
        self.received = set(struct.unpack(f"<{len(record) // 2}H", record))  # on disk
        self._publications: list[_Publication] = []
        self._releases: list[tuple[int, Callable[[], None]]] = []
        self._busy = False

    def publish(self, packet_id: int, message: bytes, settled: Callable[[TidingsError | None], None]) -> None:
        self._publications.append(_Publication(packet_id, message, settled))
        self._step()

    def release(self, packet_id: int, done: Callable[[], None]) -> None:
        self._releases.append((packet_id, done))
        self._step()

    def _step(self) -> None:
        if self._busy or not (self._publications or self._releases):
            return
        self._busy = True
        publications, self._publications = self._publications, []
        if publications:
            self._transact(publications)
        else:
            self._keep([])

    def _transact(self, publications: list[_Publication]) -> None:
        waits = len(publications)

        def accepted(publication: _Publication, error: RemoteError | None) -> None:
            nonlocal waits
            publication.error = error
            waits -= 1
            if waits:
                return
            if any(one.error for one in publications):
                self._again(publications)
            else:
                self._keep(publications)

        self._peer.ask(FrameType.BEGIN, {}, self._unless_refused, session=_SESSION)
        for one in publications:
            self._peer.publish(one.message, partial(accepted, one), session=_SESSION)

    def _again(self, publications: list[_Publication]) -> None:
        """Without those that were refused."""

        def rolled_back(answer: Fields | RemoteError) -> None:
            for one in publications:
                if one.error is not None:
                    one.settled(one.error)
            self._publications[:0] = [one for one in publications if one.error is None]
            self._end_of_step()

        self._peer.ask(FrameType.ROLLBACK, {}, rolled_back, session=_SESSION)

    def _keep(self, publications: list[_Publication]) -> None:
        releases, self._releases = self._releases, []
        after = self.received - {id for id, _ in releases} | {one.packet_id for one in publications}

        def done(answer: Fields | RemoteError) -> None:
            error = answer if isinstance(answer, RemoteError) else None
            if error is not None and releases:
                self._fail(error)
                return
            if error is None:
                self.received = after
            for one in publications:
                one.settled(error)
            for _, released in releases:
                released()
            self._end_of_step()

        fields: Fields = {"name": RECORD, "value": _encoded(after)}
        if publications:
            self._peer.ask(FrameType.KEEP, fields, self._unless_refused, session=_SESSION)
            self._peer.ask(FrameType.COMMIT, {}, done, session=_SESSION)
        else:
            self._peer.ask(FrameType.KEEP, fields, done)

    def _unless_refused(self, answer: Fields | RemoteError) -> None:
        if isinstance(answer, RemoteError):
            self._fail(answer)

    def _end_of_step(self) -> None:
        self._busy = False
        self._step()


def _encoded(ids: Iterable[int]) -> bytes:
    found = sorted(ids)
    return struct.pack(f"<{len(found)}H", *found)
