"""`tidings net experiment …`: the papers' experiments with real broker processes on this machine."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.errors import UsageError
from tidings.lab import real_network, real_network_figures, real_pruning
from tidings.lab.broker_costs import fit
from tidings.lab.real_network import VARIANTS, RealMeasurement
from tidings.lab.real_pruning import PruningMeasurement, PruningOptions
from tidings.lab.real_pruning_figures import draw
from tidings.lab.scale_out import CLIENTS

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


@app.command("scale-out")
def scale_out(
    brokers: Annotated[list[int] | None, typer.Option(help="1, 2, 4 or 8; may be repeated; all if left out.")] = None,
    variant: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(VARIANTS)}; all if left out.")] = None,
    peak: Annotated[
        float, typer.Option(min=1.0, help="Messages a second of each of the 80 clients in the end.")
    ] = 100.0,
    seconds: Annotated[
        float, typer.Option(min=2.0, help="How long the rate rises, from 1 a client to the peak.")
    ] = 60.0,
    constant: Annotated[list[float] | None, typer.Option(help="Instead: this rate of all; may be repeated.")] = None,
    seed: Annotated[int, typer.Option()] = 1,
    output: Output = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """The paper's scale-out: brokers in network namespaces, links of 1 MB/s, 80 clients (needs root).

    Flooding and ActiveMQ's own network of brokers run beside B-DRP with graded and plain encoding.

    Example: tidings net experiment scale-out --brokers 8 --peak 20 --seconds 20
    """
    console = Console(stderr=as_json)
    profiles = [(rate, rate) for rate in constant] if constant else [(float(CLIENTS), CLIENTS * peak)]
    for one in variant or VARIANTS:
        if one not in VARIANTS:
            raise UsageError("E_VARIANT", f"{one} is not one of {', '.join(VARIANTS)}")
    found: list[RealMeasurement] = []
    for rates in profiles:
        for size in brokers or (1, 2, 4, 8):
            for one in variant or VARIANTS:
                with console.status(f"{size} brokers, {one}, {rates[0]:g} to {rates[1]:g} messages a second"):
                    found.append(real_network.measure(size, one, rates, seconds, seed))
    output.mkdir(parents=True, exist_ok=True)
    name = "constant" if constant else "ramp"
    data = [asdict(one) for one in found]
    (output / f"scale_out_{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    real_network_figures.draw(found, output / f"scale_out_{name}.png")
    console.print(_scale_table(found))
    console.print(f"data and picture in [bold]{output}[/bold]")
    if as_json:
        typer.echo(json.dumps(data))


@app.command()
def costs(
    rate: Annotated[list[float] | None, typer.Option(help="Messages a second; may be repeated.")] = None,
    seconds: Annotated[float, typer.Option(min=2.0, help="Of each run.")] = 10.0,
    output: Output = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """What a message costs a broker's processor, from four real brokers; for the simulator (needs root).

    Example: tidings net experiment costs && tidings sim experiment large-network --costs out/net-experiments/costs.json
    """
    console = Console(stderr=as_json)
    work: list[dict[str, float]] = []
    for one in rate or [200.0, 600.0]:
        for variant in ("graded", "flooding"):
            with console.status(f"four brokers, {variant}, {one:g} messages a second"):
                work += real_network.measure(4, variant, (one, one), seconds).work
    found = fit(work)
    output.mkdir(parents=True, exist_ok=True)
    (output / "costs.json").write_text(json.dumps(asdict(found), indent=1) + "\n")
    for name, price in asdict(found).items():
        console.print(f"{name}: {price:.1f} µs")
    if as_json:
        typer.echo(json.dumps(asdict(found)))


def _scale_table(found: list[RealMeasurement]) -> Table:
    columns = ("sent", "delivered", "undelivered", "busiest link", "frames ÷ least", "all ÷ least", "of these headers")
    table = Table("brokers", "variant", "msg/s", *columns)
    for one in found:
        peak = max((second.busiest for second in one.timeline), default=0.0)
        parts = (one.frame_bytes, one.link_bytes, one.header_bytes)
        shares = [f"{part / one.least_bytes:.2f}" if part and one.least_bytes else "" for part in parts]
        rates = f"{one.rates[0]:g}" if one.rates[0] == one.rates[1] else f"{one.rates[0]:g} to {one.rates[1]:g}"
        missing = one.expected - one.delivered
        cells = (str(one.brokers), one.variant, rates, str(one.sent), str(one.delivered), str(missing))
        table.add_row(*cells, f"{peak:.1%}", *shares)
    return table


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
