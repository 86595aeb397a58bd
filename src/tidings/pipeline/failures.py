"""Errors from inside Spark in one line, instead of the nested stack traces of two languages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tidings.errors import TidingsError

_OURS = re.compile(r"^tidings\.errors\.\w+: (E_\w+)(?: at \d+)?: (.+)$", re.MULTILINE)
_JAVA = re.compile(r"^(?:Caused by)?: ([\w.$]+): (.+)$", re.MULTILINE)
_WORKER = re.compile(r"^(\w[\w.]*(?:Error|Exception)\b.*)$", re.MULTILINE)  # the last line of a stack of Python's


def plain(error: Exception) -> TidingsError:
    """A Tidings error raised on a worker becomes that error; of all others the root cause is reported.

    >>> text = "o7.parquet.\\n: org.SparkException: it failed\\n\\tat x\\nCaused by: java.io.IOException: no room"
    >>> print(plain(PySparkException(text)))
    E_SPARK: no room (java.io.IOException)
    """
    text = str(error)
    if ours := _OURS.findall(text):
        return TidingsError(*ours[-1])
    if java := _JAVA.findall(text):
        kind, reason = java[-1]
        return TidingsError("E_SPARK", f"{reason.strip()} ({kind})")
    if worker := _WORKER.findall(text):
        return TidingsError("E_SPARK", worker[-1])
    return TidingsError("E_SPARK", text.strip().partition("\n")[0] or type(error).__name__)


@contextmanager
def plainly() -> Iterator[None]:
    """Converts errors of Spark for display in a terminal; stack traces are in Spark's own log."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise plain(error) from error
