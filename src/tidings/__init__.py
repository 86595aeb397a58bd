"""Tidings: a content-based publish/subscribe broker network you can reason about."""

from tidings.errors import SelectorError, TidingsError
from tidings.model.selector import Selector

__all__ = ["Selector", "SelectorError", "TidingsError"]

__version__ = "0.1.0"
