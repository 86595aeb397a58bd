"""`tidings net experiment …`: the papers' experiments with real broker processes on this machine."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.cli.terminated import terminated
from tidings.errors import UsageError
from tidings.experiments.bdrp import real_network
from tidings.experiments.bdrp.broker_costs import fit
from tidings.experiments.bdrp.load_process import Stretch
from tidings.experiments.bdrp.real_measurement import RealMeasurement, linearity
from tidings.experiments.bdrp.real_network import VARIANTS
from tidings.experiments.bdrp.scale_out import CLIENTS
from tidings.experiments.covering import real_pruning
from tidings.experiments.covering.real_pruning import PruningMeasurement, RealPruningOptions
from tidings.figures import scale_out as real_network_figures
from tidings.figures.real_pruning import draw

app = typer.Typer(no_args_is_help=True, help="Experiments with real broker processes.")
WITHOUT_LINKS = ("graded", "activemq")  # the others are the same where there is one broker
OUTPUT = Path("out/net-experiments")
Output = Annotated[Path, typer.Option(help="Where data and pictures go.")]
SIZES = (1, 2, 4, 8)
SECONDS_MAX = 86400.0
RATE_MAX = 1_000_000
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]


@app.command()
def pruning(
    policy: Annotated[list[str] | None, typer.Option(help="May be repeated; active and selective if left out.")] = None,
    covered: Annotated[int, typer.Option(min=1, help="Subscriptions that the roots cover.")] = 10_000,
    roots: Annotated[int, typer.Option(min=1, help="Root subscriptions; all are taken back.")] = 300,
    before: Annotated[float, typer.Option(min=0.0, max=3600.0, help="Seconds of publications before.")] = 30.0,
    port: Annotated[int, typer.Option(help="The first of 21.")] = 7500,
    seed: Annotated[int, typer.Option()] = 1,
    output: Output = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Seven brokers under covering; roots of covering subscriptions are taken back: how much does that disturb?

    Example: tidings net experiment pruning --covered 1000 --roots 30
    """
    console = Console(stderr=as_json)
    options = RealPruningOptions(covered, roots, before_seconds=before, port=port, seed=seed)
    found = []
    for one in policy or ["active", "selective"]:
        doing = console.status(f"{one}: {roots} roots over {covered} others")
        with doing, terminated(), tempfile.TemporaryDirectory() as folder:
            found.append(real_pruning.measure(one, options, Path(folder)))
    output.mkdir(parents=True, exist_ok=True)
    data = real_pruning.as_rows(found)
    (output / "pruning.json").write_text(found_json(data, indent=1) + "\n")
    draw(found, output / "pruning.png")
    console.print(_table(found))
    console.print(f"data and picture in [bold]{output}[/bold]")
    if as_json:
        typer.echo(found_json(data))


@app.command("scale-out")
def scale_out(
    brokers: Annotated[list[int] | None, typer.Option(help="1, 2, 4 or 8; may be repeated; all if left out.")] = None,
    variant: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(VARIANTS)}; all if left out.")] = None,
    peak: Annotated[
        float, typer.Option(min=1.0, max=1e6, help="Messages a second of each of the 80 clients in the end.")
    ] = 100.0,
    seconds: Annotated[
        float,
        typer.Option(
            min=2.0,
            max=SECONDS_MAX,
            help="How long the rate rises, from 1 a client to the peak; or of each constant rate.",
        ),
    ] = 60.0,
    constant: Annotated[
        list[float] | None,
        typer.Option(help="Instead: this rate of all clients together; may be repeated, one after the other."),
    ] = None,
    seed: Annotated[int, typer.Option()] = 1,
    fresh: Annotated[bool, typer.Option(help="Measure again what is there already.")] = False,
    kept: Annotated[bool, typer.Option("--kept", help="Measure nothing, show what the output folder has.")] = False,
    output: Output = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """The paper's scale-out: brokers in network namespaces, links of 1 MB/s, 80 clients (needs root).

    Flooding and ActiveMQ's own network of brokers run beside B-DRP with graded and plain encoding. Each run is kept in
    the output folder as soon as it is over: the same command, given again, goes on where it was interrupted.

    Example: tidings net experiment scale-out --brokers 8 --peak 20 --seconds 20
    """
    console = Console(stderr=as_json)
    _check_sizes(brokers or SIZES, variant or VARIANTS)
    _check_rates(constant)
    if constant:
        name, profile = "constant", [Stretch(rate, rate, seconds) for rate in constant]
    else:
        name, profile = "ramp", [Stretch(float(CLIENTS), CLIENTS * peak, seconds)]
    found: list[RealMeasurement] = []
    for size in brokers or SIZES:
        for one in [one for one in variant or VARIANTS if size > 1 or one in WITHOUT_LINKS]:
            path = (
                output / name / f"{size}-{one}-{'-'.join(f'{part.last:g}' for part in profile)}-{seconds:g}-{seed}.json"
            )
            if kept and not path.exists():
                continue
            if fresh or not path.exists():
                with (
                    console.status(f"{size} brokers, {one}, up to {profile[-1].last:g} messages a second"),
                    terminated(),
                ):
                    real_network.measure(size, one, profile, seed).save(path)
            found.append(RealMeasurement.load(path))
    data = [one.brief() for one in found]
    _write_scale(output, name, found, data)
    _print_scale(console, found, constant=bool(constant))
    console.print(f"data and picture in [bold]{output}[/bold]")
    if as_json:
        typer.echo(found_json(data))


@app.command()
def costs(
    rate: Annotated[list[float] | None, typer.Option(help="Messages a second; may be repeated.")] = None,
    seconds: Annotated[float, typer.Option(min=2.0, max=SECONDS_MAX, help="Of each run.")] = 10.0,
    runs: Annotated[
        Path | None, typer.Option(help="Where scale-out kept its runs: take these, measure nothing.")
    ] = None,
    output: Output = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Measure the processor time per message on four real brokers, for the simulator (needs root).

    Example: tidings net experiment costs && tidings sim experiment large-network --costs out/net-experiments/costs.json
    """
    console = Console(stderr=as_json)
    _check_rates(rate)
    work: list[dict[str, float]] = []
    for path in sorted(runs.glob("*/*.json")) if runs else ():
        work += RealMeasurement.load(path).work
    for one in [] if runs else rate or [200.0, 600.0]:
        for variant in ("graded", "flooding"):
            with console.status(f"four brokers, {variant}, {one:g} messages a second"), terminated():
                work += real_network.measure(4, variant, [Stretch(one, one, seconds)]).work
    found = fit(work)
    output.mkdir(parents=True, exist_ok=True)
    (output / "costs.json").write_text(found_json(asdict(found), indent=1) + "\n")
    for name, price in asdict(found).items():
        console.print(f"{name}: {price:.1f} µs")
    if as_json:
        typer.echo(found_json(asdict(found)))


def _write_scale(output: Path, name: str, found: list[RealMeasurement], data: list[dict[str, Any]]) -> None:
    output.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(map(found_json, data))
    (output / f"scale_out_{name}.json").write_text(f"[\n{lines}\n]\n")
    real_network_figures.draw(found, output / f"scale_out_{name}.png")


def _print_scale(console: Console, found: list[RealMeasurement], *, constant: bool) -> None:
    console.print(_scale_table(found))
    for run in found:
        late, why = run.limit()
        if why:
            console.print(f"{run.brokers} brokers, {run.variant}: fell behind in second {late}: {why}")
    if constant:
        console.print(_constant_table(found))


def _check_sizes(brokers: Sequence[int], variants: Sequence[str]) -> None:
    for one in variants:
        if one not in VARIANTS:
            raise UsageError("E_VARIANT", f"{one} is not one of {', '.join(VARIANTS)}")
    for size in brokers:
        if size not in SIZES:
            raise UsageError("E_BROKERS", f"{size} is not one of {', '.join(map(str, SIZES))}")


def _check_rates(rates: list[float] | None) -> None:
    for rate in rates or ():
        if not 0 < rate <= RATE_MAX:
            raise UsageError("E_RATE", f"{rate:g} messages a second; give more than 0 and at most {RATE_MAX:,}")


def _scale_table(found: list[RealMeasurement]) -> Table:
    ratios = ("frames", "all", "like for like")
    table = Table("brokers", "variant", "sent", "undelivered", "busiest link", "linear", *ratios)
    for one in found:
        peak = max((second.busiest for second in one.timeline), default=0.0)
        shares = [f"{one.ratios[name]:.3f}" if name in one.ratios else "" for name in ratios]
        cells = (str(one.brokers), one.variant, f"{one.sent} of {one.planned}", f"{one.undelivered} of {one.expected}")
        straight = f"{linearity(one.timeline):.3f}" if one.link_bytes else ""
        table.add_row(*cells, f"{peak:.1%}", straight, *shares)
    return table


def _constant_table(found: list[RealMeasurement]) -> Table:
    table = Table("brokers", "variant", "asked for", "input", "output expected", "output")
    for one in found:
        for stretch, *rates in one.stretches():
            table.add_row(str(one.brokers), one.variant, f"{stretch.last:g}", *(f"{rate:.0f}" for rate in rates))
    return table


def _table(found: list[PruningMeasurement]) -> Table:
    table = Table("", *(one.policy for one in found))
    rows = {
        "control messages": [str(sum(one.control.values())) for one in found],
        "… at the publisher's broker": [str(one.control["1"]) for one in found],
        "most bytes waiting at a broker": [str(max(one.queue_bytes_max.values())) for one in found],
        "publication delay, ms: mean, p90, max": [_delay(one.delay_ms) for one in found],
        "… before the removals": [_delay(one.delay_before_ms) for one in found],
        "seconds until control traffic ended": [f"{one.removal_seconds:.1f}" for one in found],
        "table entries, all brokers": [str(sum(one.entries.values())) for one in found],
        "preserved": [str(one.preserved) for one in found],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table


def _delay(summary: dict[str, float]) -> str:
    return ", ".join(f"{summary[name]:.1f}" for name in ("mean", "p90", "max")) if summary else "no deliveries"
