"""How many connections there are, in all and by address, against the most that there may be."""

from collections.abc import Callable


class ConnectionLimits:
    """`most`: in all, and of one address; asked each time, so it may change.

    >>> crowd = Crowd(lambda: (3, 1))
    >>> crowd.admit("10.0.0.1"), crowd.admit("10.0.0.1"), crowd.admit("10.0.0.2")
    (True, False, True)
    >>> crowd.leave("10.0.0.1")
    >>> crowd.admit("10.0.0.1")
    True
    """

    def __init__(self, most: Callable[[], tuple[int, int]]) -> None:
        self.refused = 0
        self._most = most
        self._total = 0
        self._by_address: dict[str, int] = {}

    def enter(self, address: str) -> bool:
        """One more, who has to `leave`; returns whether there was room."""
        most, most_at_address = self._most()
        at_address = self._by_address.get(address, 0)
        room = self._total < most and at_address < most_at_address
        self._total += 1
        self._by_address[address] = at_address + 1
        return room

    def admit(self, address: str) -> bool:
        """One more if there is room; otherwise it is not counted but as refused."""
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
