from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.experiments.bdrp.hierarchy import HierarchyOptions, HierarchyResult, layout, run
from tidings.experiments.bdrp.hierarchy_flat import flat_of
from tidings.model.constraint import Constraint, Op
from tidings.model.predicate import Predicate
from tidings.sim.hierarchy import Hierarchy

SMALL = HierarchyOptions(clusters=6, size=6, messages=60, changes=3, rows_max=40)


@pytest.fixture(scope="module")
def flat() -> HierarchyResult:
    return run(SMALL, 1)


def test_two_levels_keep_and_say_less_and_miss_nobody(flat: HierarchyResult) -> None:
    two = run(SMALL, 2)
    assert (flat.missed, two.missed) == (0, 0)
    assert flat.brokers == two.brokers == 36
    assert two.rows < flat.rows / 2
    assert two.routes < flat.routes / 3
    assert two.start_bytes < flat.start_bytes / 2
    assert two.change_bytes < flat.change_bytes
    assert flat.copies < 1.1 * flat.least_copies
    assert two.copies >= flat.copies  # the price of a coarser picture


def test_larger_flat_networks_are_what_the_formula_says(flat: HierarchyResult) -> None:
    large = run(replace(SMALL, clusters=9), 1)
    reckoned = flat_of(large, flat)
    assert reckoned.routes == large.routes == 53
    for what in ("rows", "start_messages", "start_bytes", "change_messages", "change_bytes"):
        assert getattr(reckoned, what) == pytest.approx(getattr(large, what), rel=0.25), what


def test_what_is_taken_back_disappears_from_the_other_clusters() -> None:
    network = Hierarchy(layout(SMALL, 2))
    wanted = Predicate.of(Constraint("stock", Op.EQ, "XYZ"))
    far = network.layout.routers[-1]
    network.subscribe(far, wanted)
    network.run(3000)
    near = network.places[network.home(2), 2].scheme
    assert [len(rows) for rows in near.predicates.values() if rows] == [1]  # by its border
    network.unsubscribe(far, wanted)
    network.run(3000)
    assert not any(near.predicates.values())


def test_there_is_no_negative_number_of_clusters(tmp_path: Path) -> None:
    wish = ["sim", "experiment", "hierarchy", "--clusters", "2", "--size", "2", "--flat-clusters", "-1"]
    done = CliRunner().invoke(make_app(["sim"]), [*wish, "--output", str(tmp_path)])
    assert done.exit_code == 2
    assert "--flat-clusters" in done.output
