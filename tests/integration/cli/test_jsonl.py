import asyncio
import gc
import json
import math
import os
import threading
import warnings
from contextlib import suppress

import pytest
from hardening.support.strategies_model import messages
from hypothesis import given
from hypothesis import strategies as st

from tidings.cli.jsonl import from_json, json_lines, to_json
from tidings.errors import UsageError
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_json import JsonMessage

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
    assert line is None or isinstance(line, JsonMessage)


def test_infinite_numbers_are_json_too() -> None:
    line = to_json(Message(Destination.parse("a"), {"most": math.inf, "least": -math.inf}), 1)
    strict = json.loads(line, parse_constant=pytest.fail)
    assert strict["properties"] == {"most": {"float": "inf"}, "least": {"float": "-inf"}}
    assert from_json(line, 1).properties == {"most": math.inf, "least": -math.inf}
    for wrong in ('"nan"', '"1"', "[]", "1"):
        with pytest.raises(UsageError, match="property 'x' must be"):
            from_json(f'{{"properties": {{"x": {{"float": {wrong}}}}}}}', 1)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"expires_in": 1e999', "expires_in must be a finite number of seconds"),
        ('"expires_in": 1e300', "expiration_ms must be"),
        ('"properties": {"x": NaN}', "x: "),
        ('"properties": {"x": 9223372036854775808}', "x: "),
        ('"properties": {"JMSx": 1}', "'JMSx' is reserved"),
        ('"priority": 99', "priority must be an integer from 0 to 9"),
        ('"reply_to": "a..b"', "a level is empty"),
    ],
)
def test_what_a_message_cannot_have_is_found_when_the_line_is_read(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"line 7: {reason}"):
        from_json(f"{{{text}}}", 7)


def lines_of(*chunks: bytes) -> list[JsonMessage]:
    async def read() -> list[JsonMessage]:
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


def test_an_input_that_cannot_be_read_is_an_error() -> None:
    async def read() -> list[JsonMessage]:
        source, sink = os.pipe()
        os.close(source)
        try:
            return [line async for line in json_lines(sink)]  # the end to write to
        finally:
            os.close(sink)

    with pytest.raises(UsageError, match="E_INPUT: cannot read the input"):
        asyncio.run(read())


def test_whoever_reads_ahead_ends_with_the_first_error() -> None:
    source, sink = os.pipe()

    def write() -> None:
        with open(sink, "wb") as file, suppress(BrokenPipeError):
            file.write(b"{\n" * (1 << 20))

    async def read() -> None:
        async for _ in json_lines(source):
            pass

    writing = threading.Thread(target=write)
    writing.start()
    before = {one for one in threading.enumerate() if one.name == "input"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UsageError, match="line 1: "):
            asyncio.run(read())
        for one in threading.enumerate():
            if one.name == "input" and one not in before:
                one.join(10)
                assert not one.is_alive()
        gc.collect()
    os.close(source)
    writing.join(10)
