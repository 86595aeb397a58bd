"""Tries a measure that may raise the throughput or harm it, and keeps it only while it does not harm.

Waiting a moment for more input or output makes each unit cheaper where senders are independent, and slows down those
that wait for an answer before they send again. From inside the two cannot be told apart, so the measure is tried:

    off ──after `units` units, if it could pay──► on
     ▲                                             │
     └──the rate fell: twice as long until the ────┘
        next trial; or `PHASES_ON` phases have passed: the rate without it is measured again
"""

PHASES_ON = 64
SAME_RATE = 0.75  # of the rate before: less means that senders wait for the answer


class AdaptiveTrial:
    """One measure. The owner measures a phase of `units` of its own units, then calls `judge`.

    >>> trial = AdaptiveTrial(units_max=8)
    >>> trial.judge(rate=10.0, pays=True)
    >>> trial.on
    True
    >>> trial.judge(rate=2.0, pays=True)
    >>> trial.on, trial.units
    (False, 2)
    """

    def __init__(self, units_max: int, *, enabled: bool = True) -> None:
        self._units_max = units_max
        self._enabled = enabled
        self.reset()

    def reset(self) -> None:
        """Start again: other senders."""
        self.on = False
        self.units = 1  # length of the phase under way
        self._patience = 1
        self._rate = 0.0  # without the measure
        self._phases_left = 0

    def judge(self, rate: float, *, pays: bool) -> None:
        """A phase is over: `rate` is its throughput; `pays` is False if the measure had nothing to work on."""
        if not self.on:
            self._rate = rate
            self.on, self.units = self._enabled and pays, 1
            self._phases_left = PHASES_ON
        elif pays and rate >= self._rate * SAME_RATE:
            self._patience = 1
            self._phases_left -= 1
            self.on = self._phases_left > 0
        else:
            self.on = False
            self.units = self._patience = min(2 * self._patience, self._units_max)
