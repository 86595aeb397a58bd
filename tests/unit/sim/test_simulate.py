"""Random networks, workloads and faults, judged by named checkers.

SEEDS=1000 in the environment runs more of them than usual; so does `make sim`.
"""

import os
from collections import OrderedDict
from collections.abc import Sequence

import pytest
from hardening.simulate.__main__ import main
from hardening.simulate.choices import COVERING, SCHEMES, draw
from hardening.simulate.regressions import SEEDS as REGRESSIONS
from hardening.simulate.run import run
from hardening.simulate.world import START_MS, World

from tidings.delivery.store import MemoryStore, Record
from tidings.errors import StoreError, UsageError
from tidings.node.network.copy_numbers import CopyNumber, CopyNumbering
from tidings.node.network.received_numbers import ReceivedNumbers, Recognition
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.routing.covering.machine import CoveringMachine
from tidings.sim.host import Host

SEEDS = int(os.environ.get("SEEDS", "200"))
GROUP = 20


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_random_networks_keep_their_promises_whatever_happens(first: int) -> None:
    outcomes = [run(seed) for seed in range(first, min(first + GROUP, SEEDS))]
    assert sum(one.deliveries for one in outcomes) > 50 * len(outcomes)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_what_once_failed(name: str) -> None:
    seed, forced = REGRESSIONS[name]
    assert run(seed, **forced).brokers > 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_has_its_turn_with_tracking_on_any_overlay(scheme: str) -> None:
    overlays = ("ring", "pan") if scheme in ("bdrp", "covering-lazy") else ("ring",)
    for overlay in overlays:
        assert run(7, scheme=scheme, overlay=overlay, tracking="bloom").traces > 0


def failing(seeds: range, **forced: str) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        try:
            run(seed, **forced)
        except (AssertionError, UsageError) as error:  # the store may be asked for what it never kept
            found += [str(error), *error.__notes__]
    return found


def test_checkers_notice_brokers_that_join_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoveringMachine, "join", lambda self, now, epoch, neighbours: [])
    assert failing(range(3), scheme=COVERING[1])


@pytest.mark.parametrize("says_so", [True, False])
def test_checkers_notice_half_a_batch_on_a_full_disk(monkeypatch: pytest.MonkeyPatch, says_so: bool) -> None:
    def append(self: Host, records: Sequence[Record]) -> StoreError | None:
        if not self.full:
            self.store.append(records)
            return None
        self.store.append(records[: (len(records) + 1) // 2])
        return StoreError("E_STORE_FULL", "half of it did not fit") if says_so else None

    monkeypatch.setattr(Host, "append", append)
    assert any("whole-batches" in one for one in failing(range(7, 9), scheme="bdrp", tracking="none"))


def test_checkers_notice_what_arrives_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RelayDedup, "has_taken", lambda self, message_id, copy: False)
    found = failing(range(20), scheme="bdrp")
    assert any(text.startswith("once-only: ") for text in found)
    assert any(text.startswith("Repeat with: python -m hardening.simulate ") for text in found)


@pytest.mark.parametrize(
    ("recognition", "becomes"), [(Recognition.TAKEN, Recognition.NEW), (Recognition.NEW, Recognition.TAKEN)]
)
def test_checkers_notice_numbers_that_are_taken_for_others(
    monkeypatch: pytest.MonkeyPatch, recognition: Recognition, becomes: Recognition
) -> None:
    judge = ReceivedNumbers.judge

    def misjudge(self: ReceivedNumbers, copy: CopyNumber) -> Recognition:
        judged = judge(self, copy)
        return becomes if judged is recognition else judged

    monkeypatch.setattr(ReceivedNumbers, "judge", misjudge)
    found = failing(range(7, 9), world="brokers", scheme="bdrp")
    assert any(text.startswith("once-only: " if becomes is Recognition.NEW else "delivered-set: ") for text in found)


def test_checkers_notice_runs_that_number_their_copies_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = CopyNumbering.begin
    monkeypatch.setattr(CopyNumbering, "begin", lambda self, epoch: begin(self, 1))
    assert any(text.startswith("nothing-lost: ") for text in failing(range(20), world="brokers", scheme="bdrp"))


def test_checkers_notice_what_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreAndForward, "link_down", lambda self, neighbour: self._links.pop(neighbour, None))
    assert failing(range(10), scheme="bdrp")


def test_checkers_notice_what_is_sent_again_behind_newer_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    link_down = StoreAndForward.link_down

    def newest_first(self: StoreAndForward, neighbour: int) -> None:
        link_down(self, neighbour)
        self._todo = {router: OrderedDict.fromkeys(reversed(waiting)) for router, waiting in self._todo.items()}

    monkeypatch.setattr(StoreAndForward, "link_down", newest_first)
    found = failing(range(12, 24), scheme="bdrp", overlay="tree", tracking="none")
    assert any(text.startswith("order-per-publisher: ") for text in found)


def test_checkers_notice_a_store_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryStore, "append", lambda self, batch: None)
    assert failing(range(10), scheme="bdrp")


def test_checkers_notice_batches_that_are_written_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(self: Host, records: Sequence[Record]) -> StoreError | None:
        self.store.append(records[: (len(records) + 1) // 2])
        return None

    monkeypatch.setattr(Host, "append", append)
    assert failing(range(10), scheme="bdrp")


def test_a_seed_means_the_same_every_time() -> None:
    assert draw(17) == draw(17)
    first, second = trace_of(3), trace_of(3)
    assert len(first) > 500
    assert first == second


def trace_of(seed: int) -> list[str]:
    seen: list[str] = []
    run(seed, lambda now, who, what: seen.append(f"{now} {who} {what}"), world="brokers")
    return seen


def test_events_that_found_no_room_are_stored_once_there_is_some() -> None:
    world = World(draw(34, scheme="hermes"))
    world.until(START_MS)
    world.converge("at the start")
    assert world.typed is not None
    assert world.lasting is not None
    world.typed.start()
    world.lasting.start()
    world.typed.publishers = {key: client for key, client in world.typed.publishers.items() if key[0] == 1}
    elsewhere = [host for router, host in world.brokers.hosts.items() if router != 1]
    for host in elsewhere:
        host.full = True
    for _ in range(12):
        world.lasting.publish()
    world.until(world.now + 3_000)
    for host in elsewhere:
        host.full = False
    world.until(world.now + 10_000)
    assert {one.router for one in world.lasting.subscriptions} - {1}
    assert world.lasting.judge() > 0


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["3", "--scheme", "flooding", "--trace"]) == 0
    out = capsys.readouterr().out
    assert "seed 3 (flooding, " in out
    assert "dials" in out
    with pytest.raises(SystemExit):
        main(["three"])
