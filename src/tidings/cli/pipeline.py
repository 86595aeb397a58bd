"""`tidings pipeline`: runs Spark jobs over segments written by brokers, lab and simulator."""

from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tidings.cli.json_text import found_json
from tidings.errors import UsageError
from tidings.pipeline.config import JOB_NAMES, load

Job = StrEnum("Job", [(name, name) for name in ("run", *JOB_NAMES)])  # type: ignore[misc]
_NO_PAIRS: list[str] = []


def register(app: typer.Typer) -> None:
    app.command()(pipeline)


def pipeline(
    job: Annotated[Job, typer.Argument(help="The job; `run`: all that have input.")],
    source: Annotated[str, typer.Option("--input", help="Folder or URI of the segments.")] = "",
    output: Annotated[str, typer.Option(help="Folder or URI of the tables.")] = "",
    config: Annotated[Path | None, typer.Option(help="A TOML file with these and more settings.")] = None,
    settings: Annotated[list[str], typer.Option("--set", help="A key of that file: trace.ids=…")] = _NO_PAIRS,
    master: Annotated[str, typer.Option(help="Spark's master; local[*] unless spark-submit says.")] = "",
    conf: Annotated[list[str], typer.Option(help="Spark's own settings: spark.…=value")] = _NO_PAIRS,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what would be read, computed and written, and exit.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="For small data: a JVM that starts faster.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute tables, traces, models and figures from segments with Spark.

    Example: tidings pipeline run --input segments --output warehouse --master 'local[2]'
    """
    try:  # imported here: Spark is an optional package
        from tidings.pipeline.failures import plainly
        from tidings.pipeline.jobs.explain import explain_job
        from tidings.pipeline.jobs.registry import run_job
        from tidings.pipeline.run import open_run
        from tidings.pipeline.session import parse_conf
    except ModuleNotFoundError as error:
        raise UsageError("E_PIPELINE_INSTALL", f"{error}: pip install 'tidings[pipeline]'") from None
    chosen = load(config, settings)
    chosen = replace(
        chosen,
        input=source or chosen.input,
        output=output or chosen.output,
        master=master or chosen.master,
        conf={**chosen.conf, **parse_conf(conf)},
    )
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with plainly(), Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"pipeline {job.value}", total=None)
        with open_run(chosen, lambda text: progress.update(task, description=text), quick=quick) as run:
            name = job.value
            found = explain_job(run, name) if explain else [asdict(outcome) for outcome in run_job(run, name)]
    if as_json:
        typer.echo(found_json(found))
        return
    for one in found:
        if explain:
            typer.echo(f"{one['job']}: {one['computes']}" + ("" if one["ready"] else " (nothing to read)"))
            typer.echo(f"  reads {one['reads']}; writes {one['writes']}")
            for table, count in one.get("new segments", {}).items():
                typer.echo(f"  {count} new segments of {table}")
            continue
        typer.echo(f"{one['table']}: {one['state']}, {one['rows']} rows")
        for name, reason in one["skipped"].items():
            typer.echo(f"  skipped {name}: {reason}", err=True)
