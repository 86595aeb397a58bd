"""`tidings lab`: measure servers, fit models to what was measured, report."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from tidings.capacity.fitting import ModelChoice, choose
from tidings.capacity.processing import MODELS
from tidings.cli.json_text import found_json
from tidings.cli.lab.calibrate import calibrate
from tidings.cli.lab.compare import compare
from tidings.cli.lab.thesis import thesis
from tidings.cli.lab.validate import validate
from tidings.cli.tables import NARROW, table_of
from tidings.errors import UsageError
from tidings.extras import require
from tidings.figures.lab_report import write_report
from tidings.lab import experiment as experiments
from tidings.lab.durations import expected_s
from tidings.lab.execution import Execution
from tidings.lab.experiment import SERVERS, Experiment
from tidings.lab.result_tables import read_tables
from tidings.lab.results import Mean, PointResult, read_results
from tidings.lab.servers import install_activemq

FOLDER = Path("lab-data")
Folder = Annotated[Path, typer.Option(help="Where measurements are kept.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Measure servers, fit models, report.")
    for command in (presets, run, results, compare, fit, report, calibrate, validate, thesis):
        group.command()(command)
    app.add_typer(group, name="lab")


def presets() -> None:
    """List the experiments that come with Tidings.

    Example: tidings lab presets
    """
    table = table_of("preset", "measurements", "minutes", "what")
    for name in experiments.presets():
        one = experiments.parse(experiments.preset(name))
        minutes = expected_s([one]) / 60
        table.add_row(name, f"{len(list(one.points()))} × {one.runs} runs", f"{minutes:.0f}", one.about)
    every = [experiments.parse(experiments.preset(name)) for name in experiments.thesis()]
    total = expected_s(every) / 60
    count = sum(len(list(one.points())) for one in every)
    table.add_row(
        "all", f"{count}", f"{total:.0f}", f"all but {', '.join(experiments.LOOK_AROUND)}, with the same servers"
    )
    Console().print(table)


def run(
    what: Annotated[
        list[str], typer.Argument(help="Presets' names, or TOML files of your own; all: the whole grid of the thesis.")
    ],
    folder: Folder = FOLDER,
    server: Annotated[list[str] | None, typer.Option(help="Only this server (may be repeated).")] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs of each measurement, also of those that take long.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds of each run that count; otherwise until the rate is known.")
    ] = None,
    busy: Annotated[
        bool, typer.Option("--busy", help="The machine does other things too: rates a second of processor time.")
    ] = False,
    install: Annotated[bool, typer.Option(help="Install Debian's activemq if it is missing (as root).")] = False,
) -> None:
    """Carry out experiments. What is measured already is not measured again, so it may be broken off at any time.

    Example: tidings lab run quick --server tidings
    """
    require("pyarrow", "scipy", extra="lab")
    names = experiments.thesis() if what == ["all"] else what
    chosen = [_changed(experiments.read(Path(name)), server, runs, seconds, busy=busy) for name in names]
    if install and any("activemq" in one.servers for one in chosen):
        install_activemq()
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    execution = Execution(chosen, folder)
    _carry_out(execution, console)
    found = read_results(folder)
    shown = Console()
    for one in chosen:
        shown.print(as_table([each for each in found if each.title == one.title], shown.width))
    if execution.given_up:
        remedy = "run it again to try once more" + ("" if busy else ", or with --busy if the machine does other things")
        console.print(f"{len(execution.given_up)} measurements did not succeed; {remedy}")
        raise typer.Exit(1)


def _carry_out(execution: Execution, console: Console) -> None:
    """With a bar that shows the time that is left, not the number of runs: they differ by a factor of a hundred."""
    missing, left_s, begin = execution.missing(), execution.missing_s(), time.monotonic()
    if not missing:
        return
    console.print(f"{missing} runs, about {_minutes(left_s)}")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[runs]} runs, {task.fields[left]}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=left_s, runs=f"0/{missing}", left="")
        for step in execution.steps():
            passed, left = time.monotonic() - begin, f"about {_minutes(step.left_s)} left"
            where, runs = f"{step.point.experiment} {step.point.server}", f"{step.finished}/{step.wanted}"
            progress.update(task, description=where, completed=passed, total=passed + step.left_s, runs=runs, left=left)
            if step.text != "done":
                progress.console.print(f"{step.point.name}: {step.text}", markup=False)
    console.print(f"{missing - execution.missing()} runs in {_minutes(time.monotonic() - begin)}")


def _minutes(seconds: float) -> str:
    """
    >>> _minutes(31), _minutes(95), _minutes(1500)
    ('31 s', '1.6 minutes', '25 minutes')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} minutes" if seconds < 600 else f"{seconds / 60:.0f} minutes"


def _changed(
    experiment: Experiment, server: list[str] | None, runs: int | None, seconds: float | None, *, busy: bool
) -> Experiment:
    measure = experiment.measure if seconds is None else experiment.measure.lasting(seconds)
    measure = measure.on_busy_machine() if busy else measure
    measure = measure if runs is None else replace(measure, long_s=0.0)
    servers = tuple(server) if server else experiment.servers
    return replace(experiment, servers=servers, runs=runs or experiment.runs, measure=measure)


def results(
    experiment: Annotated[str | None, typer.Argument(help="Of one experiment; all of them without it.")] = None,
    folder: Folder = FOLDER,
    as_json: AsJson = False,
) -> None:
    """Show what was measured: mean and confidence interval over the runs that count.

    Example: tidings lab results quick --json
    """
    found = read_results(folder, experiment)
    if as_json:
        for one in found:
            typer.echo(found_json(as_row(one)))
    else:
        console = Console()
        console.print(as_table(found, console.width))


def fit(
    experiment: Annotated[str, typer.Argument(help="The experiment to fit to.")] = "filters",
    folder: Folder = FOLDER,
    server: Annotated[str, typer.Option(help="The server to model.")] = SERVERS[0],
    busy: Annotated[bool, typer.Option("--busy", help="To what lab run --busy measured, if both are there.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the chosen model here.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit all processing-time models and choose one by cross-validation.

    Example: tidings lab fit quick --server tidings -o tidings-model.json
    """
    found = [one for one in read_results(folder, experiment) if one.server == server and one.received and one.load]
    if not found:
        reason = f"{folder} has no throughput of {experiment!r} at {server!r} that counts"
        raise UsageError("E_LAB_RESULTS", reason)
    choice = choose([one.measurement() for one in _of_one_unit(found, busy=busy)])
    if output is not None:
        output.write_text(choice.best.to_json() + "\n")
    if as_json:
        typer.echo(choice.best.to_json())
    else:
        Console().print(choice_table(choice, server))


def _of_one_unit(found: list[PointResult], *, busy: bool) -> list[PointResult]:
    """Results measured without --busy, if there are any; rates of both kinds do not fit into one model."""
    units = {one.per_cpu_second for one in found}
    if busy and True not in units:
        raise UsageError("E_LAB_RESULTS", "no results measured with --busy; fit without it, or measure with it")
    if len(units) > 1:
        of = "with --busy, not to that without" if busy else "without --busy; --busy takes the other"
        Console(stderr=True).print(f"fitted to what was measured {of}", highlight=False)
    per_cpu_second = busy or False not in units
    return [one for one in found if one.per_cpu_second == per_cpu_second]


def report(
    folder: Folder = FOLDER,
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the page and its pictures.")] = Path(
        "lab-report"
    ),
    tables: Annotated[
        Path | None, typer.Option(help="The pipeline's tables (tidings pipeline measure), instead of measurements.")
    ] = None,
) -> None:
    """Write one HTML page with a figure for every experiment, measured and modelled.

    Example: tidings lab report -o lab-report
    """
    require("matplotlib", "pyarrow", "scipy", extra="lab")
    page = write_report(read_results(folder) if tables is None else read_tables(tables), output)
    typer.echo(f"{page}")


def as_table(found: list[PointResult], width: int = NARROW) -> Table:
    """`width`: of the terminal. Figures are never cut; names and reasons are folded."""
    between, figures = " " if width >= NARROW else "\n", ("received/s", "sent/s", "runs")
    table = table_of("experiment", "server", "parameters", *figures, "rejected", whole=figures)
    for one in found:
        values = ", ".join(f"{name} {value}" for name, value in one.parameters.items())
        head, rejected = (one.title, one.server, values), str(len(one.rejected) or "")
        if one.received and one.dispatched:
            means = (_mean(one.received, between), _mean(one.dispatched, between))
            table.add_row(*head, *means, str(one.received.runs), rejected)
            continue
        for metric, mean in one.seconds.items():
            table.add_row(*head, f"{metric}{between}{mean.mean:.4g}", "", str(mean.runs), rejected)
        if not one.seconds:
            table.add_row(*head, "", "", "0", f"{rejected}: {one.rejected[-1]}" if rejected else "no samples")
    return table


def _mean(mean: Mean, between: str) -> str:
    return f"{mean.mean:,.0f}" + (f"{between}± {mean.half_width:,.0f}" if mean.half_width is not None else "")


def as_row(one: PointResult) -> dict[str, object]:
    def shown(mean: Mean | None) -> dict[str, float | int | None] | None:
        return None if mean is None else {"mean": mean.mean, "half_width": mean.half_width, "runs": mean.runs}

    return {
        "experiment": one.experiment,
        "server": one.server,
        "kind": one.kind,
        "parameters": dict(one.parameters),
        "per_cpu_second": one.per_cpu_second,
        "received_per_s": shown(one.received),
        "dispatched_per_s": shown(one.dispatched),
        "seconds": {name: shown(mean) for name, mean in one.seconds.items()},
        "rejected": list(one.rejected),
    }


def choice_table(choice: ModelChoice, server: str) -> Table:
    table = table_of("", "model", "formula", "held-out error", "parameters, µs", title=f"Processing time of {server}")
    for score in choice.scores:
        model = MODELS[score.model]
        if score.fitted is None or score.held_out is None:
            table.add_row("", model.name, model.formula, "terms not told apart", "")
            continue
        values = ", ".join(f"{name} {value * 1e6:.4g}" for name, value in score.fitted.parameters.items())
        mark = "→" if model.name == choice.best.name else ""
        table.add_row(mark, model.name, model.formula, f"{score.held_out.rms:.1%} rms", values)
    return table
