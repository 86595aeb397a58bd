"""`tidings lab validate`: predictions of a calibrated model against scenarios that it has not seen."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.cli.lab.calibrate import PasswordOption, PidOption, UserOption, stored_model, target_of
from tidings.cli.pictures import check_picture
from tidings.cli.tables import table_of
from tidings.errors import UsageError
from tidings.extras import require
from tidings.figures.validation import draw
from tidings.lab.calibration.load import LoadPoint
from tidings.lab.calibration.scenarios import scenarios
from tidings.lab.calibration.target import CalibrationTarget, check_protocol
from tidings.lab.calibration.validate import MEAN, QUANTILE, THROUGHPUT, ScenarioCheck, right, validated
from tidings.lab.machine import environment

SECONDS_EACH = 6.0


def validate(
    model: Annotated[Path, typer.Argument(help="A model of tidings lab calibrate.")],
    broker: Annotated[
        list[str], typer.Option(metavar="PROTOCOL=HOST:PORT", help="A listener of the running broker (repeat it).")
    ],
    user: UserOption = "",
    password_file: PasswordOption = None,
    metrics: Annotated[str, typer.Option(help="HOST:PORT of the broker's metrics.")] = "",
    pid: PidOption = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Of each measurement; every scenario has two.")
    ] = SECONDS_EACH,
    only: Annotated[list[int] | None, typer.Option(min=1, help="Only this scenario (may be repeated).")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the results as JSON here.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw prediction and measurement into this file.")] = None,
) -> None:
    """Measure thirty scenarios that no calibration contains, and compare with what the model predicts.

    Waiting times and wall throughput mean something only if nothing else runs on the machine.

    Example: tidings lab validate model.json --broker native=127.0.0.1:7300 --broker stomp=127.0.0.1:61613
    """
    check_picture(picture)
    require("scipy", extra="lab")
    stored, targets = stored_model(model), _targets(broker, metrics, pid, user, password_file)
    loads = scenarios()
    unknown = [number for number in only or () if number > len(loads)]
    if unknown:
        raise UsageError("E_USAGE", f"there are {len(loads)} scenarios, not {unknown[0]}")
    chosen = [loads[number - 1] for number in only or range(1, len(loads) + 1)]
    console, found = Console(stderr=True), []
    for one in validated(stored, targets, chosen, seconds=seconds):
        found.append(one)
        console.print(f"{len(found)}: {_said(one.load)}: {one.failed or f'{one.throughput_error:+.0%}'}", markup=False)
    if not found:
        raise UsageError("E_LAB_PROTOCOL", "no scenario has a protocol that is in the model and has a --broker")
    if output is not None:
        rows = [{**asdict(one), "load": asdict(one.load)} for one in found]
        rows = [{name: _finite(value) for name, value in row.items()} for row in rows]
        output.write_text(found_json({"environment": environment(), "scenarios": rows}, indent=1) + "\n")
    if picture is not None:
        draw(found, picture)
    shown = Console()
    shown.print(as_table(found))
    for line in verdict(found):
        shown.print(line, markup=False, highlight=False)


def _targets(
    brokers: list[str], metrics: str, pid: list[int] | None, user: str, password_file: Path | None
) -> dict[str, CalibrationTarget]:
    found = {}
    for each in brokers:
        protocol, equals, address = each.partition("=")
        if not equals:
            raise UsageError("E_LAB_ADDRESS", f"--broker takes PROTOCOL=HOST:PORT, not {each!r}")
        check_protocol(protocol, persistent=False)
        target = target_of(address, protocol, metrics, pid, user, password_file, saturated=False, tls=False, ca=None)
        found[protocol] = replace(target, protocol=protocol)
    return found


def as_table(found: list[ScenarioCheck]) -> Table:
    table = table_of(
        "scenario", "msg/CPU s", "error", "mean µs", "error", "p99 µs", "error", title="Held-out scenarios"
    )
    for one in found:
        cells = [_said(one.load), f"{one.throughput:,.0f}", _error(one.throughput_error)]
        cells += [f"{one.mean * 1e6:,.0f}", _error(one.mean_error), f"{one.quantile * 1e6:,.0f}"]
        table.add_row(*cells, _error(one.quantile_error))
    return table


def verdict(found: list[ScenarioCheck]) -> list[str]:
    """In words: how many are within the bounds."""
    bounds = {"throughput": THROUGHPUT, "counted": THROUGHPUT, "mean": MEAN, "quantile": QUANTILE}
    names = {"throughput": "throughput", "counted": "cost of the reads and writes that there were"}
    names |= {"mean": "mean wait", "quantile": "99 % wait"}
    lines = [f"{names[name]} within {bounds[name]:.0%}: {good} of {all}" for name, (good, all) in right(found).items()]
    outside = sum(bool(one.outside) for one in found)
    return [*lines, f"{outside} of them lie outside of what the model was calibrated with"]


def _said(load: LoadPoint) -> str:
    kind = f"{load.protocol}{', persistent' if load.persistent else ''}"
    many = f"{load.subscribers}×{load.match:.0%}{' together' if load.together else ''}"
    flight = f"{load.publishers} publishers, {load.in_flight} in flight"
    return f"{kind}, {load.body} B, {load.properties} properties, {many}, {load.others} filters, {flight}"


def _error(error: float) -> str:
    return "–" if math.isnan(error) else "∞" if math.isinf(error) else f"{error:+.0%}"


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
