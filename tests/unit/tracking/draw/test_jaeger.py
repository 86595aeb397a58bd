"""Traces in the form of Jaeger's query API (model `ui.Trace`), which its own viewer and Grafana read."""

from tidings.model.message_id import MessageId
from tidings.tracking.draw.jaeger import to_jaeger
from tidings.tracking.query.path import Hop, Path
from tidings.tracking.trace_answer import Statement

MESSAGE = MessageId(7, 1, 1_762_000_000_123)


def test_a_span_for_each_broker_and_delivery() -> None:
    hops = (
        Hop(1, None, 1e-5, (Statement("near", 0.0),)),
        Hop(2, 1, 1e-5, (Statement("a", 0.0), Statement("b\x1b", 2e-5)), suspect=False),
    )
    path = Path(MESSAGE, True, hops, (), {4: "no route"}, (), 3, 5, entered=(1,), publisher="user 'ann'")
    answer = to_jaeger([path])
    (trace,) = answer["data"]
    assert (answer["total"], answer["errors"], trace["traceID"]) == (1, None, str(MESSAGE))
    assert trace["warnings"] == ["not asked: broker 4 (no route)"]
    spans = {span["spanID"]: span for span in trace["spans"]}
    assert len(spans) == len(trace["spans"]) == 5
    assert [span["operationName"] for span in trace["spans"]] == [
        "publish",
        "deliver to near",
        "route",
        "deliver to a",
        "deliver to b\ufffd",
    ]
    for span in trace["spans"]:
        assert span["traceID"] == str(MESSAGE)
        assert span["startTime"] == MESSAGE.ms * 1000
        assert span["processID"] in trace["processes"]
        assert len(bytes.fromhex(span["spanID"])) == 8
        assert all(above["spanID"] in spans for above in span["references"])
        assert {tag["type"] for tag in span["tags"]} <= {"string", "bool", "float64"}
    first = {tag["key"]: tag["value"] for tag in trace["spans"][0]["tags"]}
    assert first["publisher"] == "user 'ann'"


def test_a_message_that_nobody_has_is_no_trace() -> None:
    denied = Path(MESSAGE, False, (Hop(1, None, 0.0),), (), {}, (), 1, 0)
    assert to_jaeger([denied])["data"] == []
