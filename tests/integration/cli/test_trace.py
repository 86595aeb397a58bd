"""`tidings trace` and `tidings tracking`, against a real broker process."""

import asyncio
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hardening.support.command import Command
from rich.console import Console

from tidings.cli.trace import TraceForm, as_tree, show
from tidings.client import connect
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.testing.broker_process import BrokerProcess
from tidings.tracking.draw.text import to_text
from tidings.tracking.query.path import Hop
from tidings.tracking.query.path import Path as Route
from tidings.tracking.trace_answer import Statement


async def publish(url: str) -> MessageId:
    async with connect(url, client_id="<me & you>") as client:
        ticks = await client.subscribe("ticks.>")
        sent = await client.publish("ticks.a", {"n": 1}, wait=True)
        assert await ticks.receive(20) is not None
    return sent.message_id


def test_messages_are_found_by_an_attribute_and_by_the_trace_id_of_their_traceparent(
    tmp_path: Path, tidings: Command
) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def publish_some(url: str) -> list[MessageId]:
        async with connect(url, client_id="till") as client:
            _ = await client.subscribe("orders")
            orders: list[dict[str, Value]] = [{"order_id": number} for number in (4711, 4711, 4712)]
            traced: dict[str, Value] = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
            return [(await client.publish("orders", one, wait=True)).message_id for one in (*orders, traced, traced)]

    with BrokerProcess(tmp_path, '[tracking]\nkeys = ["order_id", "traceparent"]\n') as broker:
        ids = asyncio.run(publish_some(broker.url))
        at = ("--url", broker.url)
        status, text, _ = tidings("trace", "--key", "order_id=4711", *at)
        assert status == 0
        assert text.count("▸ till") == 2
        assert str(ids[0]) in text
        assert "found 2 messages with order_id = 4711" in text
        status, text, _ = tidings("trace", "--key", "order_id=4711", "--json", *at)
        found = json.loads(text)
        assert found["messages"] == [str(one) for one in ids[:2]] == [path["message"] for path in found["paths"]]
        assert tidings("trace", "--key", "order_id=4711", "--until", "2020-01-01", *at)[0] == 1
        status, text, _ = tidings("trace", "--key", "customer=7", *at)
        assert (status, "not recorded at broker 1: add 'customer' to [tracking] keys there" in text) == (1, True)
        for wrong in ((), ("--key", "order_id"), (str(ids[0]), "--key", "a=b"), (str(ids[0]), "--since", "2020-01-01")):
            status, _, problem = tidings("trace", *wrong, *at)
            assert (status, "E_TRACE_KEY" in problem) == (2, True)
        status, text, _ = tidings("trace", trace_id, *at)
        assert status == 0
        assert all(str(one) in text for one in ids[3:])
        for path in ("/api/traces/", "/api/v1/traces/"):
            (trace,) = json.loads(broker.get(f"{path}{trace_id}"))["data"]
            assert trace["traceID"] == trace_id
            spans = {span["spanID"]: span["operationName"] for span in trace["spans"]}
            assert sorted(spans.values()) == ["deliver to till"] * 2 + ["publish"] * 2
            assert {span["startTime"] for span in trace["spans"]} == {one.ms * 1000 for one in ids[3:]}
        assert json.loads(broker.get(f"/api/traces/{ids[0]}"))["data"][0]["traceID"] == str(ids[0])
        assert json.loads(broker.get("/api/v1/messages?key=order_id=4712"))["messages"] == [str(ids[2])]


def test_a_trace_in_every_form_and_compaction_afterwards(tmp_path: Path, tidings: Command) -> None:
    with BrokerProcess(tmp_path) as broker:
        message = asyncio.run(publish(broker.url))
        at = ("--url", broker.url)
        status, tree, _ = tidings("trace", message, *at)
        assert status == 0
        assert "broker 1 (origin, 0" in tree
        assert "▸ <me & you> (0" in tree
        for line in tidings("trace", message, "--times", *at)[1].splitlines()[2:4]:
            assert re.search(r", [+−][0-9]+ to [+−][0-9]+ ms\)$", line)
        status, text, _ = tidings("trace", message.jms, "--json", *at)
        found = json.loads(text)
        assert (status, found["confirmed"], found["complete"]) == (0, True, True)
        assert [one["name"] for one in found["hops"][0]["subscribers"]] == ["<me & you>"]
        assert tidings("trace", message, "--dot", *at)[1].startswith("digraph path {")
        assert tidings("trace", message, "--svg", "--output", tmp_path / "path.svg", *at)[0] == 0
        picture = ElementTree.parse(tmp_path / "path.svg")
        assert "<me & you>" in [one.text for one in picture.iter()]
        status, text, _ = tidings("trace", MessageId(9, 1, message.ms), "--json", *at)
        assert (status, json.loads(text)["confirmed"]) == (1, False)
        status, _, problem = tidings("trace", "xyz", *at)
        assert (status, "E_MESSAGE_ID_TEXT" in problem) == (2, True)
        folder = tmp_path / "tidings-data" / "tracking"
        status, _, problem = tidings("tracking", "compact", folder)
        assert (status, "E_STORE_LOCKED" in problem) == (1, True)
        assert broker.stop() == 0
    status, text, _ = tidings("tracking", "compact", folder, "--json")
    assert (status, json.loads(text)["segments_after"]) == (0, 1)
    assert tidings("tracking", "compact", folder)[0] == 0
    assert tidings("tracking", "compact", tmp_path / "nowhere")[0] == 2
    with BrokerProcess(tmp_path) as broker:
        assert tidings("trace", message, "--url", broker.url)[0] == 0


def test_a_folder_without_records_is_not_compacted(tmp_path: Path, tidings: Command) -> None:
    status, _, problem = tidings("tracking", "compact", tmp_path)
    assert status == 2
    assert "E_FOLDER" in problem
    assert not list(tmp_path.iterdir())


def test_a_trace_is_given_in_one_form(tidings: Command) -> None:
    status, _, problem = tidings("trace", "0000000700000001019a3f62547b0000", "--json", "--dot")
    assert status == 2
    assert "--json and --dot exclude each other" in problem


def test_lines_are_not_wrapped_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a subscriber with a long name " * 10
    hop = Hop(7, None, 0.1, (Statement(name, 0.2),))
    show(Route(MessageId(7, 1, 1000), True, (hop,), (), {}, (), 1, 1), TraceForm.TREE)
    assert name in capsys.readouterr().out


def test_the_tree_of_a_path_with_everything_in_it() -> None:
    hops = (Hop(1, None, 0.1, (Statement("a\x1b[31m", 0.2),)), Hop(2, 1, 0.3, suspect=True), Hop(3, 2, 0, opaque=True))
    path = Route(MessageId(7, 1, 1000), False, hops, (Hop(9, None, 0.5),), {4: "no route"}, (5,), 6, 7)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(as_tree(path))
    text = captured.get()
    parts = ("does not confirm", "▸ a�[31m (0.2)", "suspect", "could not say", "false positive: broker 9", "broker 4")
    assert [part for part in parts if part not in text] == []
    assert "\x1b[31m (" not in text


def test_a_terminal_shows_the_same_tree_as_a_pipe() -> None:
    hops = (
        Hop(1, None, 8e-6, (Statement("near", 8e-6),)),
        Hop(2, 1, 8e-6, (Statement("a", 0.0), Statement("b", 0.0))),
        Hop(3, 2, 8e-6, suspect=True),
    )
    path = Route(MessageId(7, 1, 1000), True, hops, (), {4: "no route"}, (), 4, 5)
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(as_tree(path))
    assert [line.rstrip() for line in captured.get().splitlines()] == to_text(path).splitlines()
