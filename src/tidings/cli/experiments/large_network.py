"""`tidings sim experiment large-network`: 42 brokers in virtual time."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import found_json
from tidings.errors import UsageError
from tidings.experiments.bdrp.broker_costs import Costs
from tidings.experiments.bdrp.large_network import SERIES, LargeNetworkPoint, Terms, draw, run
from tidings.experiments.bdrp.scale_out import VARIANTS
from tidings.text_files import read_text


def large_command(
    series: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(SERIES)}; all if left out.")] = None,
    variant: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(VARIANTS)}; graded if left out.")] = None,
    rate: Annotated[float, typer.Option(min=1.0, max=1e6, help="Messages a second, all clients together.")] = 1000.0,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600.0, help="Of each run, in virtual time.")] = 1.0,
    costs: Annotated[Path | None, typer.Option(help="From `tidings net experiment costs`.")] = None,
    seed: Annotated[int, typer.Option()] = 1,
    output: Annotated[Path, typer.Option(help="Where data and picture go.")] = Path("out/large-network"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Output against the ideal as clients, filters, constraints and the capacity of links vary.

    Each point is kept in the output folder once it is simulated: the same command, given again, only does the rest.

    Example: tidings sim experiment large-network --series capacity --variant graded --variant plain
    """
    console = Console(stderr=as_json)
    for name in series or ():
        if name not in SERIES:
            raise UsageError("E_SERIES", f"{name} is not one of {', '.join(SERIES)}")
    for name in variant or ():
        if name not in VARIANTS:
            raise UsageError("E_VARIANT", f"{name} is not one of {', '.join(VARIANTS)}")
    prices = Costs.from_json(read_text(costs, "E_COSTS"), costs) if costs else Costs()
    terms = Terms(rate, seconds, prices, seed)
    points: list[LargeNetworkPoint] = []
    table = Table("series", "value", "variant", "deliveries", "of ideal", "busiest link")
    with console.status("simulating 42 brokers"):
        for name in series or SERIES:
            for one in variant or ["graded"]:
                for point in run(name, one, terms, output / "runs"):
                    points.append(point)
                    got = point.measured
                    share = f"{got.delivered / max(1, got.expected):.1%}"
                    table.add_row(name, f"{point.value:g}", one, str(got.delivered), share, f"{got.busiest:.1%}")
    output.mkdir(parents=True, exist_ok=True)
    data = [point.as_row() for point in points]
    (output / "large_network.json").write_text(found_json(data, indent=1) + "\n")
    draw(points, output / "large_network.png")
    console.print(table)
    if as_json:
        typer.echo(found_json(data))
