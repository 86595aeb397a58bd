import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.broker import logs
from tidings.broker.logs import JsonFormatter, PlainFormatter, note

log = logging.getLogger("tidings.test")


pytestmark = pytest.mark.usefixtures("own_logging")


@given(st.text(), st.text())
def test_one_event_is_one_line(event: str, value: str) -> None:
    record = logging.LogRecord("tidings", logging.INFO, "", 0, event.replace("%", "%%"), (), None)
    record.fields = {"user": value}
    plain, structured = PlainFormatter().format(record), JsonFormatter().format(record)
    assert len(plain.splitlines()) == len(structured.splitlines()) == 1
    assert json.loads(structured)["user"] == value


def test_level_and_form_can_change() -> None:
    stream = io.StringIO()
    logs.set_up("warning", as_json=False, stream=stream)
    note(log, logging.INFO, "unseen")
    note(log, logging.WARNING, "seen", count=3)
    logs.set_up("debug", as_json=True, stream=stream)
    note(log, logging.DEBUG, "also", why="a b")
    first, second = stream.getvalue().splitlines()
    assert first.endswith("Z warning seen count=3")
    assert {"event": "also", "level": "debug", "why": "a b"}.items() <= json.loads(second).items()


def test_an_exception_is_a_field() -> None:
    stream = io.StringIO()
    logs.set_up("info", as_json=True, stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    assert "ValueError: broken" in json.loads(stream.getvalue())["exception"]
