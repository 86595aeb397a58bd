"""What comes from the sockets of clients, as far as that needs no line of Python (native/bindings/intake.cpp)."""

from collections.abc import Callable

from tidings._kernel import Intake, Pace
from tidings.kernel.forwarder import Forwarder

__all__ = ["Intake", "Pace", "open_intake"]


def open_intake(forwarder: Forwarder, pace: Pace, rest: Callable[[int, bool, int], None]) -> Intake:
    """Of one client. `rest` is told what a read has left to do: flags, whether it was small, the pause before it."""
    return Intake(forwarder, pace, rest)
