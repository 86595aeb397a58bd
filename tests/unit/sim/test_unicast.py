"""Both unicast protocols under random faults, and transcripts of small scenarios.

SEEDS=1000 in the environment runs more random scenarios than the usual ones; `--rewrite` writes transcripts anew.
"""

import os
from pathlib import Path
from random import Random

import pytest
from hardening.machines import unicast as harness
from hardening.support.transcript import DASHES, play

from tidings.errors import UsageError
from tidings.overlay.topology.generate import barabasi_albert, ring
from tidings.routing.control.messages import Topic
from tidings.routing.unicast.link_state import LinkStateUnicast
from tidings.sim.faults import Crash, LoseHost, Restart
from tidings.sim.harness import HarnessMember

SEEDS = int(os.environ.get("SEEDS", "100"))
GROUP = 20  # seeds in one test: few enough that its name says something, enough that names stay few
TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
@pytest.mark.parametrize("protocol", harness.PROTOCOLS)
def test_tables_are_right_after_faults(protocol: str, first: int) -> None:
    for seed in range(first, min(first + GROUP, SEEDS)):
        driver = harness.run(protocol, seed)  # checks the tables
        assert driver.messages_sent > 0


@pytest.mark.parametrize("protocol", harness.PROTOCOLS)
def test_a_run_is_the_same_every_time(protocol: str) -> None:
    runs: list[list[str]] = [[], []]
    for seen in runs:
        harness.run(protocol, 5, lambda now, who, what, seen=seen: seen.append(f"{now} {who} {what}"))  # type: ignore[misc]
    assert len(runs[0]) > 100
    assert runs[0] == runs[1]


@pytest.mark.parametrize("seed", range(10))
def test_distance_vector_never_loops_while_only_links_fail(seed: int) -> None:
    """The feasibility condition holds at every moment; only a restart, which forgets it, may close a loop."""
    scenario = harness.random_scenario(seed)
    forgetful = Crash | LoseHost | Restart
    scenario.faults = [(at, fault) for at, fault in scenario.faults if not isinstance(fault, forgetful)]
    driver = harness.simulate("distance-vector", seed, scenario)
    calendar = driver.calendar
    while calendar.now < harness.FAULTS_MS + 3000:
        calendar.run(until=calendar.now + 5)
        hops: dict[int, dict[int, int]] = {}
        for router, unicast in driver.machines.items():
            hops[router] = {to: unicast.next_hop(to) or 0 for to in unicast.reachable()}
        for start, table in hops.items():
            for goal in table:
                at, seen = start, {start}
                while at != goal and goal in hops[at]:
                    at = hops[at][goal]
                    assert at not in seen, f"a loop to {goal} from {start}; seed {seed}, {calendar.now} ms"
                    seen.add(at)


def test_a_wrong_table_is_found_and_the_failure_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.routing.unicast.link_state.shortest_routes", lambda router, links: {})
    with pytest.raises(AssertionError, match="the truth is") as caught:
        harness.run("link-state", 0)
    assert caught.value.__notes__ == ["Repeat with: python -m hardening.machines.unicast link-state 0 --trace"]


def test_that_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    harness.main(["distance-vector", "3", "--trace"])
    out = capsys.readouterr().out
    assert "distance-vector 3: right" in out
    assert "LinkUp" in out
    with pytest.raises(SystemExit, match="usage"):
        harness.main(["rumour", "3"])


@pytest.mark.parametrize("protocol", harness.PROTOCOLS)
def test_latency_is_measured_where_no_cost_is_given(protocol: str) -> None:
    graph = barabasi_albert(6, Random(2))
    dials = {int(node): [str(peer) for peer in graph.neighbours(node) if int(peer) < int(node)] for node in graph}
    scenario = harness.Scenario(graph, dials, [])
    driver = harness.simulate(protocol, 1, scenario, fixed_costs=False)
    driver.calendar.run(until=3000)
    for process in driver.running():
        assert isinstance(process.machine, HarnessMember)
        assert len(process.machine.machine.reachable()) == 5
        assert process.machine.links is not None
        for peer in process.machine.links.peers():
            link = process.machine.links.link(peer)
            assert link is not None
            assert link.latency_ms == pytest.approx(graph.neighbours(process.host)[peer].latency_ms, abs=0.01)


@pytest.mark.parametrize("protocol", harness.PROTOCOLS)
def test_in_the_long_run_renewals_keep_the_living_and_the_vanished_are_forgotten(protocol: str) -> None:
    graph = ring(4)
    dials = {1: ["2", "4"], 2: ["3"], 3: ["4"], 4: []}
    scenario = harness.Scenario(graph, dials, [(5000.0, LoseHost(3))])
    driver = harness.simulate(protocol, 1, scenario)
    for until in (20_000, 60_000, 120_000):
        driver.calendar.run(until=until)
        harness.check_unicast(driver, graph)
    for unicast in driver.machines.values():
        if isinstance(unicast, LinkStateUnicast):
            assert set(unicast.flood.state(Topic.LINKS)) == {1, 2, 4}
        assert 3 not in unicast.reachable()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    script, _, expected = path.read_text().partition(DASHES + "\n")
    found = play(script)
    if request.config.getoption("--rewrite"):
        path.write_text(f"{script.rstrip()}\n{DASHES}\n{found}")
        expected = found
    assert found == expected, "differs; if it should, run pytest --rewrite tests/unit/sim/test_unicast.py"


def test_there_are_transcripts_and_bad_scripts_are_refused() -> None:
    assert len(TRANSCRIPTS) >= 6
    for wrong in ("link 1", "at soon crash 2", "at 5 explode 2", "dance", "at 5 crash 1 2 3"):
        with pytest.raises(UsageError, match="E_SCRIPT at 1"):
            play(wrong)
