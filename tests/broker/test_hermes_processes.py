"""Real processes, one of which is killed (docs/hermes.md)."""

from collections import Counter
from pathlib import Path

from tidings.testing.hermes_processes import EVENTS, run


def test_when_the_rendezvous_node_is_killed_no_persistent_event_is_lost_and_delivery_resumes(tmp_path: Path) -> None:
    _, got = run(tmp_path, 3, seed=1)
    assert got == [Counter(range(EVENTS))] * 4
