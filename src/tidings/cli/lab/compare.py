"""`tidings lab compare`: do two times of the same experiments agree?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.tables import table_of
from tidings.lab.comparison import Agreement, Compared, compared
from tidings.lab.results import read_results


def compare(
    first: Annotated[Path, typer.Argument(help="The folder of one time.")],
    second: Annotated[Path, typer.Argument(help="The folder of another time.")],
    experiment: Annotated[str | None, typer.Option(help="Of one experiment; all of them without it.")] = None,
    points: Annotated[bool, typer.Option("--points", help="List every point.")] = False,
) -> None:
    """Do two times agree within their 95 % intervals? Ends with 1 if they do not.

    One point in twenty lies outside of its interval by chance, so all of them together are judged: by how many lie
    outside, and by how far the worst does.

    Example: tidings lab compare monday tuesday --experiment filters
    """
    found = compared(read_results(first, experiment), read_results(second, experiment))
    if points:
        Console().print(_points(found.all.points))
    table = table_of("experiment", "server", "points", "agree", "median difference", "shift", "worst", "its difference")
    for name, server, part in [*found.parts(), ("all", "", found.all)]:
        table.add_row(
            name, server, str(len(part.points)), str(len(part.points) - part.outside), f"{part.typical:.1%}",
            f"{part.shift:+.1%}", _where(part.worst), f"{part.worst.difference:+.1%}, {part.worst.allowed:.1%} allowed",
        )  # fmt: skip
    Console().print(table)
    for line in verdict(found.all, found.not_compared):
        typer.echo(line)
    if not found.all.agrees:
        raise typer.Exit(1)


def verdict(agreement: Agreement, not_compared: int) -> list[str]:
    """In words."""
    count, outside, most = len(agreement.points), agreement.outside, agreement.outside_max
    lines = [
        f"{count - outside} of {count} points agree within the 95 % interval of their difference; {outside} lie "
        f"outside, {agreement.outside_expected:.0f} are expected by chance and up to {most} are taken for it"
    ]
    if rejected := agreement.rejected:
        names = "; ".join(f"{one.result.title} {one.result.server} {_where(one)}" for one in rejected[:5])
        lines.append(f"{len(rejected)} of them differ by too much even for the worst of {count} (Holm): {names}")
    if not_compared:
        lines.append(f"{not_compared} points are not compared: one time is missing, or has one run only")
    lines.append("the two times agree" if agreement.agrees else "the two times do not agree")
    return lines


def _points(points: Sequence[Compared]) -> Table:
    table = table_of("experiment", "server", "point", "first", "second", "difference", "allowed", "agrees")
    for one in points:
        means = (f"{mean.mean:,.0f}" if mean.mean >= 100 else f"{mean.mean:.4g}" for mean in (one.first, one.second))
        table.add_row(
            one.result.title, one.result.server, _where(one), *means,
            f"{one.difference:+.1%}", f"{one.allowed:.1%}", "yes" if one.agrees else "no",
        )  # fmt: skip
    return table


def _where(one: Compared) -> str:
    values = ", ".join(f"{name} {value}" for name, value in one.result.parameters.items())
    return values if one.metric == "received_per_s" else f"{one.metric} {values}".strip()
