"""The ledger of clients of brokers that are killed: what was promised, and the histories that they saw."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from hardening import histories
from hardening.histories import Delivery

GROUP = 3  # messages of a transaction
GROUPS = "groups"  # the reader of messages that were sent in transactions


@dataclass(slots=True)
class Ledger:
    """Messages have numbers; a reader's name stands for a subscription or queue. `GROUPS` has numbers of its own."""

    confirmed: set[int] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)  # groups
    given: dict[str, list[Delivery]] = field(default_factory=dict)
    ways: dict[int, Hashable] = field(default_factory=dict)  # of each message its publisher
    sent: int = 0
    finished: dict[str, set[int]] = field(default_factory=dict)  # acknowledged, and that is on disk
    came_again: list[tuple[str, int]] = field(default_factory=list)  # of these

    def reads(self, name: str) -> None:
        self.given.setdefault(name, [])

    def saw(self, name: str, n: int, *, marked: bool, life: int = 0) -> None:
        given = self.given.setdefault(name, [])
        if n in self.finished.get(name, ()):
            self.came_again.append((name, n))
        given.append(Delivery(len(given), life, len(given), 2 if marked else 1, n))

    def problems(self) -> list[str]:
        wrong = [f"{name}: {n} came again without a mark" for name, n in self.unmarked()]
        wrong += [f"{name}: {n} was acknowledged and came again" for name, n in self.came_again]
        return wrong + self.overtaken() + self.missing()

    def unmarked(self) -> list[tuple[str, int]]:
        return [(name, n) for name, given in self.given.items() for n in histories.unmarked(given)]

    def overtaken(self) -> list[str]:
        wrong = []
        for name, given in self.given.items():

            def place(n: int, name: str = name) -> tuple[Hashable, int] | None:
                way = GROUPS if name == GROUPS else self.ways.get(n)
                return None if way is None else (way, n)

            late = histories.overtaken(histories.first_given(given), place)
            wrong += [f"{name}: {n} came behind {before} of the same publisher" for n, before in late]
        return wrong

    def missing(self) -> list[str]:
        wrong = []
        got = {name: {one.id for one in given} for name, given in self.given.items()}
        for name, there in got.items():
            if name != GROUPS:
                wrong += [f"{name}: {n} was confirmed and is lost" for n in histories.lost(self.confirmed, there)]
        parts: dict[int, set[int]] = {}
        for n in got.get(GROUPS, ()):
            parts.setdefault(n // GROUP, set()).add(n)
        wrong += [f"transaction {group} came in part" for group, part in parts.items() if len(part) != GROUP]
        wrong += [f"transaction {group} was committed and is lost" for group in self.committed - parts.keys()]
        return wrong

    def forget(self, n: int) -> None:
        """A number that stands for several messages: it is not judged."""
        for given in self.given.values():
            given[:] = [one for one in given if one.id != n]
        self.came_again[:] = [one for one in self.came_again if one[1] != n]

    def figures(self) -> dict[str, int]:
        finished = sum(map(len, self.finished.values()))
        deliveries = sum(map(len, self.given.values()))
        return {"confirmed": len(self.confirmed), "acknowledged": finished, "deliveries": deliveries}
