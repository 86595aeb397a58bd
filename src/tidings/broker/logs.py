"""Structured logs: an event's name and fields, one line each, for people or as JSON for programs.

No secrets are logged: passwords and keys are in no field. Text from clients is quoted, so that a name with a line
break in it cannot imitate another line.

>>> record = logging.LogRecord("tidings.broker", logging.INFO, "", 0, "login refused", (), None)
>>> record.fields = {"user": "al\\nice", "address": "127.0.0.1"}
>>> PlainFormatter().format(record)[25:]
'info login refused user="al\\\\nice" address=127.0.0.1'
"""

import json
import logging
import re
import sys
import time
from typing import TextIO

_PLAIN = re.compile(r"[A-Za-z0-9_./:@+%,*-]+")
ROOT, LOOP = logging.getLogger("tidings"), logging.getLogger("asyncio")


def note(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log an event."""
    logger.log(level, event, extra={"fields": fields})


def _time(record: logging.LogRecord) -> str:
    clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{clock}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info:
        fields["exception"] = logging.Formatter().formatException(record.exc_info)
    return fields


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = [f"{name}={_quoted(value)}" for name, value in _fields(record).items()]
        event = record.getMessage()
        if not event.isprintable():
            event = json.dumps(event)
        return " ".join([_time(record), record.levelname.lower(), event, *parts])


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head = {"time": _time(record), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**head, **_fields(record)}, default=str)


def _quoted(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


def set_up(level: str, *, as_json: bool, stream: TextIO | None = None) -> None:
    """Log to the error output; may be called again to change level and format."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    for logger in (ROOT, LOOP):
        logger.handlers[:] = [handler]
        logger.propagate = False
    ROOT.setLevel(level.upper())
    LOOP.setLevel(logging.WARNING)


def set_up_for_parent() -> None:
    """Log everything in this process as JSON lines, which the broker that started it reads and logs itself."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    everything = logging.getLogger()
    everything.handlers[:] = [handler]
    everything.setLevel(logging.WARNING)
    logging.captureWarnings(True)
