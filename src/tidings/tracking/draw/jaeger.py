"""A reconstructed path as Jaeger's query API answers it, which Grafana reads too: a span for each broker and delivery.

Histories tell which way a message went, not how long each step took: all spans begin at the message's own time, and
last a microsecond, the shortest that viewers show. The trace id is the message id.

>>> from tidings.model.message_id import MessageId
>>> from tidings.tracking.trace_answer import Statement
>>> hops = (Hop(1, None, 0.0), Hop(2, 1, 0.0, (Statement("audit", 0.0),)))
>>> (trace,) = to_jaeger(Path(MessageId(7, 1, 1000), True, hops, (), {}, (), 2, 2, entered=(1,)))["data"]
>>> [(span["operationName"], len(span["references"])) for span in trace["spans"]]
[('publish', 0), ('route', 1), ('deliver to audit', 1)]
"""

from typing import Any, TypeAlias

from tidings.tracking.draw.text import notes, printable
from tidings.tracking.query.path import Hop, Path

DURATION_US = 1
Tag: TypeAlias = float | bool | str


def to_jaeger(path: Path) -> dict[str, Any]:
    """The answer to `GET /api/traces/ID`; `data` is empty if no broker has the message."""
    hops = [hop for hop in path.hops if path.confirmed or hop.broker != path.message.broker]
    spans = [span for hop in hops for span in _spans(path, hop)]
    trace = {
        "traceID": str(path.message),
        "spans": spans,
        "processes": {f"p{hop.broker}": {"serviceName": f"broker {hop.broker}", "tags": []} for hop in hops},
        "warnings": notes(path) or None,
    }
    data = [trace] if spans else []
    return {"data": data, "total": len(data), "limit": 0, "offset": 0, "errors": None}


def _spans(path: Path, hop: Hop) -> list[dict[str, Any]]:
    entered = hop.broker in path.entered or (hop.sender is None and hop.broker == path.message.broker)
    tags: dict[str, Tag] = {"false_positive_probability": hop.probability}
    tags |= {"opaque": hop.opaque, "suspect": hop.suspect}
    if entered and path.publisher:
        tags["publisher"] = path.publisher
    name = _number(hop.broker, 0)
    parent = None if hop.sender is None else _number(hop.sender, 0)
    made = [_span(path, hop, name, parent, "publish" if entered else "route", tags)]
    for number, one in enumerate(hop.subscribers, start=1):
        about: dict[str, Tag] = {"subscriber": one.peer, "false_positive_probability": one.probability}
        what = f"deliver to {printable(one.peer)}"
        made.append(_span(path, hop, _number(hop.broker, number), name, what, about))
    return made


def _span(path: Path, hop: Hop, name: str, parent: str | None, operation: str, tags: dict[str, Tag]) -> dict[str, Any]:
    trace = str(path.message)
    above = {"refType": "CHILD_OF", "traceID": trace, "spanID": parent}
    return {
        "traceID": trace,
        "spanID": name,
        "operationName": operation,
        "references": [] if parent is None else [above],
        "startTime": path.message.ms * 1000,
        "duration": DURATION_US,
        "tags": [{"key": key, "type": _type(value), "value": value} for key, value in tags.items()],
        "logs": [],
        "processID": f"p{hop.broker}",
        "warnings": None,
    }


def _number(broker: int, subscriber: int) -> str:
    """A span id: 16 hexadecimal digits, of which all being zero is not allowed."""
    return f"{(broker << 32 | subscriber) or 1:016x}"


def _type(value: object) -> str:
    return "bool" if isinstance(value, bool) else "float64" if isinstance(value, float) else "string"
