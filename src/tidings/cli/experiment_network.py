"""`tidings net experiment …`: the papers' experiments with real broker processes on this machine."""

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.lab import real_pruning
from tidings.lab.real_pruning import PruningMeasurement, PruningOptions
from tidings.lab.real_pruning_figures import draw

app = typer.Typer(no_args_is_help=True, help="Experiments with real broker processes.")
OUTPUT = Path("out/net-experiments")
Output = Annotated[Path, typer.Option(help="Where data and pictures go.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


@app.command()
def pruning(
    policy: Annotated[list[str] | None, typer.Option(help="May be repeated; active and selective if left out.")] = None,
    covered: Annotated[int, typer.Option(min=1, help="Subscriptions that the roots cover.")] = 10_000,
    roots: Annotated[int, typer.Option(min=1, help="Root subscriptions; all are taken back.")] = 300,
    before: Annotated[float, typer.Option(help="Seconds of publications before.")] = 30.0,
    port: Annotated[int, typer.Option(help="The first of 21.")] = 7500,
    seed: Annotated[int, typer.Option()] = 1,
    output: Output = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Seven brokers under covering; roots of covering subscriptions are taken back: how much does that disturb?

    Example: tidings net experiment pruning --covered 1000 --roots 30
    """
    console = Console(stderr=as_json)
    options = PruningOptions(covered, roots, before_seconds=before, port=port, seed=seed)
    found = []
    for one in policy or ["active", "selective"]:
        with console.status(f"{one}: {roots} roots over {covered} others"), tempfile.TemporaryDirectory() as folder:
            found.append(real_pruning.measure(one, options, Path(folder)))
    output.mkdir(parents=True, exist_ok=True)
    data = real_pruning.as_rows(found)
    (output / "pruning.json").write_text(json.dumps(data, indent=1) + "\n")
    draw(found, output / "pruning.png")
    console.print(_table(found))
    console.print(f"data and picture in [bold]{output}[/bold]")
    if as_json:
        typer.echo(json.dumps(data))


def _table(found: list[PruningMeasurement]) -> Table:
    table = Table("", *(one.policy for one in found))
    rows = {
        "control messages": [str(sum(one.control.values())) for one in found],
        "… at the publisher's broker": [str(one.control["1"]) for one in found],
        "most bytes waiting at a broker": [str(max(one.queue_bytes_max.values())) for one in found],
        "publication delay, ms: mean, p90, max": [_delay(one.delay_ms) for one in found],
        "… before the removals": [_delay(one.delay_before_ms) for one in found],
        "seconds until nothing more was said": [f"{one.removal_seconds:.1f}" for one in found],
        "table entries, all brokers": [str(sum(one.entries.values())) for one in found],
        "preserved": [str(one.preserved) for one in found],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _delay(summary: dict[str, float]) -> str:
    return ", ".join(f"{summary[name]:.1f}" for name in ("mean", "p90", "max")) if summary else "no deliveries"
