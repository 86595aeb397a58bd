"""One page that shows every experiment: servers side by side, the fitted model through the measured points."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.capacity.fitting import ModelChoice, choose
from tidings.errors import UsageError
from tidings.extras import lazy
from tidings.lab.results import PointResult

if TYPE_CHECKING:
    import matplotlib as mpl
    from matplotlib import figure as figures
else:
    mpl, figures = lazy("matplotlib"), lazy("matplotlib.figure")

FORMATS = ("svg", "png")
MARKERS = {"tidings": "o", "activemq": "s"}


def write_report(found: Sequence[PointResult], folder: Path) -> Path:
    """The page; its pictures lie beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for title in dict.fromkeys(one.title for one in found):
        part = [one for one in found if one.title == title]
        choices = _choices(part)
        picture = title.replace(" --", ".")  # no name of an experiment has a dot
        if not any(one.received or one.seconds for one in part):
            sections.append(_section(title, "", part, choices))
            continue
        with mpl.rc_context({"svg.hashsalt": title}):
            figure = _figure(part, choices)
            for name in FORMATS:
                figure.savefig(folder / f"{picture}.{name}", dpi=130)
        sections.append(_section(title, picture, part, choices))
    page = folder / "index.html"
    page.write_text(_PAGE.format(body="\n".join(sections)))
    return page


def _choices(found: Sequence[PointResult]) -> dict[str, ModelChoice]:
    """By server, if the experiment varies what the models are made of."""
    choices = {}
    for server in dict.fromkeys(one.server for one in found):
        points = [one.measurement() for one in found if one.server == server and one.load and one.received]
        if len(points) >= 4:
            try:
                choices[server] = choose(points)
            except UsageError:
                continue  # these measurements cannot tell any model's terms apart
    return choices


def _figure(found: Sequence[PointResult], choices: dict[str, ModelChoice]) -> "figures.Figure":
    figure = figures.Figure(figsize=(7.5, 5), layout="constrained")
    axes = figure.subplots()
    x_name, line_names = _axes_of(found)
    lines = _lines(found, line_names)
    groups = list(dict.fromkeys(tuple(values) for _, *values in lines))
    colours = mpl.colormaps["viridis"]([number / max(1, len(groups)) for number in range(len(groups))])
    for (server, *values), part in lines.items():
        label = ", ".join([server, *(f"{name} {value}" for name, value in zip(line_names, values, strict=True))])
        xs, ys = [_x(one, x_name) for one in part], [_y(one) for one in part]
        colour, marker = colours[groups.index(tuple(values))], MARKERS.get(server, "^")
        errors = [one.received.half_width or 0.0 if one.received else 0.0 for one in part]
        axes.errorbar(xs, ys, yerr=errors, color=colour, marker=marker, markersize=4, lw=1, capsize=2, label=label)
        if server in choices:
            model = [choices[server].best.received(one.load) for one in part if one.load]
            if len(model) == len(xs):
                axes.plot(xs, model, linestyle=":", linewidth=1.2, color=colour)
    axes.set_yscale("log")
    if len(xs) > 2 and all(isinstance(x, int | float) and x >= 0 for x in xs):
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(left=-0.2 if min(xs) == 0 else min(xs) * 0.8)
    axes.set_xlabel(x_name or "point")
    axes.set_ylabel(_unit(found[0]))
    axes.grid(visible=True, which="both", alpha=0.2)
    figure.legend(loc="outside lower center", fontsize=6, ncols=4)  # beside the points, which fill the axes
    return figure


def _unit(one: PointResult) -> str:
    if not one.received:
        return "seconds"
    return "received messages a second" + (" of the server's processor time" if one.per_cpu_second else "")


def _axes_of(found: Sequence[PointResult]) -> tuple[str, list[str]]:
    """Chooses the x axis (the parameter with most values) and the parameters that make separate lines."""
    values: dict[str, set[str]] = {}
    for one in found:
        for name, value in one.parameters.items():
            values.setdefault(name, set()).add(str(value))
    varied = sorted((name for name, seen in values.items() if len(seen) > 1), key=lambda name: -len(values[name]))
    return (varied[0], varied[1:]) if varied else ("", [])


def _lines(found: Sequence[PointResult], names: Sequence[str]) -> dict[tuple[Any, ...], list[PointResult]]:
    lines: dict[tuple[Any, ...], list[PointResult]] = {}
    for one in found:
        if one.received or one.seconds:
            lines.setdefault((one.server, *(one.parameters.get(name) for name in names)), []).append(one)
    return lines


def _x(one: PointResult, name: str) -> Any:
    value = one.parameters.get(name, 0)
    return str(value) if isinstance(value, bool | str) else value


def _y(one: PointResult) -> float:
    return one.received.mean if one.received else next(iter(one.seconds.values())).mean


def _section(title: str, picture: str, found: Sequence[PointResult], choices: dict[str, ModelChoice]) -> str:
    rows = "".join(_row(one, choices) for one in found)
    models = "".join(
        f"<p><b>{html.escape(server)}</b>: {html.escape(choice.best.model.formula)}, "
        f"{html.escape(', '.join(f'{n} = {v * 1e6:.4g} µs' for n, v in choice.best.parameters.items()))} "
        f"(held-out error {_held_out(choice):.1%})</p>"
        for server, choice in choices.items()
    )
    head = "<tr><th>server<th>parameters<th>received/s<th>± 95 %<th>sent/s<th>model<th>runs<th>rejected</tr>"
    shown = f"<img src='{picture}.svg' alt='{html.escape(_unit(found[0]))}'>" if picture else "<p>No run counts.</p>"
    return (
        f"<h2>{html.escape(title)}</h2>{shown}{models}"
        f"<details><summary>Data</summary><table>{head}{rows}</table></details>"
    )


def _held_out(choice: ModelChoice) -> float:
    return next(one.held_out.rms for one in choice.scores if one.model == choice.best.name and one.held_out)


def _row(one: PointResult, choices: dict[str, ModelChoice]) -> str:
    values = html.escape(", ".join(f"{name} {value}" for name, value in one.parameters.items()))
    model = f"{choices[one.server].best.received(one.load):,.0f}" if one.load and one.server in choices else ""
    cells = [one.server, values]
    if one.received and one.dispatched:
        half = f"{one.received.half_width:,.0f}" if one.received.half_width is not None else ""
        cells += [f"{one.received.mean:,.0f}", half, f"{one.dispatched.mean:,.0f}", model, str(one.received.runs)]
    else:
        shown = ", ".join(f"{name} {mean.mean:.4g}" for name, mean in one.seconds.items())
        cells += [shown, "", "", "", ""]
    cells.append(html.escape("; ".join(one.rejected)))
    return "<tr>" + "".join(f"<td>{cell}" for cell in cells) + "</tr>"


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Tidings: measurements</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
img {{ max-width: 100%; }} table {{ border-collapse: collapse; font-size: 13px; }}
td, th {{ padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd; }}
</style>
<h1>Measurements and models</h1>
<p>Points are means over runs that count, with 95 % confidence intervals; dotted lines are the chosen model.</p>
{body}
</html>
"""
