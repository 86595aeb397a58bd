"""The worst moments: the disk has something, and whoever waits for it is not told; or the disk has it not yet.

A broker crashes just when it has stored a message of another one (it has not said so yet, so that one sends it again),
or a transaction (whose client tries it again), or before it has stored a message at all (so whoever sent it must
not have been told that it has). By chance that hardly ever happens.
"""

from collections.abc import Sequence
from random import Random

from tidings.delivery.store import Note, Record, Stored
from tidings.model.codec import ID
from tidings.node.clients.idempotent_commit import PREFIX
from tidings.sim.brokers import Brokers
from tidings.sim.faults import Crash, FullDisk, Restart, inflict
from tidings.sim.host import nobody

AWAY_MS = (50.0, 1500.0)


class Moments:
    def __init__(self, brokers: Brokers, rng: Random) -> None:
        self.brokers, self.rng = brokers, rng
        self.struck: set[int] = set()  # routers that crashed
        self.filled: set[int] = set()  # those whose disk was full

    def when_taken(self, router: int) -> None:
        """The broker crashes when it has next stored a message of another one, for subscribers of its own."""

        def witness(records: Sequence[Record]) -> None:
            others = {one.id for one in self.brokers.publications if one.router != router}
            if any(isinstance(one, Stored) and one.message_bytes[ID] in others for one in records):
                self._strike(router)

        self.brokers.hosts[router].witness = witness

    def when_committed(self, router: int) -> None:
        """The broker crashes when it has next stored a transaction that has a key."""

        def witness(records: Sequence[Record]) -> None:
            if any(isinstance(one, Note) and one.key.startswith(PREFIX) for one in records):
                self._strike(router)

        self.brokers.hosts[router].witness = witness

    def when_asked(self, router: int) -> None:
        """The broker crashes when a message is next to be stored, and is not."""

        def asked(records: Sequence[Record]) -> None:
            if any(isinstance(one, Stored) for one in records):
                self._strike(router)

        self.brokers.hosts[router].asked = asked

    def when_stored(self, router: int) -> None:
        """The broker crashes when a message is next stored, before it has said so."""

        def witness(records: Sequence[Record]) -> None:
            if any(isinstance(one, Stored) for one in records):
                self._strike(router)

        self.brokers.hosts[router].witness = witness

    def when_full(self, router: int) -> None:
        """The disk is full when a message is next to be stored, and for a while."""
        host = self.brokers.hosts[router]

        def asked(records: Sequence[Record]) -> None:
            if any(isinstance(one, Stored) for one in records):
                host.asked = nobody
                host.full = True
                self.filled.add(router)
                self.brokers.calendar.after(self.rng.uniform(*AWAY_MS), inflict, driver, FullDisk(router, False), hosts)

        driver, hosts = self.brokers.driver, self.brokers.hosts
        host.asked = asked

    def end(self) -> None:
        for host in self.brokers.hosts.values():
            host.witness = host.asked = nobody

    def _strike(self, router: int) -> None:
        host = self.brokers.hosts[router]
        host.witness = host.asked = nobody
        host.dying = True
        self.struck.add(router)
        driver, calendar = self.brokers.driver, self.brokers.calendar
        calendar.at(calendar.now, self._crash, router)
        calendar.after(self.rng.uniform(*AWAY_MS), inflict, driver, Restart(router))

    def _crash(self, router: int) -> None:
        self.brokers.hosts[router].dying = False
        inflict(self.brokers.driver, Crash(router))
