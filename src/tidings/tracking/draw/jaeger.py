"""A reconstructed path as Jaeger's query API answers it, which Grafana reads too: a span for each broker and delivery.

Histories tell which way a message went, and of each step the time within which it was recorded: that is what a span
shows, with the tag `bounds`. Where no record tells it, a span begins at the message's own time, and lasts a
microsecond, the shortest that viewers show. The trace id is the message id, or the one in the `traceparent`
that several messages have.

>>> from tidings.model.message_id import MessageId
>>> from tidings.tracking.trace_answer import Statement
>>> hops = (Hop(1, None, 0.0), Hop(2, 1, 0.0, (Statement("audit", 0.0),)))
>>> (trace,) = to_jaeger([Path(MessageId(7, 1, 1000), True, hops, (), {}, (), 2, 2, entered=(1,))])["data"]
>>> [(span["operationName"], len(span["references"])) for span in trace["spans"]]
[('publish', 0), ('route', 1), ('deliver to audit', 1)]
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from tidings.model.message_id import MessageId
from tidings.tracking.draw.text import notes, printable
from tidings.tracking.moments import Span
from tidings.tracking.query.path import Hop, Path

DURATION_US = 1
Tag: TypeAlias = float | bool | str


def to_jaeger(paths: Sequence[Path], trace_id: str = "") -> dict[str, Any]:
    """The answer to `GET /api/traces/ID`, of one message or of several that have a trace id in common; `data` is empty
    if no broker has any of them."""
    name = trace_id or (str(paths[0].message) if paths else "")
    of_each = [(path, _hops(path)) for path in paths]
    hops = [hop for _, some in of_each for hop in some]
    spans = [
        span for number, (path, some) in enumerate(of_each) for hop in some for span in _spans(path, hop, name, number)
    ]
    trace = {
        "traceID": name,
        "spans": spans,
        "processes": {f"p{hop.broker}": {"serviceName": f"broker {hop.broker}", "tags": []} for hop in hops},
        "warnings": [note for path in paths for note in notes(path)] or None,
    }
    data = [trace] if spans else []
    return {"data": data, "total": len(data), "limit": 0, "offset": 0, "errors": None}


def _hops(path: Path) -> list[Hop]:
    return [hop for hop in path.hops if path.confirmed or hop.broker != path.message.broker]


def _spans(path: Path, hop: Hop, trace: str, number: int) -> list[dict[str, Any]]:
    """`number`: of the message in its trace; span ids of different messages differ."""
    entered = hop.broker in path.entered or (hop.sender is None and hop.broker == path.message.broker)
    tags: dict[str, Tag] = {"false_positive_probability": hop.probability}
    tags |= {"opaque": hop.opaque, "suspect": hop.suspect}
    if entered and path.publisher:
        tags["publisher"] = path.publisher
    name = _number(hop.broker, number, 0)
    parent = None if hop.sender is None else _number(hop.sender, number, 0)
    about_span = trace, path.message, hop.broker
    made = [_span(*about_span, name, parent, "publish" if entered else "route", tags, hop.between)]
    for place, one in enumerate(hop.subscribers, start=1):
        about: dict[str, Tag] = {"subscriber": one.peer, "false_positive_probability": one.probability}
        what = f"deliver to {printable(one.peer)}"
        made.append(_span(*about_span, _number(hop.broker, number, place), name, what, about, one.between))
    return made


def _span(
    trace: str,
    message: MessageId,
    broker: int,
    name: str,
    parent: str | None,
    operation: str,
    tags: dict[str, Tag],
    between: Span | None,
) -> dict[str, Any]:
    first_ms, last_ms = between or (message.ms, message.ms)
    start_ms = max(first_ms, message.ms)  # nothing happens to a message before it is made, or viewers would be puzzled
    tags = tags | ({} if between is None else {"bounds": "the step happened within this span, by the broker's clock"})
    above = {"refType": "CHILD_OF", "traceID": trace, "spanID": parent}
    return {
        "traceID": trace,
        "spanID": name,
        "operationName": operation,
        "references": [] if parent is None else [above],
        "startTime": start_ms * 1000,
        "duration": max((last_ms - start_ms) * 1000, DURATION_US),
        "tags": [{"key": key, "type": _type(value), "value": value} for key, value in tags.items()],
        "logs": [],
        "processID": f"p{broker}",
        "warnings": None,
    }


def _number(broker: int, message: int, subscriber: int) -> str:
    """A span id: 16 hexadecimal digits, of which all being zero is not allowed."""
    return f"{(broker << 32 | message << 20 | subscriber) or 1:016x}"


def _type(value: object) -> str:
    return "bool" if isinstance(value, bool) else "float64" if isinstance(value, float) else "string"
