"""Hermes: typed events, routed by rendezvous nodes of a structured overlay (docs/hermes.md)."""

from tidings.routing.hermes.machine import Hermes
from tidings.routing.hermes.options import HermesOptions

__all__ = ["Hermes", "HermesOptions"]
