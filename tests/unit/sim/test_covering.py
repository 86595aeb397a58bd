"""Every policy under random schedules and failures. SEEDS=1000 in the environment runs more than the usual ones."""

import os

import pytest
from hardening.machines import covering as harness

from tidings.routing.covering.lazy import Lazy
from tidings.routing.covering.messages import Change, CoveringUnsubscribe, FilterId, Prune
from tidings.routing.covering.policies import POLICIES
from tidings.routing.covering.tables import CoveringTable, NeighbourTable

SEEDS = int(os.environ.get("SEEDS", "6"))


@pytest.mark.parametrize("overlay", harness.OVERLAYS)
@pytest.mark.parametrize("policy", POLICIES)
def test_clients_receive_what_they_are_due(policy: str, overlay: str) -> None:
    due = sum(len(one.due) for seed in range(SEEDS) for one in harness.run(policy, overlay, seed).published)
    assert due > 20 * SEEDS


def test_what_once_failed() -> None:
    """An advertisement went, and with it all that a preserved subscription stood for."""
    assert harness.run("selective", "graph", 505).published


def test_a_run_is_the_same_every_time() -> None:
    runs: list[list[str]] = [[], []]
    for seen in runs:
        harness.run("selective", "graph", 5, seen.append)
    assert len(runs[0]) > 100
    assert runs[0] == runs[1]


def test_a_wrong_policy_is_found_and_the_failure_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(
        self: Lazy,
        border: NeighbourTable,
        table: CoveringTable,
        id: FilterId,
        prunes: tuple[Prune, ...] | None,
    ) -> list[Change]:
        border.forget(id)
        return [CoveringUnsubscribe(id, prunes)]  # and nothing in its place

    monkeypatch.setattr(Lazy, "replace", forgetful)
    with pytest.raises(AssertionError) as caught:
        [harness.run("active", "tree", seed) for seed in range(20)]
    assert caught.value.__notes__[0].startswith("Repeat with: python -m hardening.machines.covering active tree ")


def test_that_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    harness.main(["selective", "tree", "3", "--trace"])
    out = capsys.readouterr().out
    assert "selective tree 3: right" in out
    assert "Publication" in out
    with pytest.raises(SystemExit):
        harness.main(["best", "tree", "3"])
    assert "invalid choice: 'best'" in capsys.readouterr().err
