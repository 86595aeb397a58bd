"""`tidings sim experiment hierarchy`: flat B-DRP against clusters with border routers."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.sim.experiments.hierarchy import HierarchyOptions, HierarchyResult, run


def hierarchy_command(
    clusters: Annotated[int, typer.Option(min=2, help="How many clusters.")] = 32,
    size: Annotated[int, typer.Option(min=2, help="Brokers of a cluster, its border included.")] = 32,
    filters: Annotated[int, typer.Option(min=1, help="Of a broker, from the paper's workload.")] = 5,
    rows: Annotated[int, typer.Option(min=1, help="Of an aggregate, at most.")] = 256,
    flat: Annotated[bool, typer.Option(help="Simulate the flat network too; it takes minutes at 1000 brokers.")] = True,
    seed: Annotated[int, typer.Option()] = 1,
    output: Annotated[Path, typer.Option(help="Where the data go.")] = Path("out/hierarchy"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """State of a broker and traffic of advertisements: one network of all brokers, and two levels.

    Example: tidings sim experiment hierarchy --clusters 8 --size 8
    """
    console = Console(stderr=as_json)
    options = HierarchyOptions(clusters, size, filters, rows_max=rows, seed=seed)
    found = []
    for levels in (2, 1) if flat else (2,):
        with console.status(f"{clusters * size} brokers, {'flat' if levels == 1 else 'two levels'}"):
            found.append(run(options, levels))
    data = [asdict(one) for one in found]
    output.mkdir(parents=True, exist_ok=True)
    (output / "hierarchy.json").write_text(json.dumps(data, indent=1) + "\n")
    console.print(as_table(found))
    if as_json:
        typer.echo(json.dumps(data))
    if any(one.missed for one in found):
        console.print("[red]messages were not brought to brokers that want them[/red]")
        raise typer.Exit(1)


def as_table(found: list[HierarchyResult]) -> Table:
    table = Table("", *("flat" if one.levels == 1 else "two levels" for one in found))
    rows = {
        "brokers, links": [f"{one.brokers}, {one.links}" for one in found],
        "rows a broker keeps: mean, most": [f"{one.rows:.0f}, {one.rows_most}" for one in found],
        "routes a broker keeps": [f"{one.routes:.0f}" for one in found],
        "to start: messages, MB": [f"{one.start_messages}, {one.start_bytes / 1e6:.1f}" for one in found],
        "one more filter: messages, kB": [f"{one.change_messages:.0f}, {one.change_bytes / 1e3:.1f}" for one in found],
        "links a message crosses (least)": [f"{one.copies:.2f} ({one.least_copies:.2f})" for one in found],
        "brokers it is brought to (want it)": [f"{one.reached:.2f} ({one.wanted:.2f})" for one in found],
        "missed": [str(one.missed) for one in found],
        "processor time, s": [f"{one.cpu_seconds:.0f}" for one in found],
    }
    for name, cells in rows.items():
        table.add_row(name, *cells)
    return table
