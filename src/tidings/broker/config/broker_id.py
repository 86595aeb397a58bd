"""Chooses and keeps the number of a broker in a self-arranging network, unless `broker.id` sets it.

The number is drawn at random once and kept in the data directory, with the store, whose messages have it in their ids.
Numbers of brokers must differ, and that of one broker must not change: other brokers know it by its number.
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
    """The configuration with the broker's number, and True if that was drawn just now. `keep` writes it."""
    broker, drawn = configuration.broker, False
    number = broker.number
    if not broker.id and configuration.network.overlay == "pan":
        stored = _stored(Path(broker.data) / FILE)
        drawn = stored is None
        number = stored or 1 + secrets.randbelow(NUMBER_MAX)
    return replace(configuration, broker=replace(broker, id=number)), drawn


def keep(data: Path, number: int) -> None:
    """Write the number durably and atomically before it is used: after a power failure it is there or was never used.
    The caller holds the lock of the store."""
    path, new = data / FILE, data / f"{FILE}.new"
    try:
        with new.open("w") as file:
            file.write(f"{number}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync_directory(data)
    except OSError as error:
        raise ConfigError([f"{path}: cannot write this broker's number ({error.strerror})"]) from None


def _stored(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot read this broker's number ({error})"]) from None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= NUMBER_MAX):
        remedy = "restore the file; without it the broker draws another number"
        raise ConfigError([f"{path}: not a broker number from 1 to {NUMBER_MAX}; {remedy}"])
    return int(text)
