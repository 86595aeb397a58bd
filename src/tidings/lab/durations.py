"""Estimates the duration of measurements from their workload, until measured durations are known.

The guess is for an ordinary machine: the shortest run that counts, some time more, and what it takes to connect and to
subscribe. It is there to be told before the start and for the progress bar. Runs that were made are believed instead,
also those of another round or another start; what has not been run takes so much longer than the guess as what has.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidings.lab.experiment import RUNS_LONG, Experiment, ExperimentPoint
from tidings.lab.workloads import SETUPS, Registration


@dataclass(frozen=True, slots=True)
class Guess:
    """In seconds."""

    start: float  # and warming
    steady: float  # more than the shortest run, until steady and known
    connection: float
    subscription: float


GUESSES = {"tidings": Guess(2.0, 0.25, 0.0003, 0.0001), "activemq": Guess(18.0, 0.7, 0.002, 0.0002)}
TRUSTED_S = 60.0
SPECIAL_S = {"first-message": 4.0, "waiting": 3.0}


class Durations:
    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self._measures = {one.name: one.measure for one in experiments}
        self._guesses: dict[str, float] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._shortest: dict[str, float] = {}
        self._sums: dict[str, tuple[float, float]] = {}  # by server: seconds seen, and those guessed for the same runs

    def learn(self, point: ExperimentPoint, seconds: float) -> None:
        """From one run."""
        count, total = self._seen.get(point.name, (0, 0.0))
        self._seen[point.name] = count + 1, total + seconds
        self._shortest[point.name] = min(seconds, self._shortest.get(point.name, seconds))
        seen, guessed = self._sums.get(point.server, (0.0, 0.0))
        self._sums[point.server] = seen + seconds, guessed + self._guessed(point)

    def runs(self, point: ExperimentPoint, runs: int) -> int:
        """Number of runs to make: fewer of those that take long."""
        long_s = self._measures[point.experiment].long_s
        return min(runs, RUNS_LONG) if long_s and self._shortest.get(point.name, self.of(point)) > long_s else runs

    def of(self, point: ExperimentPoint) -> float:
        """One run."""
        if point.name in self._seen:
            count, total = self._seen[point.name]
            return total / count
        seen, guessed = self._sums.get(point.server, (0.0, 0.0))
        # As if the first minute had been guessed right: a few short runs say little of all others.
        return self._guessed(point) * (seen + TRUSTED_S) / (guessed + TRUSTED_S)

    def start(self, server: str) -> float:
        return GUESSES[server].start

    def _guessed(self, point: ExperimentPoint) -> float:
        name = point.name
        if name not in self._guesses:
            self._guesses[name] = self._guess(point)
        return self._guesses[name]

    def _guess(self, point: ExperimentPoint) -> float:
        guess = GUESSES[point.server]
        if point.kind == "registration":
            return 0.3 + Registration.of(point.parameters).subscriptions * guess.subscription
        if point.kind in SPECIAL_S:
            return SPECIAL_S[point.kind]
        setup = SETUPS[point.kind](point.parameters, "guess").setup
        connections = [*setup.subscribers, *setup.idle]
        subscribing = sum(len(one) for one in connections) * guess.subscription
        shortest = self._measures[point.experiment].run_s
        return shortest + guess.steady + (len(connections) + setup.publishers) * guess.connection + subscribing


def expected_s(experiments: Sequence[Experiment]) -> float:
    """All of them together, from the beginning, if every run counts."""
    durations = Durations(experiments)
    points = [(point, one.runs) for one in experiments for point in one.points()]
    runs = sum(durations.of(point) * durations.runs(point, runs) for point, runs in points)
    rounds = {(server, turn) for one in experiments for server in one.servers for turn in range(one.runs)}
    return runs + sum(durations.start(server) for server, _ in rounds)
