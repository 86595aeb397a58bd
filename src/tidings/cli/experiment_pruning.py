"""`tidings sim experiment pruning`: the experiments on selective pruning, their data and their pictures."""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tidings.sim.experiments import mobile, pruning, pruning_figures
from tidings.sim.experiments.mobile import MobileOptions, MobileResult
from tidings.sim.experiments.pruning import Options, Result
from tidings.sim.experiments.pruning_shapes import broken_shapes, vain_share
from tidings.sim.service import ServiceModel

Asked = TypeVar("Asked", Options, MobileOptions)
Found = TypeVar("Found", Result, MobileResult)
PAIR = ("active", "selective")
FOUR = ("active", "lazy", "packing", "selective")


class Sweep(StrEnum):
    policies = "policies"
    unsubscriptions = "unsubscriptions"
    degree = "degree"
    clustered = "clustered"
    mobile = "mobile"


def pruning_command(
    sweep: Annotated[Sweep, typer.Option(help="What is varied.")] = Sweep.policies,
    scale: Annotated[float, typer.Option(help="1: full size; less: fewer subscriptions and publications.")] = 1.0,
    hours: Annotated[float, typer.Option(help="Of the mobile experiment.")] = 6.0,
    seed: Annotated[int, typer.Option()] = 1,
    jobs: Annotated[int, typer.Option(help="Runs at the same time.")] = 2,
    output: Annotated[Path, typer.Option(help="Where data and pictures go.")] = Path("out/pruning"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Roots of covering subscriptions are taken back: how much does that disturb, by policy?

    Example: tidings sim experiment pruning --sweep degree --scale 0.1
    """
    console = Console(stderr=as_json)
    if sweep is Sweep.mobile:
        data = run_mobile(console, hours, scale, seed, jobs, output)
        broken: list[str] = []
    else:
        data, broken = run_sweep(console, sweep, default_options(scale, seed), jobs, output)
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"pruning_{sweep.value}.json"
    path.write_text(json.dumps(data, indent=1) + "\n")
    console.print(f"data in [bold]{path}[/bold]")
    if as_json:
        typer.echo(json.dumps(data))
    if broken:
        console.print("[red]not as in the paper:[/red]", *broken, sep="\n  ")
        raise typer.Exit(1)


def default_options(scale: float, seed: int) -> Options:
    """The paper's experiment, or a smaller one of the same shape: brokers are slower by as much as it is smaller."""
    full = Options(seed=seed)
    service = full.service
    if scale == 1.0:
        return full
    return replace(
        full,
        subscriptions=round(full.subscriptions * scale),
        families=round(full.families * scale),
        publications=round(full.publications * scale),
        lead_s=full.lead_s * scale,
        unsubscriptions=round(full.unsubscriptions * scale),
        unsubscribe_ms=full.unsubscribe_ms,
        probes=max(10, round(full.probes * scale)),
        probe_after_s=full.probe_after_s * scale,
        service=replace(
            service,
            control_entry_ms=service.control_entry_ms / scale,
            publication_entry_ms=service.publication_entry_ms / scale,
        ),
    )


def run_sweep(
    console: Console, sweep: Sweep, base: Options, jobs: int, output: Path
) -> tuple[list[dict[str, Any]], list[str]]:
    settings: dict[str, dict[str, Any]] = {"": {}}
    if sweep is Sweep.unsubscriptions:
        whole_ms = base.unsubscriptions * base.unsubscribe_ms
        counts = [base.unsubscriptions * third // 3 for third in (1, 2, 3)]
        settings = {str(one): {"unsubscriptions": one, "unsubscribe_ms": whole_ms / one} for one in counts}
    elif sweep is Sweep.degree:
        settings = {str(degree): {"degree": degree} for degree in (10, 30, 50)}
    elif sweep is Sweep.clustered:
        settings = {"scattered": {}, "clustered": {"clustered": True}}
    names = FOUR if sweep is Sweep.policies else PAIR
    options = [replace(base, policy=name, **changes) for changes in settings.values() for name in names]
    found = iter(run_all(console, pruning.run, options, jobs))
    rows = {setting: {name: next(found) for name in names} for setting in settings}
    show(console, rows)
    broken: list[str] = []
    if sweep is Sweep.policies:
        broken = broken_shapes(rows[""])
        picture = pruning_figures.policies(rows[""], output)
    else:
        picture = pruning_figures.sweep(f"{sweep.value}", rows, output, f"pruning_{sweep.value}")
    console.print(f"picture in [bold]{picture}[/bold]")
    return [asdict(one) for results in rows.values() for one in results.values()], broken


def run_mobile(
    console: Console, hours: float, scale: float, seed: int, jobs: int, output: Path
) -> list[dict[str, Any]]:
    service = ServiceModel()
    service = replace(service, control_ms=service.control_ms / scale)  # fewer subscriptions, each the more work
    sight = round(100 / scale**0.5)
    base = MobileOptions(seed=seed, hours=hours, subscribers=round(5000 * scale), sight=sight, service=service)
    moves = {"monitors move": 0.0, "all move": 60.0 * scale}
    options = [replace(base, policy=name, moves_a_minute=rate) for rate in moves.values() for name in PAIR]
    found = iter(run_all(console, mobile.run, options, jobs))
    cases = {case: {name: next(found) for name in PAIR} for case in moves}
    console.print(f"picture in [bold]{pruning_figures.mobile(cases, output)}[/bold]")
    return [asdict(one) for results in cases.values() for one in results.values()]


def run_all(console: Console, run: Callable[[Asked], Found], options: list[Asked], jobs: int) -> list[Found]:
    """All of them, so many at the same time, in the order given."""
    results: list[Found] = []
    with Progress(console=console, transient=True) as progress, ProcessPoolExecutor(jobs) as pool:
        task = progress.add_task("simulating", total=len(options))
        for one in pool.map(run, options):
            results.append(one)
            progress.advance(task)
    return results


def show(console: Console, rows: dict[str, dict[str, Result]]) -> None:
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
                f"{vain_share(one):.3%}",
                f"{one.events / one.wall_s:,.0f} ({one.wall_s:.0f} s)",
            )
    console.print(table)
