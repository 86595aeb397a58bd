"""Tidings: a content-based publish/subscribe broker network you can reason about."""

from tidings import sync
from tidings.client import Client, Delivery, Subscription, Transaction, connect
from tidings.errors import (
    ConnectionLostError,
    LimitError,
    RemoteError,
    SecurityError,
    SelectorError,
    TidingsError,
    UsageError,
)
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.selector import Selector

__all__ = [
    "Client",
    "ConnectionLostError",
    "Delivery",
    "Destination",
    "LimitError",
    "Message",
    "RemoteError",
    "SecurityError",
    "Selector",
    "SelectorError",
    "Subscription",
    "TidingsError",
    "Transaction",
    "UsageError",
    "__version__",
    "connect",
    "sync",
]

__version__ = "0.1.0"
