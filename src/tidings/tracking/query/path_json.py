"""A reconstructed path as JSON: printed by `tidings trace --json`, and sent by a broker to its client.

>>> path = Path(MessageId(7, 1, 1000), True, (Hop(1, None, 8e-6),), (), {4: "no route"}, (), asked=2, filters=1)
>>> from_json(to_json(path)) == path
True
"""

import json
from typing import Any

from tidings.errors import CodecError, UsageError
from tidings.model.message_id import MessageId
from tidings.tracking.moments import Span
from tidings.tracking.query.path import BrokerReason, Hop, Path
from tidings.tracking.recording.losses import TraceReason
from tidings.tracking.trace_answer import Statement


def to_json(path: Path) -> str:
    return json.dumps(to_dict(path), separators=(",", ":"))


def from_json(text: str) -> Path:
    try:
        found = json.loads(text)
        return Path(
            message=MessageId.parse(str(found["message"])),
            confirmed=bool(found["confirmed"]),
            hops=tuple(map(_hop, found["hops"])),
            false_positives=tuple(map(_hop, found["false_positives"])),
            unasked={int(one["broker"]): str(one["reason"]) for one in found["unasked"]},
            unknown=tuple(map(int, found["unknown"])),
            asked=int(found["asked"]),
            filters=int(found["filters"]),
            entered=tuple(map(int, found["entered"])),
            publisher=str(found["published_by"]),
            reasons=tuple(map(_reason, found["reasons"])),
        )
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise CodecError("E_TRACE_REPORT", f"not a path: {error!r}") from None


def to_dict(path: Path) -> dict[str, object]:
    message = path.message
    return {
        "message": str(message),
        "publisher": message.publisher,
        "origin": message.broker,
        "ms": message.ms,
        "confirmed": path.confirmed,
        "complete": path.complete,
        "hops": [_hop_dict(hop) for hop in path.hops],
        "false_positives": [_hop_dict(hop) for hop in path.false_positives],
        "unasked": [{"broker": broker, "reason": reason} for broker, reason in path.unasked.items()],
        "unknown": list(path.unknown),
        "asked": path.asked,
        "filters": path.filters,
        "entered": list(path.entered),
        "published_by": path.publisher,
        "reasons": [
            {"broker": one.broker, "code": one.reason.code, "detail": one.reason.detail} for one in path.reasons
        ],
    }


def _reason(found: dict[str, Any]) -> BrokerReason:
    return BrokerReason(int(found["broker"]), TraceReason(str(found["code"]), str(found["detail"])))


def _hop_dict(hop: Hop) -> dict[str, object]:
    return {
        "broker": hop.broker,
        "sender": hop.sender,
        "other_senders": list(hop.other_senders),
        "probability": hop.probability,
        "opaque": hop.opaque,
        "suspect": hop.suspect,
        "between_ms": hop.between,
        "subscribers": [
            {"name": one.peer, "probability": one.probability, "between_ms": one.between} for one in hop.subscribers
        ],
    }


def _hop(found: dict[str, Any]) -> Hop:
    return Hop(
        broker=int(found["broker"]),
        sender=None if found["sender"] is None else int(found["sender"]),
        probability=float(found["probability"]),
        subscribers=tuple(
            Statement(str(one["name"]), float(one["probability"]), _span(one)) for one in found["subscribers"]
        ),
        other_senders=tuple(map(int, found["other_senders"])),
        opaque=bool(found["opaque"]),
        suspect=bool(found["suspect"]),
        between=_span(found),
    )


def _span(found: dict[str, Any]) -> Span | None:
    if (between := found.get("between_ms")) is None:
        return None
    first, last = between
    return int(first), int(last)
