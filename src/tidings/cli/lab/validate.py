"""`tidings lab validate`: does the model of the batching broker predict what it has not seen?"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.cli.pictures import check_picture
from tidings.cli.tables import table_of
from tidings.errors import UsageError
from tidings.figures.validation import draw
from tidings.lab.machine import environment
from tidings.lab.results import Mean
from tidings.lab.validation import RUNS, SECONDS, PredictionCheck, Saturated, Validation

FOLDER = Path("lab-data")


def validate(
    folder: Annotated[Path, typer.Option(help="Where measurements are kept.")] = FOLDER,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each measurement.")] = RUNS,
    seconds: Annotated[int, typer.Option(min=1, help="Seconds of each run.")] = SECONDS,
    measure: Annotated[bool, typer.Option(help="Measure what is missing; otherwise only compare.")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the costs of batches here.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw prediction and measurement into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit the costs of batches on some loads, predict others, and measure them.

    Takes about five minutes a run; what is measured already is not measured again.

    Example: tidings lab validate --runs 2 -o batch-costs.json --picture validation.png
    """
    check_picture(picture)
    if measure:
        folder.mkdir(parents=True, exist_ok=True)
    elif not folder.is_dir():
        raise UsageError("E_LAB_FOLDER", f"there is no folder {folder}: nothing was measured there")
    validation = Validation(folder, runs=runs, seconds=seconds)
    console = Console(stderr=True)
    if measure:
        for step in validation.steps():
            console.print(f"{step.point.name}: {step.text}", markup=False, highlight=False)
    costs, found, saturated = validation.costs(), validation.comparisons(), validation.saturated()
    if output is not None:
        output.write_text(costs.to_json() + "\n")
    if picture is not None:
        draw(costs, found, picture)
    if as_json:
        document = {"environment": environment(), "costs": json.loads(costs.to_json())["parameters"]}
        document |= {"held_out": [as_row(one) for one in found]}
        document |= {"saturated": [as_saturated(one) for one in saturated]}
        typer.echo(found_json(document, indent=1))
    else:
        Console().print(as_table(found))
        Console().print(saturated_table(saturated))
    if validation.given_up:
        console.print(f"{len(validation.given_up)} measurements did not succeed; run it again to try once more")
        raise typer.Exit(1)


def as_table(found: list[PredictionCheck]) -> Table:
    table = table_of(
        "mix", "messages/s", "busy", "model", "rate then", "error", "waiting µs", "model", "error", "M/GI/1",
        title="Held-out loads",
    )  # fmt: skip
    for one in found:
        table.add_row(
            one.mix.name,
            f"{one.rate:,.0f}",
            f"{one.busy.mean:.1%}",
            f"{one.busy_predicted:.1%}",
            f"{one.rate_predicted:,.0f}",
            f"{one.rate_error:+.0%}",
            f"{one.waiting.mean * 1e6:.1f}" + _half(one.waiting),
            f"{one.waiting_predicted * 1e6:.1f}",
            f"{one.waiting_error:+.0%}",
            "overload" if one.waiting_mg1 is None else f"{one.waiting_mg1 * 1e6:.0f}",
        )
    return table


def saturated_table(found: list[Saturated]) -> Table:
    table = table_of("mix", "messages/s of CPU time", "predicted", "error", title="Saturated")
    for one in found:
        table.add_row(
            one.mix.name, f"{one.rate.mean:,.0f}", f"{one.rate_predicted:,.0f}", f"{one.rate_error:+.0%}"
        )  # fmt: skip
    return table


def _half(mean: Mean) -> str:
    return "" if mean.half_width is None else f" ± {mean.half_width * 1e6:.1f}"


def as_row(one: PredictionCheck) -> dict[str, Any]:
    return {
        **one.mix.parameters,
        "runs": one.busy.runs,
        "rate": one.rate,
        "busy": one.busy.mean,
        "busy_predicted": one.busy_predicted,
        "rate_predicted": one.rate_predicted,
        "rate_error": one.rate_error,
        "waiting_s": one.waiting.mean,
        "waiting_s_half_width": one.waiting.half_width,
        "waiting_s_predicted": one.waiting_predicted,
        "waiting_error": one.waiting_error,
        "wake_s": one.wake.mean,
        "waiting_s_mg1": one.waiting_mg1,
    }


def as_saturated(one: Saturated) -> dict[str, Any]:
    measured, predicted = one.rate.mean, one.rate_predicted
    return {**one.mix.parameters, "rate": measured, "rate_predicted": predicted, "rate_error": one.rate_error}
