"""Rolling changes of the encoding: brokers restarted one by one with other parameters under load lose nothing."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hardening.simulate.run import run
from hardening.simulate.scenario import LINK

from tidings.matching.encoding import Encoding
from tidings.matching.graded import GradedGrade
from tidings.node.network.settings import NetworkSettings
from tidings.overlay.topology.graph import Graph
from tidings.routing.bdrp import scheme
from tidings.routing.bdrp.advertisement import decode_advertisement
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.sim.brokers import Brokers
from tidings.sim.faults import Crash, Reconfigure, Restart, inflict

GRADED = InterestEncoding(Encoding(grade=GradedGrade()), vectors=False)
EXACT = InterestEncoding(Encoding(grade=GradedGrade()), vectors=False, exact=True)
CHANGES = {
    "exact filters to vectors": (EXACT, InterestEncoding()),
    "vectors to exact filters under a key": (
        InterestEncoding(),
        replace(EXACT, encoding=replace(EXACT.encoding, key=7)),
    ),
    "graded to vectors": (GRADED, InterestEncoding()),
    "vectors to graded": (InterestEncoding(), GRADED),
    "hashes 7 to 5": (InterestEncoding(Encoding(hashes=7)), InterestEncoding(Encoding(hashes=5))),
    "bits 256 to 512": (InterestEncoding(), InterestEncoding(Encoding(bits=512))),
    "adding a key": (InterestEncoding(), InterestEncoding(Encoding(key=0x5EC2E7))),
}
SIZE, STEP_MS = 5, 1500.0
SELECTORS = ("x = 1", "x > 3", "x BETWEEN 1 AND 2 AND s LIKE 'ab%'", "s = 'abc'")


class Load:
    """A ring whose brokers have durable subscribers; persistent messages enter at every running broker all the time."""

    def __init__(self, before: InterestEncoding, after: InterestEncoding) -> None:
        graph = Graph()
        for router in range(1, SIZE + 1):
            graph.add(router, router % SIZE + 1, 5.0)
        settings, later = ({router: self._of(router, one) for router in range(1, SIZE + 1)} for one in (before, after))
        self.brokers = Brokers(graph, settings, seed=7, later=later)
        self.rng = Random(7)
        for router in settings:
            for selector in SELECTORS:
                self.brokers.subscribe(router, selector, durable=True)

    @staticmethod
    def _of(router: int, encoding: InterestEncoding) -> NetworkSettings:
        return NetworkSettings(
            router, dials=((str(router % SIZE + 1), router % SIZE + 1),), link=LINK, encoding=encoding
        )

    def until(self, at: float, every_ms: float) -> None:
        calendar = self.brokers.calendar
        while calendar.now < at:
            attributes: dict[str, Any] = {"x": self.rng.randint(0, 6), "s": self.rng.choice(("abc", "abd", "xyz"))}
            self.brokers.publish(self.rng.randint(1, SIZE), attributes, persistent=True)
            calendar.run(until=calendar.now + every_ms)

    def fault(self, *faults: Any) -> None:
        for one in faults:
            inflict(self.brokers.driver, one, self.brokers.hosts)

    def roll(self, every_ms: float, on_each: Callable[[], None] = lambda: None) -> None:
        """Each broker is down for a third of its step; one that was restarted is killed again in between."""
        for router in range(1, SIZE + 1):
            now = self.brokers.calendar.now
            self.fault(Reconfigure(router), Crash(router))
            self.until(now + STEP_MS / 3, every_ms)
            self.fault(Restart(router))
            self.until(now + STEP_MS * 2 / 3, every_ms)
            killed = self.rng.randint(1, SIZE)
            self.fault(Crash(killed), Restart(killed))
            self.until(now + STEP_MS, every_ms)
            on_each()

    def finish(self) -> int:
        """Judge when all is quiet; returns the deliveries that were due."""
        brokers = self.brokers
        brokers.calendar.run(until=brokers.calendar.now + 10_000)
        brokers.read_durables()
        brokers.calendar.run(until=brokers.calendar.now + 5_000)
        brokers.check_nobody_twice()
        brokers.check_durable()
        accepted = [one for one in brokers.publications if one.accepted]
        return sum(reader.wants(one.attributes) for reader in brokers.subscribers for one in accepted)


@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_lost_while_a_parameter_is_changed_broker_by_broker(name: str) -> None:
    load = Load(*CHANGES[name])
    load.brokers.calendar.run(until=3000)
    foreign: list[int] = []
    load.roll(20.0, lambda: foreign.append(max(len(one) for one in differing(load.brokers))))
    assert load.finish() > 1500
    assert max(foreign) > 0, "in between brokers had rows that they could not judge"
    assert [len(one) for one in differing(load.brokers)] == [0] * SIZE, "and at the end none"
    load.brokers.check_tables()


def differing(brokers: Brokers) -> list[frozenset[int]]:
    return [one.network.scheme.foreign for one in brokers.running().values()]  # type: ignore[attr-defined]


class AnyForm(bytes):
    """Equal to every form."""

    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


@pytest.fixture
def believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any form are compared with messages."""
    real = decode_advertisement
    monkeypatch.setattr(scheme, "decode_advertisement", lambda data: real(data)._replace(form=AnyForm()))


@pytest.mark.usefixtures("believing")
@pytest.mark.parametrize("name", ["hashes 7 to 5", "adding a key"])
def test_messages_are_lost_if_rows_of_any_form_are_believed(name: str) -> None:
    load = Load(*CHANGES[name])
    load.brokers.calendar.run(until=3000)
    load.roll(20.0)
    with pytest.raises(AssertionError, match="lacks"):
        load.finish()


@pytest.mark.parametrize("seed", [3, 5])
def test_random_networks_whose_configuration_changes_keep_their_promises(seed: int) -> None:
    assert run(seed, roll="encoding").faults > 0
