"""`tidings demo`: a network of brokers on this machine, from its start to a report, without questions.

Each step is one function in a module of its own; this one only runs them, and makes sure that nothing is left running.
"""

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tidings.cli.terminated import terminated
from tidings.errors import TidingsError, UsageError

if TYPE_CHECKING:
    from tidings.cli.demo.stage import Stage, Step

INTERRUPTED = 130
LOG_LINES = 5


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    output: Annotated[Path, typer.Option(help="Where the report and its pictures go.")] = Path("out/demo"),
    stay: Annotated[bool, typer.Option("--stay", help="Keep everything up, with the console, until Ctrl-C.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything, and no Spark: twenty seconds.")] = False,
) -> None:
    """Two minutes with a network of brokers: market data, a trace, a failure, a prediction, Spark, a report.

    Example: tidings demo --stay
    """
    missing = [name for name in ("matplotlib", "scipy", "pyspark") if find_spec(name) is None]
    if missing:
        raise UsageError("E_DEMO_INSTALL", f"{', '.join(missing)} missing: pip install 'tidings[pipeline]'")
    from tidings.cli.demo.stage import QUICK, Scale, Stage

    output.mkdir(parents=True, exist_ok=True)
    with terminated(), tempfile.TemporaryDirectory(prefix="tidings-demo-") as folder:
        stage = Stage(Console(), output, Path(folder), QUICK if quick else Scale())
        try:
            perform(stage, stay=stay)
        except KeyboardInterrupt:
            stage.tell("stopped")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            if stage.running is not None:
                stage.running.stop(kill=True)


def perform(stage: "Stage", *, stay: bool) -> None:
    from tidings.cli.demo.page import summarise
    from tidings.cli.demo.staying import stay as go_on

    began = time.monotonic()
    for number, step in enumerate(steps(), 1):
        stage.console.rule(f"{number}. {step.title}")
        try:
            step.work(stage)
        except (TidingsError, OSError, RuntimeError) as error:
            explain(stage, step, error)
            raise typer.Exit(1) from error
    stage.find("all of it", f"{time.monotonic() - began:.0f} s")
    summarise(stage)
    if stay:
        go_on(stage)


def steps() -> "list[Step]":
    from tidings.cli.demo.capacity import fit_and_predict
    from tidings.cli.demo.market import trade
    from tidings.cli.demo.recovery import kill_and_recover
    from tidings.cli.demo.sites import start_network
    from tidings.cli.demo.spark import analyse
    from tidings.cli.demo.stage import Step
    from tidings.cli.demo.tour import show_matching
    from tidings.cli.demo.tracing import trace_message

    return [
        Step("Selectors and the matching kernel", show_matching),
        Step("A network of four brokers", start_network),
        Step("Market data", trade),
        Step("Where did this message go?", trace_message),
        Step("A broker is killed", kill_and_recover),
        Step("How much does a broker carry?", fit_and_predict),
        Step("Spark looks at what was recorded", analyse),
    ]


def explain(stage: "Stage", step: "Step", error: Exception) -> None:
    """Print the error, the step in which it happened, and the last log lines of the brokers."""
    stage.console.print(f"[red]The step “{step.title}” failed:[/red] {error}", highlight=False)
    if stage.running is None:
        return
    for name, alive in stage.running.alive().items():
        stage.tell(f"{name} ({'running' if alive else 'not running'}):")
        show_end(stage, stage.running.folder / f"{name}.log")
    for log in stage.work.glob("*.log"):
        stage.tell(f"{log.name}:")
        show_end(stage, log)
    stage.tell("If the machine is very busy or has less than 2 GB of free memory, try `tidings demo --quick`.")


def show_end(stage: "Stage", log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
    for line in lines:
        stage.console.print(f"  {line}", markup=False, highlight=False)
