"""Options of reads and writes. Spark passes names without regard to case; unknown names are refused."""

import ssl
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from tidings.client import sync
from tidings.errors import ConnectionLostError, UsageError
from tidings.model.selector import Selector

PARTITIONS = 4
RETRY_SECONDS = 300.0  # a broker that restarts, or another that takes its place
TRANSACTION_BYTES = 32 << 20
PAUSE_SECONDS = 0.5
ACCESS = ("url", "user", "password", "retrySeconds", "tlsCa", "tlsCertificate", "tlsKey")
READ = (
    *ACCESS,
    *("subscription", "destination", "selector", "ageSeconds", "bytesMax", "startOffset", "endOffset", "startTime"),
    *("endTime", "partitions", "maxMessagesPerBatch", "failOnDataLoss", "release", "eventType"),
)
WRITE = (*ACCESS, "destination", "persistent", "writeId", "transactionBytes")
SPARK = ("path", "checkpointlocation", "queryname")  # of Spark itself, which passes them on
EARLIEST, LATEST = "earliest", "latest"

T = TypeVar("T")
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """Address and credentials of the broker, and the time for which connecting is tried."""

    url: str
    user: str = ""
    password: str = ""
    retry_seconds: float = RETRY_SECONDS
    tls_ca: str = ""  # files that workers have too
    tls_certificate: str = ""
    tls_key: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "BrokerAccess":
        retry = _number(given, "retrySeconds", float) if given.get("retrySeconds") else RETRY_SECONDS
        tls = [given.get(name, "") for name in ("tlsCa", "tlsCertificate", "tlsKey")]
        if tls[2] and not tls[1]:
            raise UsageError("E_SOURCE_OPTION", "tlsKey: set tlsCertificate too")
        url = given.get("url", "tidings://127.0.0.1:7300")
        if any(tls) and not url.startswith("tidings+tls://"):
            raise UsageError("E_SOURCE_OPTION", "tlsCa, tlsCertificate and tlsKey need a url with tidings+tls://")
        return cls(url, given.get("user", ""), given.get("password", ""), retry, *tls)

    def connect(self) -> sync.Client:
        """A connected client; tried again while the broker cannot be reached."""
        return self.patiently(lambda: sync.connect(self.url, **self.arguments()))

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `connect`."""
        named: dict[str, Any] = {"user": self.user, "password": self.password} if self.user else {}
        if self.tls_ca or self.tls_certificate:
            context = ssl.create_default_context(cafile=self.tls_ca or None)
            if self.tls_certificate:
                context.load_cert_chain(self.tls_certificate, self.tls_key or None)
            named["tls"] = context
        return named | {"give_up_seconds": max(self.retry_seconds, 1.0)}

    def patiently(self, work: Callable[[], T]) -> T:
        """Repeats work that failed because the broker could not be reached, for `retry_seconds`."""
        deadline = time.monotonic() + self.retry_seconds
        while True:
            try:
                return work()
            except ConnectionLostError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_SECONDS)

    def __repr__(self) -> str:
        return f"BrokerAccess({self.url!r}, {self.user!r})"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    access: BrokerAccess
    subscription: str  # name of what the broker retains
    destination: str = ""  # make it, if it is not there
    selector: str = ""
    age_seconds: float = 0.0
    bytes_max: int = 0
    start: int = 0  # offsets above this one
    from_latest: bool = False  # start above the last offset there is
    end: int = 0  # and up to this one; 0: up to the last there is
    partitions: int = PARTITIONS
    batch_messages: int = 0  # at most this many in a micro-batch; 0: no limit
    fail_on_loss: bool = True
    release: bool = False  # the broker may delete what a stream has committed

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ReadOptions":
        refuse_unknown(given, READ)
        name = given.get("subscription", "")
        if not name:
            raise UsageError("E_SOURCE_OPTION", "subscription: set it to the name of a retained subscription")
        selector, release = given.get("selector", ""), _flag(given, "release", False)
        Selector(selector)  # refused here, not on a worker
        if release and (selector or given.get("startTime") or given.get("endTime")):
            reason = "release: it would delete messages that the selector or the times leave out; remove one of them"
            raise UsageError("E_SOURCE_OPTION", reason)
        starting, ending = given.get("startOffset", EARLIEST), given.get("endOffset", LATEST)
        return cls(
            BrokerAccess.of(given),
            name,
            given.get("destination", ""),
            joined(selector, between(_moment(given, "startTime"), _moment(given, "endTime"))),
            _number(given, "ageSeconds", float),
            _number(given, "bytesMax", int),
            0 if starting in (EARLIEST, LATEST) else _number(given, "startOffset", int),
            starting == LATEST,
            0 if ending == LATEST else _number(given, "endOffset", int),
            _number(given, "partitions", int) or PARTITIONS,
            _number(given, "maxMessagesPerBatch", int),
            _flag(given, "failOnDataLoss", True),
            release,
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    access: BrokerAccess
    destination: str = ""  # where to; empty: the column `destination` says
    persistent: bool = True
    write_id: str = ""  # of a batch write: repeated under the same, it happens once
    transaction_bytes: int = TRANSACTION_BYTES

    @classmethod
    def of(cls, given: Mapping[str, str], overwrite: bool) -> "WriteOptions":
        refuse_unknown(given, WRITE)
        if overwrite:
            raise UsageError("E_SOURCE_MODE", "messages cannot be overwritten: use mode append")
        size = _number(given, "transactionBytes", int) or TRANSACTION_BYTES
        persistent = _flag(given, "persistent", True)
        where, write_id = given.get("destination", ""), given.get("writeId", "")
        return cls(BrokerAccess.of(given), where, persistent, write_id, size)


def refuse_unknown(given: Mapping[str, str], known: Collection[str]) -> None:
    """
    >>> refuse_unknown({"URL": "x", "startofset": "7"}, ("url", "startOffset"))
    Traceback (most recent call last):
    tidings.errors.UsageError: E_SOURCE_OPTION: startofset: unknown option; known options are startOffset, url
    """
    names = {name.lower() for name in (*known, *SPARK)}
    unknown = sorted(name for name in given if name.lower() not in names)
    if unknown:
        known_text = ", ".join(sorted(known))
        raise UsageError("E_SOURCE_OPTION", f"{', '.join(unknown)}: unknown option; known options are {known_text}")


def joined(*selectors: str) -> str:
    """
    >>> joined("a = 1 OR b = 2", "", "c > 3")
    '(a = 1 OR b = 2) AND (c > 3)'
    """
    texts = [one for one in selectors if one.strip()]
    return texts[0] if len(texts) == 1 else " AND ".join(f"({one})" for one in texts)


def between(start_ms: int | None, end_ms: int | None) -> str:
    """A selector for the time in a message's id, from the start and before the end.

    >>> between(5, None), between(5, 9)
    ('JMSTimestamp >= 5', 'JMSTimestamp >= 5 AND JMSTimestamp < 9')
    """
    bounds = [("JMSTimestamp >= {}", start_ms), ("JMSTimestamp < {}", end_ms)]
    return " AND ".join(form.format(ms) for form, ms in bounds if ms is not None)


def _moment(given: Mapping[str, str], name: str) -> int | None:
    """Milliseconds since 1970; a time without a zone is UTC."""
    text = given.get(name, "")
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError("E_SOURCE_OPTION", f"{name}: {text!r} must be a time such as 2026-11-15T09:30:00Z") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _number(given: Mapping[str, str], name: str, kind: type[N]) -> N:
    text = given.get(name, "0")
    try:
        value = kind(text)
    except ValueError:
        value = kind(-1)
    if not value >= 0:
        words = {"startOffset": f", {EARLIEST} or {LATEST}", "endOffset": f" or {LATEST}"}.get(name, "")
        raise UsageError("E_SOURCE_OPTION", f"{name}: must be a number of at least 0{words}, not {text!r}")
    return value


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError("E_SOURCE_OPTION", f"{name}: must be true or false, not {text!r}")
    return text == "true"
