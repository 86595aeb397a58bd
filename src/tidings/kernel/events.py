"""Events of the forwarding plane: what it hands to the node because it cannot finish it alone.

One record for each kind, in a closed union, `PlaneEvent`; the structs in native/include/tidings/forwarding/events.hpp
have the same names and the same order of fields, and the binding makes these records from them. They are named tuples,
not frozen dataclasses, because one is made for every persistent message: a frozen dataclass of seven fields takes
0.8 µs to make, a named tuple 0.15 µs. Fields are read by name. Two records of different kinds may be equal: compare
kinds with `isinstance`.
"""

from typing import NamedTuple, TypeAlias


class ControlFrame(NamedTuple):
    """A frame that only a protocol session understands. Parsing of the connection waits for `handled`."""

    connection: int
    type: int
    flags: int
    session: int
    payload: bytes


class Published(NamedTuple):
    """A message of a client that mailboxes want, or one for a queue."""

    connection: int
    receipt: int
    perhaps_sent: bool  # sent again after a broken connection
    expires_ms: int
    message: bytes
    sinks: list[int]


class PublishedToRouters(NamedTuple):
    """A persistent message of a client that other brokers want, and perhaps mailboxes here."""

    connection: int
    receipt: int
    perhaps_sent: bool
    expires_ms: int
    message: bytes
    sinks: list[int]
    routers: list[int]


class PublishedToScheme(NamedTuple):
    """A message of a client that is not persistent, in a network whose routing scheme carries such messages."""

    connection: int
    receipt: int
    perhaps_sent: bool
    expires_ms: int
    message: bytes
    sinks: list[int]


class Transacted(NamedTuple):
    """A message for later, of a session in a transaction or of any session but 0, or an event of a type."""

    connection: int
    session: int
    receipt: int
    message: bytes


class PublishCheck(NamedTuple):
    """The first message of a client to a destination. Parsing waits for `allow` or `skip`, and then `handled`."""

    connection: int
    session: int
    receipt: int
    queue: bool
    destination: str


class Acknowledged(NamedTuple):
    """Deliveries that a client is done with, or returns; what the flags mean is the protocol's (`Ack.of`)."""

    connection: int
    session: int
    subscription: int
    flags: int
    tags: list[int]


class CreditGiven(NamedTuple):
    """A client takes more of a subscription that is no direct sink."""

    connection: int
    subscription: int
    more: int


class FrameError(NamedTuple):
    """Bytes that break the protocol. Nothing more of this connection is parsed."""

    connection: int
    code: str
    reason: str
    position: int
    receipt: int  # of the message that was wrong, where the protocol has a place for it; 0: none


class SlowConsumer(NamedTuple):
    """A subscription whose policy is `disconnect` has more waiting than it may."""

    connection: int
    subscription: int


class MessagesDropped(NamedTuple):
    """A direct sink's subscriber does not get `dropped` messages, counted since the last such event. The reasons are
    in docs/wire.md, DROPPED."""

    connection: int
    subscription: int
    dropped: int
    reason: str


class MemoryShort(NamedTuple):
    """Memory is short, and this connection has most of it in its output."""

    connection: int


class OutputRoom(NamedTuple):
    """A connection whose output was full has room again."""

    connection: int


class ClockDrift(NamedTuple):
    """The time in a client's message is off by more than `watch_clock` allows; once until that is called again."""

    connection: int
    sent_ms: int


class CongestionChanged(NamedTuple):
    """A subscriber or a link became full of what other brokers send, or has room again; `congestion` says what is full
    now."""

    connection: int


class RemoteMessage(NamedTuple):
    """A message of another broker, not persistent, that mailboxes here want."""

    connection: int
    expires_ms: int
    message: bytes
    sinks: list[int]


class Relayed(NamedTuple):
    """A persistent message of another broker, to be acknowledged by its tag once it is stored."""

    connection: int
    hops: int
    tag: int
    routers: list[int]
    numbers: list[int]  # that the origin gave it for each of the routers
    origin: int
    epoch: int
    repeated: bool  # its publisher may have sent it before
    expires_ms: int
    message: bytes


MessageEvent: TypeAlias = Published | PublishedToRouters | PublishedToScheme | RemoteMessage | Relayed
# About the connection itself, or asked by its client.
ConnectionEvent: TypeAlias = (
    ControlFrame
    | Transacted
    | PublishCheck
    | Acknowledged
    | CreditGiven
    | FrameError
    | SlowConsumer
    | MessagesDropped
    | MemoryShort
    | OutputRoom
    | ClockDrift
)
PlaneEvent: TypeAlias = MessageEvent | ConnectionEvent | CongestionChanged
