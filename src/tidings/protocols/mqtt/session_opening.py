"""Opens the session of an MQTT client that has logged in, as a new one or with the state of an earlier one.

clean start:  LINGER clear ───────────────────────┬─► KEEP mqtt/session, if it outlives the connection ─► opened
otherwise:    RECALL ──► LINGER, if there is any ─┘
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.errors import RemoteError
from tidings.protocols.mqtt.exactly_once import RECORD as INCOMING
from tidings.protocols.mqtt.packets import V4, Connect
from tidings.protocols.mqtt.properties import Property
from tidings.protocols.mqtt.session_record import (
    FOREVER_MS,
    FOREVER_S,
    NAME,
    OUTGOING,
    SUBSCRIPTIONS,
    SessionRecord,
    record_of,
)
from tidings.protocols.native.frames import FrameType
from tidings.protocols.native.peer import Fields, NativePeer


def lifetime_ms_of(connect: Connect) -> int:
    """Return the time for which the session outlives its connection."""
    if connect.version == V4:
        return 0 if connect.clean else FOREVER_MS
    return milliseconds(connect.properties.get(Property.SESSION_EXPIRY, 0))


def milliseconds(seconds: int) -> int:
    return FOREVER_MS if seconds == FOREVER_S else 1000 * seconds


@dataclass(frozen=True, slots=True)
class EncodedWill:
    message: bytes
    delay_ms: int
    expiry_ms: int  # 0: never


@dataclass(slots=True)
class SessionState:
    """`present`: there was one before; `persistent`: it outlives the connection, or did so before."""

    lifetime_ms: int
    record: SessionRecord = field(default_factory=SessionRecord)
    incoming: bytes = b""
    outgoing: bytes = b""
    present: bool = False
    persistent: bool = False


class SessionOpening:
    """`opened` is called once, with the state or the error that refuses the connection."""

    def __init__(
        self,
        peer: NativePeer,
        connect: Connect,
        will: EncodedWill | None,
        publisher: int,
        opened: Callable[[SessionState | RemoteError], None],
    ) -> None:
        self._peer, self._connect, self._will, self._publisher = peer, connect, will, publisher
        self._opened = opened
        self._state = SessionState(lifetime_ms_of(connect))

    def start(self) -> None:
        if self._connect.clean:
            self._linger()
        else:
            self._peer.ask(FrameType.RECALL, {"name": NAME}, self._recalled)

    def _recalled(self, answer: Fields | RemoteError) -> None:
        if isinstance(answer, RemoteError):
            self._opened(answer)
            return
        state = self._state
        if found := record_of(answer, SUBSCRIPTIONS):
            state.present, state.record = True, SessionRecord.from_bytes(found)
            state.incoming, state.outgoing = record_of(answer, INCOMING), record_of(answer, OUTGOING)
        self._linger()

    def _linger(self) -> None:
        state, clean = self._state, self._connect.clean
        state.persistent = state.present or state.lifetime_ms > 0
        if state.persistent or clean or self._will is not None:
            fields = linger(state.lifetime_ms, self._will)
            self._peer.ask(FrameType.LINGER, {**fields, "clear": clean}, self._lingers)
        else:
            self._opened(state)

    def _lingers(self, answer: Fields | RemoteError) -> None:
        state = self._state
        if isinstance(answer, RemoteError) or not state.persistent:
            self._opened(answer if isinstance(answer, RemoteError) else state)
            return
        state.record.connected(self._publisher)
        fields: Fields = {"name": SUBSCRIPTIONS, "value": state.record.to_bytes()}
        self._peer.ask(FrameType.KEEP, fields, self._kept)

    def _kept(self, answer: Fields | RemoteError) -> None:
        self._opened(answer if isinstance(answer, RemoteError) else self._state)


def linger(lifetime_ms: int, will: EncodedWill | None) -> Fields:
    """The fields of LINGER."""
    fields: Fields = {"name": NAME, "lifetime_ms": lifetime_ms}
    if will is not None:
        fields |= {"will": will.message, "will_delay_ms": will.delay_ms, "will_expiry_ms": will.expiry_ms}
    return fields
