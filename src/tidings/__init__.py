"""Tidings: a content-based publish/subscribe broker network you can reason about."""

from tidings.client import Client, Delivery, Subscription, connect, sync
from tidings.errors import SelectorError, TidingsError
from tidings.model.selector import Selector

__all__ = [
    "Client",
    "Delivery",
    "Selector",
    "SelectorError",
    "Subscription",
    "TidingsError",
    "__version__",
    "connect",
    "sync",
]

__version__ = "0.1.0"
