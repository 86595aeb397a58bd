"""Pan: a structured overlay that arranges itself; Pastry's routing with what Hermes needs on top (docs/hermes.md)."""

from tidings.overlay.pan.ids import EXPERIMENT_IDS, NETWORK_IDS, Contact, IdSpace
from tidings.overlay.pan.machine import Pan, PanOptions

__all__ = ["EXPERIMENT_IDS", "NETWORK_IDS", "Contact", "IdSpace", "Pan", "PanOptions"]
