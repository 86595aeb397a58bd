import asyncio
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.cli.jsonl import Line, from_json, json_lines, to_json
from tidings.errors import UsageError
from tidings.model.message import Message
from tidings.testing.strategies_model import messages

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["destination", "properties", "body", "body_encoding", "priority", "persistent", "type", "x"])


@given(messages)
def test_what_sub_writes_pub_reads(message: Message) -> None:
    line = from_json(to_json(message, 2), 1)
    assert (line.destination, line.properties, line.body) == (message.destination, message.properties, message.body)
    assert line.fields.get("persistent", False) == message.persistent
    assert line.fields.get("correlation_id") == message.correlation_id


@given(st.one_of(st.text(max_size=20), st.dictionaries(NAMES, JSON, max_size=4).map(json.dumps)))
def test_any_line_is_read_or_refused(text: str) -> None:
    try:
        line = from_json(text, 7)
    except UsageError as error:
        line = None
        assert "line 7: " in error.reason  # noqa: PT017
    assert line is None or isinstance(line, Line)


def lines_of(*chunks: bytes) -> list[Line]:
    async def read() -> list[Line]:
        source, sink = os.pipe()
        try:
            os.write(sink, chunks[0])
            found = []
            lines = json_lines(source)
            for chunk in chunks[1:]:
                found.append(await anext(lines))
                os.write(sink, chunk)
            os.close(sink)
            found += [line async for line in lines]
        finally:
            os.close(source)
        return found

    return asyncio.run(read())


def test_lines_are_handed_on_as_they_come() -> None:
    found = lines_of(b'{"body": "1"}\n{"bo', b'dy": "2"}\n\n{"body": "3"}')
    assert [line.body for line in found] == [b"1", b"2", b"3"]


def test_the_number_of_a_wrong_line_is_told() -> None:
    with pytest.raises(UsageError, match="E_JSONL at 1: line 3: "):
        lines_of(b'{"body": "1"}\n\n{')
    with pytest.raises(UsageError, match="line 1: not UTF-8"):
        lines_of(b"\xff\n")
