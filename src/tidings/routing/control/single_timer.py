"""The one timer of a machine with many deadlines: set only when something is due sooner than it would ring."""

from collections.abc import Iterable

from tidings.overlay.effects import SetTimer
from tidings.routing.effects import Effect


class SingleTimer:
    """
    >>> alarm = SingleTimer("flood")
    >>> alarm.arm(500.0), alarm.arm(900.0), alarm.arm(200.0)
    ([SetTimer(name='flood', at=500.0)], [], [SetTimer(name='flood', at=200.0)])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._at: float | None = None

    def arm(self, at: float | None) -> list[SetTimer]:
        """Ring no later than this; a deadline that moved away costs one ring for nothing."""
        if at is None or (self._at is not None and self._at <= at):
            return []
        self._at = at
        return [SetTimer(self.name, at)]

    def rang(self) -> None:
        self._at = None


def without_timer(name: str, effects: Iterable[Effect]) -> list[Effect]:
    """For a machine whose own clock ticks all the time, and that ticks another one along."""
    return [effect for effect in effects if not (isinstance(effect, SetTimer) and effect.name == name)]
