"""`tidings sim experiment pruning`: the experiments on selective pruning, their data and their pictures."""

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.experiments.covering import pruning_rows, pruning_shapes
from tidings.experiments.covering.mobile import MobileResult
from tidings.experiments.covering.pruning import PruningResult
from tidings.experiments.covering.pruning_sweeps import AnyResult, PruningSweep, SweepRun, perform, runs_of
from tidings.extras import require
from tidings.figures import pruning as pruning_figures
from tidings.lab.machine import environment
from tidings.model.tables import RUNS, SIMULATIONS
from tidings.segments.writer import SegmentWriter

T = TypeVar("T", PruningResult, MobileResult)


def pruning_command(
    sweep: Annotated[PruningSweep, typer.Option(help="What is varied.")] = PruningSweep.policies,
    scale: Annotated[
        float, typer.Option(min=0.01, max=10.0, help="1: full size; less: fewer subscriptions and publications.")
    ] = 1.0,
    hours: Annotated[float, typer.Option(min=0.01, max=1000.0, help="Of the mobile experiment.")] = 6.0,
    seed: Annotated[int, typer.Option()] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 2,
    again: Annotated[bool, typer.Option("--again", help="Repeat runs that the folder has.")] = False,
    output: Annotated[Path, typer.Option(help="Where data and pictures go.")] = Path("out/pruning"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Roots of covering subscriptions are taken back: how much does that disturb, by policy?

    A sweep that was broken off goes on with the runs that are missing. Exits with 1 if the results do not have the
    shape of the paper's.

    Example: tidings sim experiment pruning --sweep degree --scale 0.1
    """
    require("matplotlib", "pyarrow", extra="lab")
    console = Console(stderr=as_json)
    runs = runs_of(sweep, scale, seed, hours)
    results = run_all(console, runs, jobs, output / "runs", again)
    if sweep is PruningSweep.mobile:
        cases = by_setting([(one, found) for one, found in results if isinstance(found, MobileResult)])
        show_mobile(console, cases)
        picture = pruning_figures.draw_mobile(cases, output)
        broken = pruning_shapes.broken_mobile(cases)
    else:
        rows = by_setting([(one, found) for one, found in results if isinstance(found, PruningResult)])
        show(console, rows)
        picture = pruning_figures.draw(sweep, rows, output)
        broken = pruning_shapes.broken(sweep, rows)
    console.print(f"picture in [bold]{picture}[/bold]")
    data = [asdict(found) for _, found in results]
    path = output / f"pruning_{sweep.value}.json"
    path.write_text("[\n" + ",\n".join(found_json(one) for one in data) + "\n]\n")  # a line for each run
    console.print(f"data in [bold]{path}[/bold], for the pipeline in [bold]{write(sweep, results, output)}[/bold]")
    if as_json:
        typer.echo(found_json(data))
    if broken:
        console.print("[red]not as in the paper:[/red]", *broken, sep="\n  ")
        raise typer.Exit(1)


def run_all(
    console: Console, runs: list[SweepRun], jobs: int, folder: Path, again: bool
) -> list[tuple[SweepRun, AnyResult]]:
    """Run all of them, a number at a time, in the given order."""
    results: list[tuple[SweepRun, AnyResult]] = []
    with Progress(console=console, transient=True) as progress, ProcessPoolExecutor(jobs) as pool:
        task = progress.add_task("simulating", total=len(runs))
        work = partial(perform, folder=folder, again=again)
        for one, found in zip(runs, pool.map(work, [one.options for one in runs]), strict=True):
            results.append((one, found))
            progress.advance(task)
    return results


def by_setting(results: list[tuple[SweepRun, T]]) -> dict[str, dict[str, T]]:
    rows: dict[str, dict[str, T]] = {}
    for one, found in results:
        rows.setdefault(one.setting, {})[one.options.policy] = found
    return rows


def write(sweep: PruningSweep, results: list[tuple[SweepRun, AnyResult]], output: Path) -> Path:
    """A row of `runs` for each, and what it found as rows of `simulations`."""
    now_ms = time.time_ns() // 1_000_000
    scenario, described = f"pruning {sweep.value}", found_json(environment())
    runs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for one, found in results:
        name = "-".join(filter(None, ("pruning", sweep.value, one.setting.replace(" ", "_"), one.options.policy)))
        run = f"{name}-{one.options.seed}-{now_ms}"
        ended_ms = found.ended_ms or now_ms
        rows += pruning_rows.rows(run, scenario, one.setting, found)
        runs.append(
            {
                "run": run,
                "experiment": scenario,
                "seed": one.options.seed,
                "started_ms": ended_ms - round(found.wall_s * 1000),
                "ended_ms": ended_ms,
                "parameters": found_json(asdict(one.options)),
                "outcome": "done",
                "environment": described,
            }
        )
    SegmentWriter(output / "data", RUNS, "pruning").append(runs, now_ms)
    return SegmentWriter(output / "data", SIMULATIONS, "pruning").append(rows, now_ms)


def show(console: Console, rows: dict[str, dict[str, PruningResult]]) -> None:
    columns = (
        "delay s",
        "p10–p90 s",
        "queue max",
        "quiet after s",
        "NRS A…E",
        "table before, after",
        "in vain",
        "events/s",
    )
    table = Table("", *columns)
    for setting, results in rows.items():
        for name, one in results.items():
            table.add_row(
                f"{name} {setting}".strip(),
                f"{one.delay_ms_mean / 1000:,.2f}",
                f"{one.delay_ms_p10 / 1000:,.2f}–{one.delay_ms_p90 / 1000:,.2f}",
                f"{one.queue_max:,}",
                f"{one.quiet_s:,.0f}",
                " ".join(map(str, one.nrs_messages.values())),
                f"{one.table_before:,.0f}, {one.table_after:,.0f}",
                f"{pruning_shapes.vain_share(one):.3%}",
                f"{one.events / one.cpu_s:,.0f} ({one.cpu_s:.0f} s)",
            )
    console.print(table)


def show_mobile(console: Console, cases: dict[str, dict[str, MobileResult]]) -> None:
    table = Table("", "queue mean", "queue at the end", "table mean", "in vain", "events/s")
    for case, results in cases.items():
        for name, one in results.items():
            queue = [length for _, length in one.queues]
            entries = [mean for _, mean in one.tables]
            table.add_row(
                f"{name}, {case}",
                f"{sum(queue) / len(queue):,.0f}",
                f"{queue[-1]:,}",
                f"{sum(entries) / len(entries):,.0f}",
                f"{pruning_shapes.vain_share(one):.2%}",
                f"{one.events / one.cpu_s:,.0f} ({one.cpu_s:.0f} s)",
            )
    console.print(table)
