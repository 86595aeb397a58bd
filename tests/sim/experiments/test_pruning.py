"""The pruning experiment in small: the same shapes as at full size."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tidings.cli.experiment_pruning import FOUR, default_options
from tidings.errors import UsageError
from tidings.model.covering import covers
from tidings.overlay.graph import components, diameter, hops
from tidings.sim.experiments import pruning_figures
from tidings.sim.experiments.mobile import MobileOptions, tiers
from tidings.sim.experiments.mobile import run as run_mobile
from tidings.sim.experiments.pruning import Options, Result, run
from tidings.sim.experiments.pruning_setup import (
    CORE,
    EDGE,
    INNER,
    PUBLISHERS,
    SUBSCRIBERS,
    brokers_55,
    clusters,
    families,
)
from tidings.sim.experiments.pruning_shapes import broken_shapes
from tidings.sim.service import ServiceModel


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    options = default_options(0.05, seed=1)
    return {name: run(replace(options, policy=name)) for name in FOUR}


def test_the_shapes_of_the_paper(results: dict[str, Result]) -> None:
    assert broken_shapes(results) == []


def test_shapes_can_be_broken(results: dict[str, Result]) -> None:
    swapped = {**results, "active": results["selective"], "selective": results["active"]}
    assert "selective delays least, by far" in broken_shapes(swapped)
    assert len(broken_shapes(swapped)) >= 4


def test_figures_are_drawn(results: dict[str, Result], tmp_path: Path) -> None:
    assert pruning_figures.policies(results, tmp_path).stat().st_size > 10_000
    rows = {"3": {name: results[name] for name in ("active", "selective")}}
    assert pruning_figures.sweep("a sweep", rows, tmp_path, "some").stat().st_size > 10_000
    assert (tmp_path / "some.svg").exists()


def test_a_run_is_the_same_every_time() -> None:
    options = Options(subscriptions=200, families=4, degree=10, publications=100, unsubscriptions=2, probes=3)
    first, second = (run(options) for _ in range(2))
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
        run(Options(families=10, unsubscriptions=11))
    with pytest.raises(UsageError, match="E_EXPERIMENT"):
        run(Options(subscriptions=100, families=10))


def test_monitors_that_move_congest_the_core_with_active_but_not_with_selective(tmp_path: Path) -> None:
    graph, tier, regions = tiers()
    assert (len(graph), len(tier), sum(map(len, regions.values()))) == (53, 53, 36)
    options = MobileOptions(hours=0.2, subscribers=300, sight=600, service=ServiceModel(control_ms=400))
    found = {name: run_mobile(replace(options, policy=name)) for name in ("active", "selective")}
    waiting = {name: sum(length for _, length in one.queues) for name, one in found.items()}
    assert waiting["active"] > 3 * waiting["selective"]
    assert pruning_figures.mobile({"monitors move": found}, tmp_path).stat().st_size > 10_000
