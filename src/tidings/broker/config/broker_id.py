"""The number of a broker whose network arranges itself: unless `broker.id` says one it is drawn, once, and kept.

It is kept in the data directory, with the store, whose messages have it in their ids. Numbers of brokers must differ,
and that of one must stay: others know it by that.
"""

import os
import secrets
from dataclasses import replace
from pathlib import Path

from tidings.broker.config.tables import Configuration
from tidings.errors import ConfigError
from tidings.segments.durable import sync_directory

FILE = "broker-id"
NUMBER_MAX = 0xFFFF_FFFF


def numbered(configuration: Configuration) -> tuple[Configuration, bool]:
    """With the broker's number, and whether that was drawn just now. Nothing is written: `keep` does that."""
    broker, drawn = configuration.broker, False
    number = broker.number
    if not broker.id and configuration.network.overlay == "pan":
        stored = _stored(Path(broker.data) / FILE)
        drawn = stored is None
        number = stored or 1 + secrets.randbelow(NUMBER_MAX)
    return replace(configuration, broker=replace(broker, id=number)), drawn


def keep(data: Path, number: int) -> None:
    """Durably and as a whole, before anybody hears of the number: after a power failure it is there or was never used.
    Whoever calls holds the lock of the store."""
    path, new = data / FILE, data / f"{FILE}.new"
    try:
        with new.open("w") as file:
            file.write(f"{number}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync_directory(data)
    except OSError as error:
        raise ConfigError([f"{path}: this broker's number cannot be written ({error.strerror})"]) from None


def _stored(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: this broker's number cannot be read ({error})"]) from None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= NUMBER_MAX):
        remedy = "put back what was there; without the file the broker draws another number"
        raise ConfigError([f"{path}: this is not the number of a broker, 1 to {NUMBER_MAX}; {remedy}"])
    return int(text)
