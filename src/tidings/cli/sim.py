"""`tidings sim`: simulates networks of brokers in virtual time."""

from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.experiments.hermes import hermes_command
from tidings.cli.experiments.hierarchy import hierarchy_command
from tidings.cli.experiments.large_network import large_command
from tidings.cli.experiments.pruning import pruning_command
from tidings.cli.json_text import found_json
from tidings.sim.scenario import Scenario
from tidings.text_files import read_text

app = typer.Typer(no_args_is_help=True, help="Simulate networks of brokers in virtual time.")
experiment = typer.Typer(help="Experiments of the papers.", no_args_is_help=True)
experiment.command("hermes")(hermes_command)
experiment.command("hierarchy")(hierarchy_command)
experiment.command("large-network")(large_command)
experiment.command("pruning")(pruning_command)
app.add_typer(experiment, name="experiment")


def register(to: typer.Typer) -> None:
    to.add_typer(app, name="sim")


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="A scenario in TOML.")],
    seed: Annotated[int, typer.Option(help="Seed of the run; the same seed repeats it.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print only the totals, as JSON.")] = False,
) -> None:
    """Run a scenario and print its events.

    Example: tidings sim run scenario.toml --seed 7
    """
    outcome = Scenario.from_toml(read_text(scenario, "E_SCENARIO")).run(seed)
    if as_json:
        sums = {"published": outcome.published, "matched": outcome.matched, "delivered": outcome.delivered}
        typer.echo(found_json(sums))
        return
    for line in outcome.lines:
        typer.echo(line)
    typer.echo(f"{outcome.published} published, {outcome.delivered} of {outcome.matched} delivered")
