"""The pruning experiment in small: the same shapes as at full size."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tidings.cli.experiments.pruning import write
from tidings.errors import UsageError
from tidings.experiments.covering.mobile import MobileOptions, tiers
from tidings.experiments.covering.mobile import run as run_mobile
from tidings.experiments.covering.pruning import PruningOptions, PruningResult, run
from tidings.experiments.covering.pruning_setup import (
    CORE,
    EDGE,
    INNER,
    PUBLISHERS,
    SUBSCRIBERS,
    brokers_55,
    clusters,
    families,
)
from tidings.experiments.covering.pruning_shapes import broken, broken_mobile, broken_policies
from tidings.experiments.covering.pruning_sweeps import (
    ALL,
    DEGREES,
    PHIS,
    PruningSweep,
    SweepRun,
    default_options,
    perform,
    runs_of,
)
from tidings.figures import pruning as pruning_figures
from tidings.model.covering import covers
from tidings.model.tables import RUNS, SIMULATIONS
from tidings.overlay.topology.graph import components, diameter, hops
from tidings.segments.reader import read_rows
from tidings.sim.service import ServiceModel


@pytest.fixture(scope="module")
def results() -> dict[str, PruningResult]:
    options = default_options(0.05, seed=1)
    return {name: run(replace(options, policy=name)) for name in ALL}


def test_the_shapes_of_the_paper(results: dict[str, PruningResult]) -> None:
    assert broken_policies(results) == []


def test_shapes_can_be_broken(results: dict[str, PruningResult]) -> None:
    swapped = {**results, "active": results["selective"], "selective": results["active"]}
    assert "selective delays least, by far" in broken_policies(swapped)
    assert len(broken_policies(swapped)) >= 4


def test_phi_bounds_what_is_in_vain() -> None:
    options = default_options(0.02, seed=1)
    rows = {str(phi): {"selective": run(replace(options, phi=phi))} for phi in (0.5, 0.95)}
    assert broken(PruningSweep.phi, rows) == []
    said = {phi: sum(one["selective"].nrs_messages.values()) for phi, one in rows.items()}
    assert said["0.5"] < said["0.95"], "who bears less in vain has more to say"


def test_figures_are_drawn(results: dict[str, PruningResult], tmp_path: Path) -> None:
    pair = {name: results[name] for name in ("active", "selective")}
    settings: dict[PruningSweep, tuple[str, ...]] = {
        PruningSweep.unsubscriptions: ("100", "200", "300"),
        PruningSweep.degree: ("10", "30"),
        PruningSweep.clustered: ("scattered", "clustered"),
        PruningSweep.phi: ("0.5", "0.9"),
    }
    assert pruning_figures.draw(PruningSweep.policies, {"": results}, tmp_path).stat().st_size > 10_000
    for sweep, names in settings.items():
        assert pruning_figures.draw(sweep, dict.fromkeys(names, pair), tmp_path).stat().st_size > 10_000
        assert (tmp_path / f"pruning_{sweep.value}.svg").exists()


def test_sweeps_are_of_the_papers_size() -> None:
    sweeps = {sweep: runs_of(sweep, 1.0, seed=1, hours=6.0) for sweep in PruningSweep}
    assert [one.options.policy for one in sweeps[PruningSweep.policies]] == list(ALL)
    assert {one.setting for one in sweeps[PruningSweep.degree]} == set(map(str, DEGREES))
    assert [one.setting for one in sweeps[PruningSweep.unsubscriptions]] == ["100", "100", "200", "200", "300", "300"]
    assert [(one.options.policy, one.setting) for one in sweeps[PruningSweep.phi]] == [
        ("selective", str(phi)) for phi in PHIS
    ]
    moving = [one.options for one in sweeps[PruningSweep.mobile] if isinstance(one.options, MobileOptions)]
    assert {(one.subscribers, one.hours, one.moves_a_minute) for one in moving} == {(5000, 6.0, 0.0), (5000, 6.0, 60.0)}


SMALL = PruningOptions(subscriptions=200, families=4, degree=10, publications=100, unsubscriptions=2, probes=3)


def test_a_run_that_the_folder_has_is_not_done_again(tmp_path: Path) -> None:
    first = perform(SMALL, tmp_path)
    assert perform(SMALL, tmp_path) == first  # with its times, which another run would not have
    other = perform(replace(SMALL, seed=2), tmp_path)
    assert isinstance(other, PruningResult)
    assert other.options.seed == 2
    assert len(list(tmp_path.iterdir())) == 2
    mobile = MobileOptions(hours=0.05, subscribers=20, sight=600)
    assert perform(mobile, tmp_path) == perform(mobile, tmp_path)


def test_what_runs_found_is_there_for_the_pipeline(tmp_path: Path) -> None:
    found = perform(SMALL, tmp_path / "runs")
    mobile = MobileOptions(hours=0.05, subscribers=20, sight=600)
    write(
        PruningSweep.policies,
        [(SweepRun("", SMALL), found), (SweepRun("all move", mobile), run_mobile(mobile))],
        tmp_path,
    )
    runs = list(read_rows(tmp_path / "data", RUNS))
    assert [(one["experiment"], one["seed"], one["outcome"]) for one in runs] == [("pruning policies", 1, "done")] * 2
    assert len({one["run"] for one in runs}) == 2
    rows = list(read_rows(tmp_path / "data", SIMULATIONS))
    assert {one["run"] for one in rows} == {one["run"] for one in runs}
    assert isinstance(found, PruningResult)
    own = [one for one in rows if one["run"] == runs[0]["run"]]
    assert [one["value"] for one in own if one["metric"] == "delay_ms_mean"] == [found.delay_ms_mean]
    series = [(one["at_ms"], one["value"]) for one in own if one["metric"] == "core_queue_max"]
    assert series == [(at * 1000, longest) for at, _, longest in found.queues]
    keys = [tuple(one[key] for key in ("run", "node", "metric", "at_ms", "labels")) for one in rows]
    assert len(set(keys)) == len(keys)  # what the pipeline takes for the same row


def test_a_run_is_the_same_every_time() -> None:
    first, second = (run(SMALL) for _ in range(2))
    assert first.events > 1000
    assert replace(first, wall_s=0, cpu_s=0) == replace(second, wall_s=0, cpu_s=0)


def test_the_55_brokers() -> None:
    graph = brokers_55()
    assert (len(graph), len(CORE), len(INNER), len(EDGE)) == (55, 5, 18, 32)
    assert len(components(graph)) == 1
    assert sum(1 for _ in graph.edges()) == 54
    assert all(len(graph.neighbours(edge)) == 1 for edge in EDGE)
    assert all(hops(graph, CORE[-1])[publisher] == 1 for publisher in PUBLISHERS)
    assert diameter(graph) == 10


@pytest.mark.parametrize("seed", range(5))
def test_families_have_the_covering_degree(seed: int) -> None:
    rng = Random(seed)
    wanted = families(200, 4, 10, rng, clustered=True)
    assert len(wanted) == 200
    for family in range(4):
        members = [one for one in wanted if one.family == family]
        (root,) = (one for one in members if one.root)
        others = [one.filter for one in members if not one.root]
        assert all(covers(root.filter, one) for one in others)
        new_roots = [one for one in others if not any(covers(o, one) for o in others if o != one)]
        assert len(new_roots) == 10
    regions = clusters(rng)
    assert sorted(edge for region in regions for edge in region) == list(SUBSCRIBERS)
    assert all(2 <= len(region) <= 5 for region in regions)


def test_impossible_options_are_refused() -> None:
    with pytest.raises(UsageError, match="E_EXPERIMENT"):
        run(PruningOptions(families=10, unsubscriptions=11))
    with pytest.raises(UsageError, match="E_EXPERIMENT"):
        run(PruningOptions(subscriptions=100, families=10))


def test_monitors_that_move_congest_the_core_with_active_but_not_with_selective(tmp_path: Path) -> None:
    graph, tier, regions = tiers()
    assert (len(graph), len(tier), sum(map(len, regions.values()))) == (53, 53, 36)
    options = MobileOptions(hours=0.2, subscribers=300, sight=600, service=ServiceModel(control_ms=400))
    found = {name: run_mobile(replace(options, policy=name)) for name in ("active", "selective")}
    waiting = {name: sum(length for _, length in one.queues) for name, one in found.items()}
    assert waiting["active"] > 3 * waiting["selective"]
    swapped = {"active": found["selective"], "selective": found["active"]}
    assert "monitors move: active is congested, selective far less" in broken_mobile({"monitors move": swapped})
    assert pruning_figures.draw_mobile({"monitors move": found}, tmp_path).stat().st_size > 10_000
