"""Decodes the requests of native frames: the broker's side of `request_encoding`."""

from enum import Enum
from typing import TypeVar

from tidings.delivery.backlog import PRIORITIES, BacklogPosition
from tidings.delivery.mailbox import SlowPolicy
from tidings.errors import RemoteProtocolError
from tidings.model.event_type_json import types_from_json
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.node.clients.subscription_plan import NAME_MAX
from tidings.node.protocol_session import Clock, Hello, Inspect
from tidings.node.requests import (
    AckMode,
    AddType,
    Advertise,
    AdvertiseType,
    Begin,
    Browse,
    Commit,
    CreateQueue,
    DeleteQueue,
    Drain,
    EndConnection,
    FindMessages,
    Forget,
    Identify,
    Keep,
    Linger,
    MakeTemporary,
    Move,
    Purge,
    ReadRetained,
    Recall,
    Release,
    RemoveTemporary,
    RemoveType,
    Request,
    Retain,
    Rollback,
    ShowTypes,
    Subscribe,
    SubscribeWait,
    Sync,
    Trace,
    Unadvertise,
    UnadvertiseType,
    Unsubscribe,
)
from tidings.protocols.native.frames import (
    VERSION,
    FrameType,
    decode_tags,
    field,
    unsigned,
)

READ_BYTES, READ_BYTES_MAX = 1 << 20, 8 << 20  # of one answer to READ, unless a single message is larger

Choice = TypeVar("Choice", bound=Enum)


def decode_request(frame: FrameType, fields: dict[str, Value], session: int) -> Hello | Clock | Inspect | Request:
    """The request that a control frame with these fields makes."""
    receipt = unsigned(fields, "receipt")
    match frame:
        case FrameType.HELLO:
            return _hello(fields)
        case FrameType.SUBSCRIBE:
            return _subscribe(fields, receipt, session)
        case FrameType.UNSUBSCRIBE:
            if durable := field(fields, "durable", str):
                owner = field(fields, "owner", str) if "owner" in fields else None
                return Forget(receipt, durable, bool(field(fields, "shared", str)), field(fields, "look", bool), owner)
            return Unsubscribe(receipt, unsigned(fields, "subscription"), field(fields, "release", bool))
        case FrameType.TRACE:
            return _find_messages(fields, receipt) if "key" in fields else _trace(fields, receipt)
        case FrameType.INSPECT:
            part, containing = field(fields, "part", str) or "overview", field(fields, "containing", str)
            return Inspect(receipt, part, unsigned(fields, "offset"), unsigned(fields, "count"), containing)
        case FrameType.CLOCK:
            return Clock(unsigned(fields, "number"))
        case FrameType.BEGIN:
            return Begin(receipt, session)
        case FrameType.COMMIT:
            number, digest = unsigned(fields, "number", 63), field(fields, "digest", str)
            return Commit(receipt, session, field(fields, "key", str), number, digest)
        case FrameType.RETAIN:
            return _retain(fields, receipt)
        case FrameType.READ:
            return _read(fields, receipt)
        case FrameType.RELEASE:
            up_to, forget = unsigned(fields, "up_to", 63), field(fields, "forget", bool)
            return Release(receipt, field(fields, "name", str), up_to, forget)
        case FrameType.DRAIN:
            return Drain(receipt, unsigned(fields, "subscription"))
        case FrameType.SYNC:
            return Sync(receipt, _choice(fields, "wait", SubscribeWait.BROKER))
        case FrameType.IDENTIFY:
            return Identify(receipt, _client_id(fields))
        case FrameType.TEMPORARY:
            queue = field(fields, "queue", str)
            return RemoveTemporary(receipt, queue) if field(fields, "remove", bool) else MakeTemporary(receipt, queue)
        case FrameType.ROLLBACK:
            return Rollback(receipt, session)
        case FrameType.TYPE:
            return _type_request(fields, receipt)
        case FrameType.KEEP:
            return Keep(receipt, field(fields, "name", str), field(fields, "value", bytes), session)
        case FrameType.RECALL:
            return Recall(receipt, field(fields, "name", str))
        case FrameType.LINGER:
            return _linger(fields, receipt)
        case FrameType.ADVERTISE:
            number = unsigned(fields, "number")
            if field(fields, "withdraw", bool):
                return Unadvertise(receipt, number)
            return Advertise(receipt, number, field(fields, "destination", str), field(fields, "selector", str))
        case _:
            return _administration(frame, fields, receipt)


def _administration(frame: FrameType, fields: dict[str, Value], receipt: int) -> Request:
    if frame is FrameType.DISCONNECT:
        return EndConnection(receipt, unsigned(fields, "connection"))
    queue = field(fields, "queue", str)
    if frame is FrameType.BROWSE:
        after = BacklogPosition(unsigned(fields, "seq", 63), min(unsigned(fields, "priority"), PRIORITIES - 1))
        selector, number = field(fields, "selector", str), unsigned(fields, "subscription")
        return Browse(receipt, number, queue, selector, after, unsigned(fields, "count"))
    if frame is FrameType.CREATE:
        return CreateQueue(receipt, queue)
    if frame is FrameType.DELETE:
        return DeleteQueue(receipt, queue, field(fields, "force", bool))
    tags = decode_tags(field(fields, "tags", bytes))
    if frame is FrameType.MOVE:
        return Move(receipt, queue, field(fields, "target", str), tags)
    return Purge(receipt, queue, tags)


def _trace(fields: dict[str, Value], receipt: int) -> Trace:
    message, everywhere = MessageId.parse(field(fields, "message", str)), field(fields, "everywhere", bool)
    about = (field(fields, name, str) for name in ("why", "destination", "attributes"))
    return Trace(receipt, message, everywhere, *about)


def _find_messages(fields: dict[str, Value], receipt: int) -> FindMessages:
    span = unsigned(fields, "first_ms", 48), unsigned(fields, "last_ms", 48) or 2**48 - 1
    if "value" not in fields:
        raise RemoteProtocolError("E_FRAME_FIELD", "a search for a key needs its value", fatal=False)
    return FindMessages(receipt, field(fields, "key", str), fields["value"], *span, unsigned(fields, "count") or 100)


def _retain(fields: dict[str, Value], receipt: int) -> Retain:
    return Retain(
        receipt,
        field(fields, "name", str),
        field(fields, "destination", str),
        field(fields, "selector", str),
        unsigned(fields, "age_ms", 48),
        unsigned(fields, "bytes_max", 63),
        field(fields, "keep_limits", bool),
        field(fields, "last", bool),
    )


def _linger(fields: dict[str, Value], receipt: int) -> Linger:
    return Linger(
        receipt,
        field(fields, "name", str),
        unsigned(fields, "lifetime_ms", 48),
        field(fields, "will", bytes),
        unsigned(fields, "will_delay_ms", 48),
        unsigned(fields, "will_expiry_ms", 48),
        field(fields, "clear", bool),
    )


def _read(fields: dict[str, Value], receipt: int) -> ReadRetained:
    return ReadRetained(
        receipt,
        field(fields, "name", str),
        unsigned(fields, "after", 63),
        unsigned(fields, "up_to", 63),
        unsigned(fields, "messages"),
        min(unsigned(fields, "bytes_max") or READ_BYTES, READ_BYTES_MAX),
        field(fields, "selector", str),
        field(fields, "strict", bool),
        field(fields, "destination", str),
    )


def _hello(fields: dict[str, Value]) -> Hello:
    version = unsigned(fields, "version")
    if version != VERSION:
        raise RemoteProtocolError("E_VERSION", f"this broker speaks version {VERSION}, not {version}")
    return Hello(
        field(fields, "user", str),
        field(fields, "password", str),
        _client_id(fields),
        unsigned(fields, "heartbeat_ms"),
        unsigned(fields, "time_ms", 48),
        field(fields, "token", str),
    )


def _client_id(fields: dict[str, Value]) -> str:
    client = field(fields, "client", str)
    if len(client) > NAME_MAX or any(character < " " for character in client):
        reason = f"a client id must have at most {NAME_MAX} characters and no control characters"
        raise RemoteProtocolError("E_FRAME_FIELD", reason)
    return client


def _subscribe(fields: dict[str, Value], receipt: int, session: int) -> Subscribe:
    return Subscribe(
        receipt=receipt,
        subscription=unsigned(fields, "subscription"),
        destination=field(fields, "destination", str),
        selector=field(fields, "selector", str),
        ack=_choice(fields, "ack", AckMode.AUTO),
        durable=field(fields, "durable", str),
        shared=field(fields, "shared", str),
        credit=unsigned(fields, "credit"),
        policy=_choice(fields, "policy", SlowPolicy.PUSH_BACK),
        no_local=field(fields, "no_local", bool),
        session=session,
        paused=field(fields, "paused", bool),
        type=field(fields, "type", str),
        exclusive=field(fields, "exclusive", bool),
        wait=_choice(fields, "wait", SubscribeWait.BROKER),
    )


def _choice(fields: dict[str, Value], name: str, default: Choice) -> Choice:
    text = field(fields, name, str)
    if not text:
        return default
    offered = {one.value: one for one in type(default)}
    if text not in offered:
        raise RemoteProtocolError("E_FRAME_FIELD", f"{name} must be one of {', '.join(offered)}", fatal=False)
    return offered[text]


def _type_request(fields: dict[str, Value], receipt: int) -> Request:
    name = field(fields, "name", str)
    match operation := field(fields, "operation", str):
        case "add":
            types = types_from_json(field(fields, "types", str))
            if len(types) != 1:
                raise RemoteProtocolError("E_FRAME_FIELD", "add one event type at a time", fatal=False)
            return AddType(receipt, types[0])
        case "remove":
            return RemoveType(receipt, name)
        case "show":
            return ShowTypes(receipt, name)
        case "advertise":
            return AdvertiseType(receipt, name)
        case "unadvertise":
            return UnadvertiseType(receipt, name)
    raise RemoteProtocolError("E_FRAME_FIELD", f"unknown operation {operation!r} on event types", fatal=False)
