"""Options of reads and writes. Spark passes names without regard to case."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidings.client import sync
from tidings.errors import UsageError
from tidings.model.selector import Selector

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """Address and credentials of the broker."""

    url: str
    user: str = ""
    password: str = ""

    def connect(self) -> sync.Client:
        return sync.connect(self.url, user=self.user, password=self.password)

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
    end: int = 0  # and up to this one; 0: up to the last there is
    partitions: int = PARTITIONS
    batch_messages: int = 0  # at most this many in a micro-batch; 0: no limit
    fail_on_loss: bool = True
    release: bool = True  # what a stream has committed may be forgotten by the broker

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ReadOptions":
        name = given.get("subscription", "")
        if not name:
            raise UsageError("E_SOURCE_OPTION", "subscription: the name of a retained subscription is needed")
        selector = given.get("selector", "")
        Selector(selector)  # refused here, not on a worker
        return cls(
            _access(given),
            name,
            given.get("destination", ""),
            selector,
            _number(given, "ageSeconds", float),
            _number(given, "bytesMax", int),
            _number(given, "startOffset", int),
            _number(given, "endOffset", int),
            _number(given, "partitions", int) or PARTITIONS,
            _number(given, "maxMessagesPerBatch", int),
            _flag(given, "failOnDataLoss", True),
            _flag(given, "release", True),
        )


@dataclass(frozen=True, slots=True)
class WriteOptions:
    access: BrokerAccess
    destination: str = ""  # where to; empty: the column `destination` says
    persistent: bool = True
    write_id: str = ""  # of a batch write: repeated under the same, it happens once

    @classmethod
    def of(cls, given: Mapping[str, str], overwrite: bool) -> "WriteOptions":
        if overwrite:
            raise UsageError("E_SOURCE_MODE", "messages cannot be overwritten: use mode append")
        persistent = _flag(given, "persistent", True)
        return cls(_access(given), given.get("destination", ""), persistent, given.get("writeId", ""))


def _access(given: Mapping[str, str]) -> BrokerAccess:
    url = given.get("url", "tidings://127.0.0.1:7300")
    return BrokerAccess(url, given.get("user", ""), given.get("password", ""))


N = TypeVar("N", int, float)


def _number(given: Mapping[str, str], name: str, kind: type[N]) -> N:
    text = given.get(name, "0")
    try:
        value = kind(text)
    except ValueError:
        value = kind(-1)
    if value < 0:
        raise UsageError("E_SOURCE_OPTION", f"{name}: {text!r} is not a number from 0")
    return value


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError("E_SOURCE_OPTION", f"{name}: true or false, not {text!r}")
    return text == "true"
