"""Measures a broker's throughput at a few points, fits a model, predicts another point and measures there.

The lab's method (docs/lab.md) in short: less time for each run, one run a point, and rates are those of a second of
the broker's processor time. So the machine may be busy with other things, which the lab would not accept.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
from rich.progress import BarColumn, Progress, TextColumn

from tidings.capacity.fitting import Measurement, choose
from tidings.capacity.plan import SizingQuestion, plan_capacity
from tidings.capacity.processing import Fitted, Load
from tidings.cli.demo.stage import Stage
from tidings.cli.demo.theme import Theme
from tidings.lab.execution import Execution
from tidings.lab.experiment import Experiment, Measure
from tidings.lab.run_verdict import judge, of_rows
from tidings.lab.workloads import Parameter
from tidings.model.tables import RUNS, SAMPLES
from tidings.segments.reader import read_rows

SERVER = "tidings"
POINTS_MIN = 4
# Not among the points that are fitted, but between them.
CHECK = {"matching": 10, "others": 400}


@dataclass(frozen=True, slots=True)
class Check:
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def fit_and_predict(stage: Stage) -> None:
    if (os.cpu_count() or 1) < 2:
        skip(stage, "the lab needs a core for the broker and one for the load")
        return
    grid = measured(stage, "demo-grid", {"matching": list(stage.scale.matching), "others": list(stage.scale.others)})
    if len(grid) < POINTS_MIN:
        skip(stage, f"only {len(grid)} runs counted, {POINTS_MIN} are needed")
        return
    model = choose(grid).best
    checked = measured(stage, "demo-check", {name: [value] for name, value in CHECK.items()})
    if not checked:
        skip(stage, "the run that should check the prediction did not count")
        return
    check = Check(model.received(checked[0].load), checked[0].received)
    parameters = ", ".join(f"{name} {value * 1e6:.3g} µs" for name, value in model.parameters.items())
    stage.tell(f"{model.model.formula}: {parameters}")
    where = f"{CHECK['matching']} receivers and {CHECK['others']} more filters"
    rates = f"predicted {check.predicted:,.0f} messages a second of the broker's core, measured {check.measured:,.0f}"
    found = f"{rates} ({check.error:+.0%})"
    stage.tell(f"{where}, not among the points above: {found}")
    stage.find("capacity model", f"{model.model.formula}, from {len(grid)} points")
    stage.find(f"prediction for {where}", found)
    answer = plan(stage, model)
    stage.highlight(f"{check.error:+.0%}", "error of a predicted capacity, measured afterwards")
    texts = [
        f"A broker was measured at {len(grid)} combinations of receivers and filters. From these a model of the "
        f"processor time for one message was fitted: {model.model.formula}; {parameters}. r: number of copies sent.",
        f"Then a combination that was not among them, {where}: {found}.",
        "All rates are messages in a second of the broker's processor time, with short messages in large blocks: an "
        "upper limit, not what clients that send one message at a time reach. tidings plan capacity --from-broker "
        "answers for your own load.",
        answer,
    ]
    caption = "Each point is a run. The closer to the diagonal, the better the model; the square was predicted first."
    picture = stage.picture("capacity", lambda theme: draw(grid, model, check, theme), caption)
    stage.section("How much does a broker carry?", texts, picture)


def skip(stage: Stage, reason: str) -> None:
    stage.tell(f"not measured: {reason}")
    stage.find("capacity model", f"not measured: {reason}")
    stage.section(
        "How much does a broker carry?", [f"Not measured: {reason}. `tidings lab run quick` measures properly."]
    )


def measured(stage: Stage, name: str, vary: dict[str, list[Parameter]]) -> list[Measurement]:
    """The points whose run counts: messages in a second of the broker's processor time."""
    measure = Measure(
        seconds=stage.scale.measure_s, warm_s=0.4, cool_s=0.1, interval_s=0.1, attempts=2
    ).on_busy_machine()
    experiment = Experiment(name, "filters", vary, {}, servers=(SERVER,), runs=1, measure=measure)
    folder = stage.work / "lab"
    folder.mkdir(exist_ok=True)
    execution = Execution([experiment], folder)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} runs"))
    with Progress(*columns, console=stage.console, transient=True) as progress:
        task = progress.add_task("measuring a broker", total=execution.missing())
        for step in execution.steps():
            progress.update(task, completed=step.finished)
    found = []
    for row in read_rows(folder, RUNS):
        if row["experiment"] == name and row["outcome"] == "done":
            about = json.loads(str(row["parameters"]))
            samples = of_rows(one for one in read_rows(folder, SAMPLES) if one["run"] == row["run"])
            verdict = judge(samples, Measure(**about["measure"]).rules, about["lost"])
            found.append(Measurement(Load(**about["load"]), verdict.received_per_s))
    return found


def plan(stage: Stage, model: Fitted) -> str:
    """The model's prediction for the desks of this market at one broker."""
    grade = sum(desk.received for desk in stage.desks) / max(1, len(stage.published))
    subscribers = len(stage.desks)
    answer = plan_capacity(SizingQuestion(model, subscribers, match_probability=min(1.0, grade / subscribers)))
    first = answer.at[-2][0]
    text = (
        f"One broker with all {subscribers} desks would carry {first.rate:,.0f} quotes a second "
        f"at {first.utilisation:.0%} load, with a mean wait of {first.waiting_mean * 1e6:,.0f} µs."
    )
    stage.tell(text)
    return text


def draw(points: Sequence[Measurement], model: Fitted, check: Check, theme: Theme) -> Figure:
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    xs, ys = [one.received for one in points], [model.received(one.load) for one in points]
    axes.loglog(xs, ys, "o", label="fitted")
    axes.loglog([check.measured], [check.predicted], "s", color=theme.alarm, label="predicted, then measured")
    ends = [min(*xs, check.measured), max(*xs, check.measured)]
    axes.loglog(ends, ends, color=theme.muted, linewidth=1)
    axes.set(xlabel="measured, messages in a second of processor time", ylabel="predicted by the model")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(EngFormatter(sep=" "))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend()
    return figure
