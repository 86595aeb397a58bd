"""The experiments on Hermes in small: the same shapes as at full size."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.experiments.hermes.experiments import EXPERIMENTS, FOUR, SMALL, run
from tidings.experiments.hermes.shapes import broken_shapes
from tidings.experiments.hermes.systems import make_system
from tidings.figures import hermes as hermes_figures
from tidings.model.tables import SIMULATIONS
from tidings.segments.reader import read_rows


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_shapes_of_the_paper_show_in_small(experiment: str) -> None:
    points = [point for seed in (1, 2) for point in run((experiment, seed, SMALL))]
    assert broken_shapes(experiment, points) == []


def test_every_system_brings_an_event_to_the_same_brokers_over_a_tree() -> None:
    world = SMALL.world(4)
    publishers = world.clients("publishers", 5, 3, 2)
    subscribers = world.clients("subscribers", 40, 3, 2)
    for name in FOUR:
        system = make_system(name, world, ["type0", "type1", "type2"])
        system.advertise(publishers)
        system.subscribe(subscribers)
        for client in publishers:
            for wanted in client.types:
                trip = system.publish(client.broker, wanted)
                expected = [one.broker for one in subscribers if wanted in one.types]
                assert sorted(trip.notified.elements()) == sorted(expected)
                targets = [to for _, to in trip.links]
                assert len(targets) == len(set(targets))
                assert client.broker not in targets


def test_the_command_writes_data_and_pictures(tmp_path: Path) -> None:
    arguments = ["sim", "experiment", "hermes", "e3", "--small", "--seeds", "2", "--output", str(tmp_path), "--json"]
    done = CliRunner().invoke(make_app(), arguments)
    assert done.exit_code == 0, done.output
    assert {row["system"] for row in json.loads(done.stdout)["e3"]} == {"Hermes", "CovAdv MST", "B-DRP"}
    assert (tmp_path / "hermes_e3.svg").stat().st_size > 1000
    rows = list(read_rows(tmp_path / "data", SIMULATIONS))
    assert len(rows) == 2 * 3 * SMALL.brokers
    assert {row["metric"] for row in rows} == {"table_entries"}


def test_topologies_and_trees_are_drawn(tmp_path: Path) -> None:
    paths = hermes_figures.draw_topologies(SMALL.world(1, 30), tmp_path)
    assert [path.name for path in paths] == ["hermes_topologies.png", "hermes_trees.png"]
    assert all(path.with_suffix(".svg").stat().st_size > 1000 for path in paths)
