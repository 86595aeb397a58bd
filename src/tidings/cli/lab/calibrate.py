"""`tidings lab calibrate`: the cost model of a running broker, measured on it."""

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.capacity.cost_file import CalibratedModel
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.traffic import TERMS
from tidings.cli.connecting import first_line, tls_context
from tidings.cli.tables import table_of
from tidings.errors import CodecError, UsageError
from tidings.extras import require
from tidings.lab.calibration.calibrate import calibrated
from tidings.lab.calibration.design import designed
from tidings.lab.calibration.measure import MeasuredPoint, ResultsFile, measure_points
from tidings.lab.calibration.meters import CpuMeter, MetricsMeter, ProcessMeter, WallMeter
from tidings.lab.calibration.target import METRICS_PORT, CalibrationTarget, check_protocol, parse_address
from tidings.lab.calibration.wires import ClientAccount
from tidings.lab.machine import environment
from tidings.text_files import read_text

ADDRESS_HELP = "HOST:PORT of a listener of the running broker."
AddressArgument = Annotated[str, typer.Argument(metavar="HOST:PORT", help=ADDRESS_HELP)]
ProtocolOption = Annotated[str, typer.Option(help="native, stomp, amqp or mqtt.")]
MetricsOption = Annotated[
    str, typer.Option(help=f"HOST:PORT of its metrics; by default port {METRICS_PORT} of the same host.")
]
PidOption = Annotated[
    list[int] | None, typer.Option(help="For any broker on this machine: its process (may be repeated).")
]
SaturatedOption = Annotated[
    bool, typer.Option("--saturated", help="For a broker that tells nothing: take it to use one core all the time.")
]
UserOption = Annotated[str, typer.Option(envvar="TIDINGS_USER", help="The user to log in as.")]
PasswordOption = Annotated[
    Path | None, typer.Option(envvar="TIDINGS_PASSWORD_FILE", help="A file whose first line is the password.")
]
TlsOption = Annotated[bool, typer.Option("--tls", help="The listener uses TLS.")]
CaOption = Annotated[Path | None, typer.Option(help="The CA of its certificate (PEM), if not a public one.")]


def calibrate(
    address: AddressArgument,
    protocol: ProtocolOption = "native",
    persistent: Annotated[bool, typer.Option("--persistent", help="Persistent messages too.")] = False,
    tls: TlsOption = False,
    tls_ca: CaOption = None,
    user: UserOption = "",
    password_file: PasswordOption = None,
    metrics: MetricsOption = "",
    pid: PidOption = None,
    saturated: SaturatedOption = False,
    minutes: Annotated[float, typer.Option(min=0, help="How long; all points are measured once in any case.")] = 3.0,
    points: Annotated[int, typer.Option(min=0, max=500, help="Combinations of factors, beside the extremes.")] = 24,
    seconds: Annotated[float, typer.Option(min=0.05, help="Of each measured stretch.")] = 0.7,
    exclude: Annotated[list[str] | None, typer.Option(help="A point to leave out (may be repeated).")] = None,
    seed: Annotated[int, typer.Option(help="Of the design and of its order.")] = 0,
    results: Annotated[
        Path | None, typer.Option(help="Where measurements are kept; default: beside the model.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model; protocols are added.")] = Path(
        "model.json"
    ),
) -> None:
    """Measure what messages cost a running broker, and keep the model for `tidings plan capacity`.

    Broken off, it goes on where it stopped. Topics and durable subscriptions of its own are named tidings.lab.…

    Example: tidings lab calibrate 127.0.0.1:61613 --protocol stomp --persistent -o model.json
    """
    require("scipy", extra="lab")
    check_protocol(protocol, persistent=persistent)
    model = stored_model(output) if output.exists() else CalibratedModel({})
    target = target_of(address, protocol, metrics, pid, user, password_file, saturated=saturated, tls=tls, ca=tls_ca)
    design = designed(protocol, persistent=persistent, seed=seed, combined=points)
    settings = {"address": address, "protocol": protocol, "persistent": persistent, "seed": seed, "points": points}
    path = results or output.with_suffix(f".{protocol}.jsonl")
    file, console = ResultsFile(path, settings), Console(stderr=True)
    console.print(f"{len(design)} points; measurements are kept in {path}", markup=False, highlight=False)
    for one in measure_points(target, design, file, minutes=minutes, seed=seed, stretch_s=seconds):
        console.print(_said(one), markup=False, highlight=False)
    costs = calibrated(design, file.points, excluded=exclude or ())
    where = {**environment(), "settings": {**settings, "tls": tls, "user": bool(user)}}
    model = replace(model.with_costs(protocol, costs), environment={**model.environment, protocol: where})
    output.write_text(model.to_json() + "\n", encoding="utf-8")
    shown = Console()
    shown.print(costs_table(protocol, costs))
    for line in summary(costs):
        shown.print(line, markup=False, highlight=False)
    shown.print(f"kept in {output}", markup=False, highlight=False)


def target_of(
    address: str,
    protocol: str,
    metrics: str,
    pid: list[int] | None,
    user: str,
    password_file: Path | None,
    *,
    saturated: bool,
    tls: bool,
    ca: Path | None,
) -> CalibrationTarget:
    where = parse_address(address)
    if sum((bool(metrics), bool(pid), saturated)) > 1:
        raise UsageError("E_USAGE", "choose one of --metrics, --pid and --saturated")
    host = f"[{where[0]}]" if ":" in where[0] else where[0]
    meter: CpuMeter = MetricsMeter(metrics or f"{host}:{METRICS_PORT}")
    if pid:
        meter = ProcessMeter(tuple(pid))
    elif saturated:
        meter = WallMeter()
    meter.read()
    account = ClientAccount(user, "" if password_file is None else first_line(password_file))
    context: ssl.SSLContext | None = tls_context(ca, None, None) if tls or ca else None
    return CalibrationTarget(where, protocol, meter, account, context)


def stored_model(path: Path) -> CalibratedModel:
    try:
        return CalibratedModel.from_json(read_text(path, "E_PLAN_FILE"))
    except CodecError as error:
        raise UsageError(error.code, f"{path}: {error.reason}", position=error.position) from None


def costs_table(protocol: str, costs: BrokerCosts) -> Table:
    """One line for each term that costs anything."""
    table = table_of("term", "ns", "±", "what", whole=("ns", "±"), title=f"CPU time over {protocol}")
    for number, (name, term) in enumerate(TERMS.items()):
        value = costs.values[number]
        if value:
            half = 1.96 * costs.covariance[number][number] ** 0.5 if costs.covariance else 0.0
            table.add_row(name, f"{value * 1e9:,.3g}", f"{half * 1e9:,.2g}", term.meaning)
    return table


def summary(costs: BrokerCosts) -> list[str]:
    """Errors, domain and what was left out, for people."""
    found = [f"{costs.share:.0%} of what is in flight is taken in one turn; waking up takes {costs.wake * 1e6:.0f} µs"]
    if costs.client:
        found.append(f"the calibration's own clients need {costs.client[0] * 1e6:.1f} µs a message, of one core")
    for errors, what in ((costs.errors, f"at the {costs.points} points of the fit"), (costs.held_out, "held out")):
        if errors is not None:
            found.append(f"errors {what}: rms {errors.rms:.1%}, largest {errors.max:.1%}")
    spans = "; ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in costs.domain.items())
    found.append(f"measured: {spans}")
    return [*found, *(f"left out: {reason}" for reason in costs.excluded)]


def _said(one: MeasuredPoint) -> str:
    name = f"{one.name}, round {one.round + 1}"
    return f"{name}: {one.failed or f'{one.cpu_s / max(1, one.messages) * 1e6:.1f} µs a message'}"
