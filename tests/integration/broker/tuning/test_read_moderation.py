"""Pauses between small reads, in virtual time: when they begin, and when they end."""

from collections.abc import Callable

from tidings.broker.tuning.read_moderation import GATHER_SECONDS, PATIENCE_READS_MAX, PHASE_READS, ReadModeration


class World:
    """Time passes while the broker works and sleeps; a publisher sends meanwhile."""

    def __init__(self, arrivals: Callable[[float], int], *, enabled: bool = True) -> None:
        self.now = 0.0
        self.received = 0
        self.slept = 0
        self._arrivals = arrivals  # messages that came in so many seconds
        self.read_moderation = ReadModeration(
            lambda: self.received, clock=lambda: self.now, sleep=self._sleep, enabled=enabled
        )
        self._since = 0.0

    def _sleep(self, _: float) -> None:
        self.slept += 1
        self.now += GATHER_SECONDS

    def read(self, connection: int = 1, work_seconds: float = 20e-6) -> None:
        self.now += work_seconds
        self.received += self._arrivals(self.now - self._since)
        self._since = self.now
        self.read_moderation.pace.reads += 1
        self.read_moderation.after_small_read(connection)


def steady(per_second: float) -> Callable[[float], int]:
    """Messages that come whatever the broker does."""
    debt = 0.0

    def arrivals(seconds: float) -> int:
        nonlocal debt
        debt += seconds * per_second
        whole = int(debt)
        debt -= whole
        return whole

    return arrivals


def test_a_fast_publisher_makes_the_broker_pause() -> None:
    world = World(steady(50_000))
    for _ in range(10 * PHASE_READS):
        world.read()
    assert world.read_moderation.active
    assert world.slept > 5 * PHASE_READS


def test_a_slow_publisher_does_not() -> None:
    world = World(steady(5_000))
    for _ in range(100 * PHASE_READS):
        world.read(work_seconds=200e-6)
    assert not world.slept


def test_a_publisher_that_waits_for_answers_is_hardly_held_up() -> None:
    world = World(lambda _: 1)  # one message for each answer, however long that took
    reads = 20 * PATIENCE_READS_MAX
    for _ in range(reads):
        world.read()
    assert 0 < world.slept < reads / 100


def test_no_pauses_while_others_are_read() -> None:
    world = World(steady(50_000))
    for _ in range(10 * PHASE_READS):
        world.read_moderation.pace.reads += 1  # of another connection, in between
        world.read()
    assert not world.slept


def test_another_connection_ends_the_pauses() -> None:
    world = World(steady(50_000))
    for _ in range(4 * PHASE_READS):
        world.read()
    assert world.read_moderation.active
    world.read(connection=2)
    assert not world.read_moderation.active


def test_switched_off_it_never_pauses() -> None:
    world = World(steady(50_000), enabled=False)
    for _ in range(10 * PHASE_READS):
        world.read()
    assert not world.slept
