"""Protocol sessions as the engine sees them: what a session understands of a client's frames besides requests, and
the bytes it makes of answers."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from tidings.errors import TidingsError
from tidings.kernel.forwarder import Forwarder
from tidings.model.values import Value
from tidings.node.requests import Outcome, Request
from tidings.tracking.recording.clock_skew import Correction


@dataclass(frozen=True, slots=True)
class Hello:
    """A request to log in."""

    user: str
    password: str
    client_id: str
    heartbeat_ms: int
    time_ms: int = 0  # by the client's clock; 0: it does not want to be corrected
    token: str = ""  # of an earlier login

    def __repr__(self) -> str:  # a password must never reach a log
        return f"Hello(user={self.user!r}, client_id={self.client_id!r})"


@dataclass(frozen=True, slots=True)
class Clock:
    """From here on the client uses the correction of this number."""

    number: int


@dataclass(frozen=True, slots=True)
class Ping:
    """A ping of the client, to be answered."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """A request for the broker's status. A part of the answer, of a list those items from `offset` that mention a
    text."""

    receipt: int
    part: str = "overview"
    offset: int = 0
    count: int = 0  # 0: as many as there are in a page
    containing: str = ""


@dataclass(frozen=True, slots=True)
class Bye:
    """The client is done."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """An invalid request; the connection goes on."""

    receipt: int
    error: TidingsError


Received: TypeAlias = Hello | Clock | Ping | Inspect | Bye | Invalid | Request | tuple[Request, ...] | None


class ProtocolSession(Protocol):
    """One connection's side of a protocol, without I/O."""

    name: str

    @property
    def ended(self) -> bool:
        """True if it has written its last frame: the connection is to be closed."""

    def opened(self, plane: Forwarder, connection: int) -> None:
        """The connection is there. A session may tell the forwarding plane how its protocol says things."""

    def heartbeats(self, hello: Hello, longest_ms: int) -> tuple[int, int]:
        """The longest silence of the client before it is asked for a sign of life, and of the broker; 0: any."""

    def receive(self, type: int, flags: int, session: int, payload: bytes) -> Received:
        """The request of a control frame. A RemoteProtocolError ends the connection."""

    def welcome(self, fields: dict[str, Value]) -> bytes: ...

    def answer(self, answer: Outcome) -> bytes: ...

    def error(self, error: TidingsError, receipt: int = 0) -> bytes: ...

    def dropped(self, subscription: int, count: int, reason: str) -> bytes:
        """Tells the client that `count` messages of a subscription were dropped since it was last told; the reasons are
        in docs/wire.md. Empty: the protocol has no place for it."""

    def ping(self) -> bytes: ...

    def pong(self) -> bytes: ...

    def close(self, code: str, reason: str) -> bytes: ...


@runtime_checkable
class ClockSession(Protocol):
    """Of a protocol whose clients give messages their ids, and so must know by how much their clocks are off."""

    def clock(self, correction: Correction) -> bytes: ...
