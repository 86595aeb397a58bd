"""Encodes requests as native frames: the client's side of `NativeSession.receive`."""

from typing import TypeAlias, assert_never

from tidings.errors import UsageError
from tidings.model.event_type_json import types_to_json
from tidings.model.values import Value
from tidings.node.protocol_session import Hello
from tidings.node.requests import (
    Ack,
    AddType,
    Advertise,
    AdvertiseType,
    Begin,
    Browse,
    Commit,
    CreateQueue,
    Credit,
    DeleteQueue,
    Drain,
    EndConnection,
    FindMessages,
    Forget,
    Identify,
    Keep,
    Leave,
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
    Sync,
    Trace,
    Unadvertise,
    UnadvertiseType,
    Unsubscribe,
)
from tidings.protocols.native.frames import (
    ACK_CUMULATIVE,
    ACK_ELSEWHERE,
    ACK_WITH_COMMIT,
    VERSION,
    FrameType,
    control,
    encode_ack,
    encode_credit,
    encode_tags,
)


def encode_hello(hello: Hello) -> bytes:
    fields: dict[str, Value] = {"version": VERSION, "user": hello.user, "password": hello.password}
    fields |= {"client": hello.client_id, "heartbeat_ms": hello.heartbeat_ms, "time_ms": hello.time_ms}
    return control(FrameType.HELLO, fields)


def encode_request(request: Request) -> bytes:
    """The frame that asks for this; E_REQUEST_FORM if native frames have no way to say it."""
    if isinstance(request, Ack):
        return _ack(request)
    if isinstance(request, Credit):
        return encode_credit(request.subscription, request.more)
    if isinstance(request, Subscribe):
        return _subscribe(request)
    if isinstance(request, Begin):
        return control(FrameType.BEGIN, {"receipt": request.receipt}, session=request.session)
    if isinstance(request, Rollback):
        return control(FrameType.ROLLBACK, {"receipt": request.receipt}, session=request.session)
    if isinstance(request, Commit):
        return _commit(request)
    if isinstance(request, Keep):
        record: dict[str, Value] = {"receipt": request.receipt, "name": request.name}
        record |= {"value": request.value} if request.value else {}
        return control(FrameType.KEEP, record, session=request.session)
    if isinstance(request, Leave):
        raise UsageError("E_REQUEST_FORM", f"native frames cannot ask for {request}")
    type, fields = _plain(request)
    return control(type, {"receipt": request.receipt, **fields})


def _commit(asked: Commit) -> bytes:
    _only_stomp(asked.drops_late or asked.or_leaves, asked)
    fields: dict[str, Value] = {"receipt": asked.receipt, "key": asked.key, "number": asked.number}
    fields |= {"digest": asked.digest} if asked.digest else {}
    return control(FrameType.COMMIT, fields, session=asked.session)


TypeRequest: TypeAlias = AddType | RemoveType | ShowTypes | AdvertiseType | UnadvertiseType
QueueRequest: TypeAlias = Browse | Purge | Move | CreateQueue | DeleteQueue | EndConnection
PlainRecordRequest: TypeAlias = Recall | Linger
RetainedRequest: TypeAlias = Retain | ReadRetained | Release
SubscriptionRequest: TypeAlias = Unsubscribe | Forget | Drain | Advertise | Unadvertise
ConnectionRequest: TypeAlias = Identify | MakeTemporary | RemoveTemporary | Sync | Trace | FindMessages
Form: TypeAlias = tuple[FrameType, dict[str, Value]]


def _plain(
    request: TypeRequest
    | QueueRequest
    | RetainedRequest
    | SubscriptionRequest
    | ConnectionRequest
    | PlainRecordRequest,
) -> Form:
    """Frame type and fields of a request that has only a receipt beside them."""
    match request:
        case Unsubscribe() | Forget() | Drain() | Advertise() | Unadvertise():
            return _of_subscription(request)
        case Browse() | Purge() | Move() | CreateQueue() | DeleteQueue() | EndConnection():
            return _of_queue(request)
        case Retain() | ReadRetained() | Release():
            return _retained(request)
        case AddType() | RemoveType() | ShowTypes() | AdvertiseType() | UnadvertiseType():
            return FrameType.TYPE, _of_type(request)
        case Identify(_, client_id):
            return FrameType.IDENTIFY, {"client": client_id}
        case MakeTemporary(_, queue):
            return FrameType.TEMPORARY, {"queue": queue}
        case RemoveTemporary(_, queue):
            return FrameType.TEMPORARY, {"queue": queue, "remove": True}
        case Sync():
            return FrameType.SYNC, {}
        case Recall(_, name):
            return FrameType.RECALL, {"name": name}
        case Linger(_, name, lifetime_ms, will, will_delay_ms, will_expiry_ms, clear):
            times: dict[str, Value] = {"will_delay_ms": will_delay_ms, "will_expiry_ms": will_expiry_ms}
            fields: dict[str, Value] = {"name": name, "lifetime_ms": lifetime_ms, "clear": clear, **times}
            return FrameType.LINGER, {**fields, "will": will} if will else fields
        case Trace(_, message, everywhere, why, destination, attributes):
            about: dict[str, Value] = {"why": why, "destination": destination, "attributes": attributes}
            return FrameType.TRACE, {"message": str(message), "everywhere": everywhere, **about}
        case FindMessages(_, name, value, first_ms, last_ms, count):
            span: dict[str, Value] = {"first_ms": first_ms, "last_ms": last_ms, "count": count}
            return FrameType.TRACE, {"key": name, "value": value, **span}
        case _:
            assert_never(request)


def _of_subscription(request: SubscriptionRequest) -> Form:
    match request:
        case Unsubscribe(_, subscription, release):
            return FrameType.UNSUBSCRIBE, {"subscription": subscription, "release": release}
        case Forget(_, durable, shared, look, owner):
            fields: dict[str, Value] = {"durable": durable, "shared": "shared" if shared else "", "look": look}
            return FrameType.UNSUBSCRIBE, fields if owner is None else {**fields, "owner": owner}
        case Drain(_, subscription):
            return FrameType.DRAIN, {"subscription": subscription}
        case Advertise(_, number, destination, selector):
            return FrameType.ADVERTISE, {"number": number, "destination": destination, "selector": selector}
        case Unadvertise(_, number):
            return FrameType.ADVERTISE, {"number": number, "withdraw": True}
        case _:
            assert_never(request)


def _of_queue(request: QueueRequest) -> Form:
    match request:
        case Browse(_, subscription, queue, selector, after, count):
            place = {"seq": after.seq, "priority": after.priority, "count": count}
            return FrameType.BROWSE, {"subscription": subscription, "queue": queue, "selector": selector, **place}
        case Purge(_, queue, tags):
            return FrameType.PURGE, {"queue": queue, "tags": encode_tags(tags)}
        case Move(_, queue, target, tags):
            return FrameType.MOVE, {"queue": queue, "target": target, "tags": encode_tags(tags)}
        case CreateQueue(_, queue):
            return FrameType.CREATE, {"queue": queue}
        case DeleteQueue(_, queue, force):
            return FrameType.DELETE, {"queue": queue, "force": force}
        case EndConnection(_, connection):
            return FrameType.DISCONNECT, {"connection": connection}
        case _:
            assert_never(request)


def _of_type(request: TypeRequest) -> dict[str, Value]:
    match request:
        case AddType(_, event_type):
            return {"operation": "add", "types": types_to_json([event_type])}
        case RemoveType(_, name):
            return {"operation": "remove", "name": name}
        case ShowTypes(_, name):
            return {"operation": "show", "name": name}
        case AdvertiseType(_, name):
            return {"operation": "advertise", "name": name}
        case UnadvertiseType(_, name):
            return {"operation": "unadvertise", "name": name}
        case _:
            assert_never(request)


def _ack(ack: Ack) -> bytes:
    _only_stomp(bool(ack.receipt), ack)
    flags = ack.verdict.value | (ACK_CUMULATIVE if ack.cumulative else 0)
    flags |= (ACK_ELSEWHERE if ack.elsewhere else 0) | (ACK_WITH_COMMIT if ack.with_commit else 0)
    return encode_ack(ack.subscription, ack.tags, flags, session=ack.session)


def _subscribe(asked: Subscribe) -> bytes:
    _only_stomp(asked.window or asked.temporary, asked)
    fields: dict[str, Value] = {
        "receipt": asked.receipt,
        "subscription": asked.subscription,
        "destination": asked.destination,
        "selector": asked.selector,
        "ack": asked.ack.value,
        "durable": asked.durable,
        "shared": asked.shared,
        "credit": asked.credit,
        "policy": asked.policy.value,
        "no_local": asked.no_local,
        "paused": asked.paused,
        "type": asked.type,
        "exclusive": asked.exclusive,
        "wait": asked.wait.value,
    }
    return control(FrameType.SUBSCRIBE, fields, session=asked.session)


def _retained(request: RetainedRequest) -> Form:
    match request:
        case Retain(_, name, destination, selector, age_ms, bytes_max, keep_limits, last):
            limits: dict[str, Value] = {"age_ms": age_ms, "bytes_max": bytes_max, "keep_limits": keep_limits}
            limits["last"] = last
            return FrameType.RETAIN, {"name": name, "destination": destination, "selector": selector, **limits}
        case ReadRetained(_, name, after, up_to, messages, bytes_max, selector, strict, destination):
            bounds: dict[str, Value] = {"after": after, "up_to": up_to, "messages": messages, "bytes_max": bytes_max}
            return FrameType.READ, {
                "name": name,
                "selector": selector,
                "strict": strict,
                "destination": destination,
                **bounds,
            }
        case Release(_, name, up_to, forget):
            return FrameType.RELEASE, {"name": name, "up_to": up_to, "forget": forget}
        case _:
            assert_never(request)


def _only_stomp(asked: bool, request: Request) -> None:
    if asked:
        raise UsageError("E_REQUEST_FORM", f"native frames cannot ask for {request}")
