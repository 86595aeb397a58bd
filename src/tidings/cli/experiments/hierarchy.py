"""`tidings sim experiment hierarchy`: flat B-DRP against clusters with border routers."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.experiments.bdrp.hierarchy import HierarchyOptions, HierarchyResult, run
from tidings.experiments.bdrp.hierarchy_flat import flat_of


def hierarchy_command(
    clusters: Annotated[int, typer.Option(min=2, help="How many clusters.")] = 32,
    size: Annotated[int, typer.Option(min=2, help="Brokers of a cluster, its border included.")] = 32,
    filters: Annotated[int, typer.Option(min=1, help="Of a broker, from the paper's workload.")] = 5,
    rows: Annotated[int, typer.Option(min=1, help="Of an aggregate, at most.")] = 256,
    flat_clusters: Annotated[
        int,
        typer.Option(
            min=0, help="Clusters of the flat network; fewer: its size is reckoned from a smaller one. 0: none."
        ),
    ] = 8,
    seed: Annotated[int, typer.Option()] = 1,
    output: Annotated[Path, typer.Option(help="Where the data go.")] = Path("out/hierarchy"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """State of a broker and traffic of advertisements: one network of all brokers, and two levels.

    Each network is kept in the output folder once it is simulated: the same command, given again, only does the rest.

    Example: tidings sim experiment hierarchy --clusters 8 --size 8
    """
    console = Console(stderr=as_json)
    options = HierarchyOptions(clusters, size, filters, rows_max=rows, seed=seed)
    with console.status(f"{clusters * size} brokers, two levels"):
        found = {"two levels": _kept(options, 2, output)}
    if flat_clusters:
        less = replace(options, clusters=min(clusters, flat_clusters))
        with console.status(f"{less.clusters * size} brokers, flat"):
            small = _kept(less, 1, output)
        found[f"flat, {less.clusters * size} brokers" if less != options else "flat"] = small
        if less != options:
            found["flat, by formula"] = flat_of(found["two levels"], small)
    data = [{"what": name, **asdict(one)} for name, one in found.items()]
    (output / "hierarchy.json").write_text(found_json(data, indent=1) + "\n")
    console.print(as_table(found))
    if as_json:
        typer.echo(found_json(data))
    if any(one.missed for one in found.values()):
        console.print("[red]messages were not brought to brokers that want them[/red]")
        raise typer.Exit(1)


def _kept(options: HierarchyOptions, levels: int, output: Path) -> HierarchyResult:
    """From a run before, or from one now."""
    name = "-".join(f"{value}" for value in asdict(options).values())
    path = output / "runs" / f"{levels}-{name}.json"
    if not path.exists():
        found = run(options, levels)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(found), allow_nan=True) + "\n")  # read by ourselves only
    return HierarchyResult(**json.loads(path.read_text()))


def as_table(named: dict[str, HierarchyResult]) -> Table:
    table = Table("", *named)
    found = list(named.values())
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
