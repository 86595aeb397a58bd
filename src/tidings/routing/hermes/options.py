"""Times of Hermes: how long what a broker was told holds, and how often it is said again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HermesOptions:
    refresh_ms: float = 10_000
    lifetime_ms: float = 35_000  # what is not refreshed for so long is forgotten
    types_ms: float = 86_400_000  # how long a rendezvous node knows a type that nobody speaks of
    settle_ms: float = 20_000  # after a change of the overlay persistent events are kept and looked at again
    handed_max: int = 100_000  # persistent events that are remembered, so that none is handed over twice
