"""Pictures of the experiments on Hermes: curves with confidence intervals, topologies, dissemination trees."""

from collections.abc import Iterable, Sequence
from math import cos, pi, sin
from pathlib import Path
from random import Random
from typing import Any

from tidings.experiments.hermes.experiments import FOUR, THREE, HermesPoint
from tidings.experiments.hermes.shapes import Curves, curves, distribution
from tidings.experiments.hermes.systems import BDRP, COVADV_MST, COVADV_NEAREST, HERMES, make_system
from tidings.experiments.hermes.world import HermesWorld
from tidings.figures.common import pyplot, save_figure
from tidings.overlay.topology.graph import Graph

COLOURS = {HERMES: "C0", COVADV_MST: "C3", COVADV_NEAREST: "C1", BDRP: "C2"}
VARIED = {"e1": "subscribers", "e2a": "subscribers", "e2b": "publishers", "e2c": "brokers"}
VARIED |= {"e4a": "subscribers", "e4b": "publishers"}
PANELS: dict[str, tuple[str, ...]] = {
    "e1": ("latency_ms", "hops", "cost_ms", "path_hops"),
    "e2a": ("advRT_entries", "subRT_entries"),
    "e2b": ("advRT_entries", "subRT_entries"),
    "e2c": ("advRT_entries", "subRT_entries"),
    "e4a": ("publications", "subscriptions", "advertisements"),
    "e4b": ("publications", "subscriptions", "advertisements"),
}


def draw(experiment: str, points: Sequence[HermesPoint], folder: Path) -> Path:
    if experiment == "e3":
        return _distribution(points, folder)
    plots = pyplot()
    panels = PANELS[experiment]
    figure, grid = plots.subplots(1, len(panels), figsize=(4.6 * len(panels), 4.2), layout="constrained", squeeze=False)
    found = curves(points)
    for axes, metric in zip(grid[0], panels, strict=True):
        _curve(axes, found, metric)
        axes.set_xlabel(VARIED[experiment])
        axes.set_title(metric.replace("_", " "))
    grid[0][0].legend()
    return save_figure(figure, folder, f"hermes_{experiment}")


def _curve(axes: Any, found: Curves, metric: str) -> None:
    for system in FOUR:
        row = found.get((metric, system))
        if row:
            means, widths = zip(*row.values(), strict=True)
            axes.errorbar(list(row), means, yerr=widths, fmt="o-", capsize=3, color=COLOURS[system], label=system)
    if any(one.mean > 0 for row in (found.get((metric, BDRP), {}),) for one in row.values()) and metric != "hops":
        axes.set_yscale("log")


def _distribution(points: Sequence[HermesPoint], folder: Path) -> Path:
    plots = pyplot()
    figure, grid = plots.subplots(1, len(THREE), figsize=(14, 4.2), layout="constrained")
    seeds = len({point.seed for point in points})
    for axes, system in zip(grid, THREE, strict=True):
        found = distribution(points, system)
        axes.bar(list(found), [count / seeds for count in found.values()], color=COLOURS[system])
        axes.set_title(system)
        axes.set_xlabel("table entries")
        axes.set_ylabel("brokers")
    return save_figure(figure, folder, "hermes_e3")


# --- topologies -----------------------------------------------------------------------------------------------------


def positions(graph: Graph) -> dict[int, tuple[float, float]]:
    """Autonomous systems on a circle, the hosts of each scattered around its middle."""
    rng = Random(0)
    count = max(graph.areas.values(), default=0) + 1
    found = {}
    for node in graph:
        angle = 2 * pi * graph.areas.get(node, 0) / count
        turn, radius = rng.uniform(0, 2 * pi), 0.28 * rng.random() ** 0.5
        found[int(node)] = (cos(angle) + radius * cos(turn), sin(angle) + radius * sin(turn))
    return found


def draw_topologies(world: HermesWorld, folder: Path) -> list[Path]:
    """The physical network, the logical ones on it, and the way of one event through each system."""
    at = positions(world.physical)
    of_broker = {number: at[host] for number, host in enumerate(world.hosts)}
    logical = {"Pan": world.pan_graph, "spanning tree": world.spanning_tree, "nearest": world.nearest_tree}
    plots = pyplot()
    figure, grid = plots.subplots(1, 4, figsize=(20, 5.4), layout="constrained")
    _network(grid[0], at, ((int(edge.a), int(edge.b)) for edge in world.physical.edges()), "0.6")
    grid[0].set_title(f"physical: {len(at)} hosts")
    for axes, (name, graph) in zip(grid[1:], logical.items(), strict=True):
        _network(axes, of_broker, ((int(edge.a), int(edge.b)) for edge in graph.edges()), "C0")
        axes.set_title(f"{name}: {world.count} brokers")
    return [save_figure(figure, folder, "hermes_topologies"), _trees(world, of_broker, folder)]


def _trees(world: HermesWorld, at: dict[int, tuple[float, float]], folder: Path) -> Path:
    plots = pyplot()
    figure, grid = plots.subplots(1, len(FOUR), figsize=(20, 5.4), layout="constrained")
    subscribers = world.clients("subscribers", min(50, world.count), 1, 1, one_a_broker=True)
    publisher = world.clients("publishers", 1, 1, 1)[0]
    for axes, name in zip(grid, FOUR, strict=True):
        system = make_system(name, world, ["type0"])
        system.advertise([publisher])
        system.subscribe(subscribers)
        trip = system.publish(publisher.broker, "type0")
        _network(axes, at, trip.links, COLOURS[name])
        axes.plot(*zip(*[at[broker] for broker in trip.notified], strict=True), "o", color="k", markersize=4)
        axes.plot(*at[publisher.broker], "*", color="C3", markersize=14)
        axes.set_title(f"{name}: {len(trip.links)} links for {len(trip.notified)} brokers")
    return save_figure(figure, folder, "hermes_trees")


def _network(axes: Any, at: dict[int, tuple[float, float]], links: Iterable[tuple[int, int]], colour: str) -> None:
    axes.plot(*zip(*at.values(), strict=True), ".", color="0.7", markersize=2)
    for a, b in links:
        axes.plot(*zip(at[a], at[b], strict=True), "-", color=colour, linewidth=0.4)
    axes.set_axis_off()
    axes.set_aspect("equal")
