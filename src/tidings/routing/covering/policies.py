"""The five policies by name."""

from collections.abc import Callable

from tidings.errors import UsageError
from tidings.routing.covering.active import Active
from tidings.routing.covering.lazy import Lazy
from tidings.routing.covering.packing import Packing
from tidings.routing.covering.policy import Policy
from tidings.routing.covering.selective import Selective, SelectiveOptions

POLICIES: dict[str, Callable[[], Policy]] = {
    "none": Policy,
    "active": Active,
    "lazy": Lazy,
    "packing": Packing,
    "selective": Selective,
}


def make_policy(name: str, options: SelectiveOptions | None = None) -> Policy:
    """A policy; `options` are those of selective pruning."""
    if name not in POLICIES:
        raise UsageError("E_COVERING_POLICY", f"unknown policy {name!r}; use one of {', '.join(POLICIES)}")
    return Selective(options) if name == Selective.name else POLICIES[name]()
