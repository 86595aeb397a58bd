"""Input from the sockets of clients, as far as it needs no Python code (native/bindings/client_input.cpp)."""

from collections.abc import Callable

from tidings._kernel import ClientInput, Pace, wait_bounds
from tidings.kernel.forwarder import Forwarder

__all__ = ["ClientInput", "Pace", "open_client_input", "wait_bounds"]


def open_client_input(forwarder: Forwarder, pace: Pace, rest: Callable[[int, bool, int], None]) -> ClientInput:
    """Opens the input of one client. `rest` is called with what a read has left to do: flags, whether it was small, the
    pause before it."""
    return ClientInput(forwarder, pace, rest)
