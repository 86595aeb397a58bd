"""`tidings sim experiment hermes`: the experiments on Hermes, their data and their pictures."""

import time
from concurrent.futures import ProcessPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.experiments.hermes import experiments as hermes
from tidings.experiments.hermes.experiments import SMALL, HermesPoint, HermesScale
from tidings.experiments.hermes.shapes import broken_shapes, curves, distribution
from tidings.extras import require
from tidings.figures import hermes as hermes_figures
from tidings.model.tables import SIMULATIONS
from tidings.segments.writer import SegmentWriter

GROUPS = {"e2": ("e2a", "e2b", "e2c"), "e4": ("e4a", "e4b"), "all": tuple(hermes.EXPERIMENTS)}


class Which(StrEnum):
    e1 = "e1"
    e2 = "e2"
    e2a = "e2a"
    e2b = "e2b"
    e2c = "e2c"
    e3 = "e3"
    e4 = "e4"
    e4a = "e4a"
    e4b = "e4b"
    pictures = "pictures"
    all = "all"


def hermes_command(
    which: Annotated[Which, typer.Argument(help="e1: routing, e2: space, e3: its distribution, e4: messages.")],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each, with the seeds from 1.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="A fifth of the paper's size.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 2,
    output: Annotated[Path, typer.Option(help="Where data and pictures go.")] = Path("out/hermes"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the means as JSON.")] = False,
) -> None:
    """Hermes, CovAdv and B-DRP side by side: latency and hops, tables, messages; `pictures`: topologies and trees.

    Example: tidings sim experiment hermes e1 --small
    """
    require("matplotlib", "pyarrow", extra="lab")
    console = Console(stderr=as_json)
    scale = SMALL if small else HermesScale()
    if which in (Which.pictures, Which.all):
        for path in hermes_figures.draw_topologies(scale.world(1), output):
            console.print(f"picture in [bold]{path}[/bold]")
    names = GROUPS.get(which.value, (which.value,) if which is not Which.pictures else ())
    results = run_all(console, names, seeds, scale, jobs)
    broken: list[str] = []
    for name, points in results.items():
        show(console, name, points)
        console.print(f"picture in [bold]{hermes_figures.draw(name, points, output)}[/bold]")
        console.print(f"data in [bold]{write(points, output)}[/bold]")
        broken += broken_shapes(name, points)
    if as_json:
        typer.echo(found_json(summary(results)))
    if broken:
        console.print("[red]not as in the paper:[/red]", *broken, sep="\n  ")
        raise typer.Exit(1)


def run_all(
    console: Console, names: tuple[str, ...], seeds: int, scale: HermesScale, jobs: int
) -> dict[str, list[HermesPoint]]:
    work = [(name, seed, scale) for name in names for seed in range(1, seeds + 1)]
    results: dict[str, list[HermesPoint]] = {name: [] for name in names}
    with Progress(console=console, transient=True) as progress, ProcessPoolExecutor(jobs) as pool:
        task = progress.add_task("simulating", total=len(work))
        for (name, _, _), points in zip(work, pool.map(hermes.run, work), strict=True):
            results[name] += points
            progress.advance(task)
    return results


def write(points: list[HermesPoint], output: Path) -> Path:
    """The points as rows of the table `simulations`."""
    now_ms = time.time_ns() // 1_000_000
    rows = [
        {
            "run": f"hermes-{point.experiment}-{point.seed}-{now_ms}",
            "scenario": f"hermes {point.experiment}",
            "seed": point.seed,
            "at_ms": 0.0,
            "node": point.x if point.experiment == "e3" else None,
            "metric": point.metric,
            "value": float(point.value),
            "labels": found_json({"system": point.system, "x": point.x}),
        }
        for point in points
    ]
    return SegmentWriter(output / "data", SIMULATIONS, "hermes").append(rows, now_ms)


def summary(results: dict[str, list[HermesPoint]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, points in results.items():
        if name == "e3":
            found[name] = [
                {"system": system, "entries": size, "brokers": count}
                for system in hermes.THREE
                for size, count in sorted(distribution(points, system).items())
            ]
            continue
        found[name] = [
            {"system": system, "metric": metric, "x": x, "mean": one.mean, "half_width": one.half_width}
            for (metric, system), row in curves(points).items()
            for x, one in row.items()
        ]
    return found


def show(console: Console, name: str, points: list[HermesPoint]) -> None:
    if name == "e3":
        table = Table("E3", "mode", "least", "most", "brokers with none")
        for system in hermes.THREE:
            found = distribution(points, system)
            none = found[0] / len({point.seed for point in points})
            table.add_row(system, str(found.most_common(1)[0][0]), str(min(found)), str(max(found)), f"{none:.0f}")
        console.print(table)
        return
    sizes = sorted({point.x for point in points})
    table = Table(name.upper(), *(f"{size:,}" for size in sizes))
    for (metric, system), row in curves(points).items():
        cells = [f"{one.mean:,.4g} ±{one.half_width:.2g}" if x in row else "" for x, one in row.items()]
        table.add_row(f"{metric}, {system}", *cells)
    console.print(table)
