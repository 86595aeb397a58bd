"""Tidings: a content-based publish/subscribe broker network you can reason about.

What is exported is loaded when it is used: the command line must be able to answer Ctrl-C before all of it is there.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_WHERE = {
    "tidings.client": ("Client", "Delivery", "Subscription", "Transaction", "connect"),
    "tidings.errors": (
        "ConnectionLostError",
        "LimitError",
        "RemoteError",
        "SecurityError",
        "SelectorError",
        "TidingsError",
        "UsageError",
    ),
    "tidings.model.destination": ("Destination",),
    "tidings.model.message": ("Message",),
    "tidings.model.selector": ("Selector",),
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names}

if not TYPE_CHECKING:  # a type checker knows the names from above, and would take any other for one of them

    def __getattr__(name: str) -> object:
        if name in ("client", "errors", "model", "sync"):
            return import_module(f"tidings.{name}")
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'tidings' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
