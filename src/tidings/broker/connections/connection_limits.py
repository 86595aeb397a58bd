"""Counts connections in total and per address and enforces the limits."""

from collections.abc import Callable


class ConnectionLimits:
    """`most`: the limits in total and per address; read each time, so they may change.

    >>> limits = ConnectionLimits(lambda: (3, 1))
    >>> limits.admit("10.0.0.1"), limits.admit("10.0.0.1"), limits.admit("10.0.0.2")
    (True, False, True)
    >>> limits.leave("10.0.0.1")
    >>> limits.admit("10.0.0.1")
    True
    """

    def __init__(self, most: Callable[[], tuple[int, int]]) -> None:
        self.refused = 0
        self._most = most
        self._total = 0
        self._by_address: dict[str, int] = {}

    def enter(self, address: str) -> bool:
        """Count a connection, which must `leave` in any case; returns False if that exceeds a limit."""
        most, most_at_address = self._most()
        at_address = self._by_address.get(address, 0)
        room = self._total < most and at_address < most_at_address
        self._total += 1
        self._by_address[address] = at_address + 1
        return room

    def admit(self, address: str) -> bool:
        """Count a connection if the limits allow it, otherwise count a refusal."""
        if self.enter(address):
            return True
        self.leave(address)
        self.refused += 1
        return False

    def leave(self, address: str) -> None:
        self._total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
