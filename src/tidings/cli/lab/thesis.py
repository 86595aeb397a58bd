"""`tidings lab thesis`: the thesis's tables and figures of models, from its own parameters, beside a model of ours."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.capacity.processing import Fitted, Load, match_probability_break_even
from tidings.capacity.service import Moments, gamma_moments
from tidings.capacity.thesis import SERVERS
from tidings.capacity.waiting import GammaWaiting
from tidings.cli.json_text import found_json
from tidings.cli.pictures import check_picture
from tidings.cli.tables import table_of
from tidings.errors import CodecError, UsageError
from tidings.extras import require
from tidings.figures.thesis import draw
from tidings.text_files import read_text

FILTERS = 100
CASES = ((1, 100), (1, 10), (1, 1), (10, 10))  # replication grade, different filters
RHOS, PROBABILITIES = (0.5, 0.7, 0.9, 0.95), (0.99, 0.9999, 0.99999)


def thesis(
    model: Annotated[
        Path | None, typer.Option(help="A model of tidings lab fit, shown beside the thesis's servers.")
    ] = None,
    picture: Annotated[Path | None, typer.Option("--output", "-o", help="Draw the figures into this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recompute the thesis's tables of models from its own parameters, and redraw its figures.

    Example: tidings lab thesis --model tidings-model.json -o thesis.png
    """
    check_picture(picture)
    require("scipy", extra="lab")
    servers = dict(SERVERS)
    if model is not None:
        servers["this model"] = _stored(model)
    received, pays, waits = throughput(servers), break_even(servers), waiting()
    if picture is not None:
        draw(servers, picture)
    if as_json:
        typer.echo(found_json({"throughput": received, "filters_pay_below": pays, "waiting": waits}, indent=1))
        return
    for table in (_throughputs(received), _break_evens(pays), _waits(waits)):
        Console().print(table)


def throughput(servers: dict[str, Fitted]) -> list[dict[str, float | str]]:
    """Table 4.7: messages a second that are received, with 100 filters."""
    return [
        {"server": name, "replication": r, "different": n, "received": server.received(Load(FILTERS, r, n))}
        for name, server in servers.items()
        for r, n in CASES
    ]


def break_even(servers: dict[str, Fitted]) -> list[dict[str, float | str]]:
    """(5.32): filters of a consumer cost the server less than sending it everything if it matches less often."""
    return [
        {"server": name, "filters": n, "match": match_probability_break_even(n, each, server.t_tx)}
        for name, server in servers.items()
        if (each := server.parameters.get("t_fltr", 0.0)) > 0 and server.t_tx > 0
        for n in (1, 2)
    ]


def waiting() -> list[dict[str, float]]:
    """Waiting times of M/D/1 and of Gamma-distributed service in mean service times, by the Gamma-approximation."""
    rows = []
    for c_var in (0.0, 0.2, 0.4, 1.0):
        service = Moments(1.0, 1.0, 1.0) if c_var == 0 else gamma_moments(1.0, c_var)
        for rho in RHOS:
            queue = GammaWaiting.of(rho, service)
            quantiles = {f"{100 * p:g}%": float(queue.quantile(p)) for p in PROBABILITIES}
            rows.append({"c_var": c_var, "utilisation": rho, "mean": float(queue.mean), **quantiles})
    return rows


def _stored(path: Path) -> Fitted:
    try:
        return Fitted.from_json(read_text(path, "E_PLAN_FILE"))
    except CodecError as error:
        raise UsageError(error.code, f"{path}: {error.reason}", position=error.position) from None


def _throughputs(rows: list[dict[str, float | str]]) -> Table:
    names = [f"r {r}, {n} different" for r, n in CASES]
    table = table_of("server", *names, title=f"Messages/s received with {FILTERS} filters (Table 4.7)")
    for name in dict.fromkeys(str(one["server"]) for one in rows):
        table.add_row(name, *(f"{one['received']:,.0f}" for one in rows if one["server"] == name))
    return table


def _break_evens(rows: list[dict[str, float | str]]) -> Table:
    table = table_of("server", "one filter", "two filters", title="Filters pay below a match probability of (5.32)")
    for name in dict.fromkeys(str(one["server"]) for one in rows):
        table.add_row(name, *(f"{float(one['match']):.1%}" for one in rows if one["server"] == name))
    return table


def _waits(rows: list[dict[str, float]]) -> Table:
    table = table_of(*rows[0], title="Waiting time in mean service times (chapter 5)")
    for one in rows:
        table.add_row(*(f"{value:.4g}" for value in one.values()))
    return table
