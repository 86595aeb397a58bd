"""Real processes, one of which is killed (docs/hermes.md)."""

from collections import Counter
from pathlib import Path

from hardening.kills.hermes_processes import EVENTS, WAIT_S, run

REFRESH_MS = 600_000  # longer than the run may wait: whatever arrives again does so without a refresh


def test_when_rendezvous_nodes_are_killed_no_persistent_event_is_lost_and_delivery_resumes(tmp_path: Path) -> None:
    assert WAIT_S * 1000 < REFRESH_MS / 2
    took, got = run(tmp_path, 4, seed=1, refresh_ms=REFRESH_MS)
    assert len(took) == 2  # the rendezvous nodes of a type and of its parent
    assert got == [Counter(range(3 * EVENTS))] * 4
