"""Job `report`: a page with figures, made from the results tables only.

Sections appear for the tables that exist: throughput with its model, replication grades, traces, sweeps, experiments.
"""

import html
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from tidings.pipeline.run import JobOutcome, JobRun
from tidings.pipeline.storage_paths import StoragePath
from tidings.pipeline.stored_tables import StoredTable

Rows = Sequence[Mapping[str, Any]]


class Sample(list[Mapping[str, Any]]):
    """Rows of a table that has more."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], total: int) -> None:
        super().__init__(rows)
        self.total = total


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tidings: results</title>
<style>body{{font:16px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}}
table{{border-collapse:collapse;margin:1rem 0}}
td,th{{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:right}}
td:first-child,th:first-child{{text-align:left}}img{{max-width:100%}}</style></head><body>
<h1>Results</h1>
{body}
</body></html>
"""
# Tables that a report reads, and rows of each that it takes at most.
READS = ("throughput", "fits", "predictions", "grades", "moments", "router_shares", "paths", "sweeps", "simulated")
ROWS_MAX = 20_000
PICTURES_MAX = 30


def write_report(tables: Mapping[str, Rows], folder: StoragePath) -> list[StoragePath]:
    """The page and its pictures."""
    made, body = [folder.under("index.html")], []
    for title, section in _SECTIONS.items():
        text, figure = section(tables)
        if text:
            body.append(f"<h2>{html.escape(title)}</h2>\n{text}{_samples(tables, _READ_BY[title])}")
        if figure is not None:
            picture, drawn = folder.under(f"{title.split()[0].lower()}.svg"), io.BytesIO()
            with mpl.rc_context({"svg.hashsalt": title}):
                figure.savefig(drawn, format="svg", metadata={"Date": None})
            picture.write(drawn.getvalue())
            body.append(f'<img src="{picture.name}" alt="{html.escape(title)}">')
            made.append(picture)
    made[0].write(_PAGE.format(body="\n".join(body) or "<p>There are no results yet.</p>").encode())
    return made


def _throughput(tables: Mapping[str, Rows]) -> tuple[str, Figure | None]:
    rows = tables.get("throughput", ())
    if not rows:
        return "", None
    chosen = {(row["experiment"], row["server"]): row for row in tables.get("fits", ()) if row["best"]}
    text = _table(
        ("experiment", "server", "point", "runs", "received/s", "± 95 %", "rejected"),
        (
            (
                row["experiment"],
                row["server"],
                _point(row["point"]),
                row["runs"],
                f"{row['received_per_s']:,.0f}",
                "" if row["received_half_width"] is None else f"{row['received_half_width']:,.0f}",
                row["rejected"],
            )
            for row in sorted(rows, key=lambda row: (row["experiment"], row["server"], row["point"]))
        ),
    )
    text += _table(
        ("experiment", "server", "model", "parameters", "held-out error"),
        (
            (*key, row["model"], row["parameters"], "" if row["held_out_rms"] is None else f"{row['held_out_rms']:.1%}")
            for key, row in sorted(chosen.items())
        ),
    )
    predicted = tables.get("predictions", ())
    if not predicted:
        return text, None
    figure, axes = _axes("measured, messages a second", "predicted, messages a second")
    for key in sorted({(row["experiment"], row["server"]) for row in predicted}):
        own = [row for row in predicted if (row["experiment"], row["server"]) == key]
        axes.loglog(
            [row["received_per_s"] for row in own], [row["predicted_per_s"] for row in own], "o", label=" ".join(key)
        )
    ends = [min(row["received_per_s"] for row in predicted), max(row["received_per_s"] for row in predicted)]
    axes.loglog(ends, ends, "-", color="#999999", linewidth=1)
    axes.legend(fontsize="small")
    return text, figure


def _replication(tables: Mapping[str, Rows]) -> tuple[str, Figure | None]:
    moments, grades = tables.get("moments", ()), tables.get("grades", ())
    if not moments:
        return "", None
    names = (
        "replay",
        "messages",
        "damaged",
        "mean",
        "second",
        "third",
        "routers_mean",
        "covering_degree",
        "similarity",
    )
    text = _table(names, (tuple(_shown(row[name]) for name in names) for row in moments))
    figure, axes = _axes("copies of a message", "messages")
    for replay in sorted({row["replay"] for row in grades}):
        own = sorted((row["grade"], row["messages"]) for row in grades if row["replay"] == replay)
        axes.step([grade for grade, _ in own], [count for _, count in own], where="mid", label=replay)
    axes.legend(fontsize="small")
    return text, figure


def _traces(tables: Mapping[str, Rows]) -> tuple[str, Figure | None]:
    rows = tables.get("paths", ())
    if not rows:
        return "", None
    counts: dict[int, int] = {}
    for row in rows:
        counts[row["brokers"]] = counts.get(row["brokers"], 0) + 1
    total = rows.total if isinstance(rows, Sample) else len(rows)
    confirmed, least_sure = sum(row["confirmed"] for row in rows), max(row["probability_max"] for row in rows)
    text = (
        f"<p>{total:,} different paths. Of {len(rows):,}, {confirmed:,} are confirmed by their origin; the least sure "
    )
    text += f"statement is wrong with probability {least_sure:.2e}.</p>"
    figure, axes = _axes("brokers on a path", "different paths")
    axes.bar(list(counts), list(counts.values()))
    return text, figure


def _sweeps(tables: Mapping[str, Rows]) -> tuple[str, Figure | None]:
    rows = tables.get("sweeps", ())
    if not rows:
        return "", None
    short = [row for row in rows if row["delivered"] < row["matched"]]
    text = f"<p>{len(rows):,} runs, {len(short):,} of them with fewer deliveries than matches.</p>"
    figure, axes = _axes("share of matches delivered", "runs")
    axes.hist([row["delivered"] / max(row["matched"], 1) for row in rows], bins=20)
    return text, figure


def _simulated(tables: Mapping[str, Rows]) -> tuple[str, Figure | None]:
    """A small picture of each metric of each scenario, as many as fit."""
    rows = tables.get("simulated", ())
    if not rows:
        return "", None
    shown = sorted({(row["scenario"], row["metric"]) for row in rows})
    text = f"<p>{len(shown):,} metrics of simulated experiments, bars for 95 % confidence intervals"
    text += f"; the first {PICTURES_MAX} are drawn.</p>" if len(shown) > PICTURES_MAX else ".</p>"
    shown = shown[:PICTURES_MAX]
    figure = Figure(figsize=(9.0, 2.6 * -(-len(shown) // 3)), layout="constrained")
    for place, key in enumerate(shown, 1):
        axes = figure.add_subplot(-(-len(shown) // 3), 3, place)
        axes.set_title(" ".join(key), fontsize="x-small")
        own = [row for row in rows if (row["scenario"], row["metric"]) == key]
        for series in sorted({row["series"] for row in own}):
            line = sorted((row["x"], row["mean"], row["half_width"] or 0.0) for row in own if row["series"] == series)
            x, mean, half = zip(*line, strict=True)
            axes.errorbar(x, mean, half, marker=".", label=_point(series) or "all")
        axes.legend(fontsize="xx-small")
    return text, figure


_SECTIONS: dict[str, Callable[[Mapping[str, Rows]], tuple[str, Figure | None]]] = {
    "Throughput and models": _throughput,
    "Replication grades": _replication,
    "Traces": _traces,
    "Sweeps of the simulator": _sweeps,
    "Simulated experiments": _simulated,
}


_READ_BY = {
    "Throughput and models": ("throughput", "fits", "predictions"),
    "Replication grades": ("grades", "moments"),
    "Traces": ("paths",),
    "Sweeps of the simulator": ("sweeps",),
    "Simulated experiments": ("simulated",),
}


def _samples(tables: Mapping[str, Rows], names: Iterable[str]) -> str:
    """A sentence for each table of which a section has read only some rows."""
    found = [(name, rows) for name in names if isinstance(rows := tables.get(name), Sample)]
    about = "figures and sums are of these"
    return "".join(
        f"<p><strong>A sample:</strong> {len(rows):,} of {rows.total:,} rows of {name}; {about}.</p>"
        for name, rows in found
    )


def _axes(x: str, y: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    return figure, axes


def _table(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>\n" if body else ""


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)


def _point(text: str) -> str:
    found = json.loads(text or "{}")
    return ", ".join(f"{key} {value}" for key, value in found.items()) if isinstance(found, dict) else text


def _rows(stored: StoredTable, run: JobRun) -> Rows:
    rows = [row.asDict() for row in stored.read(run.spark).limit(ROWS_MAX).collect()]
    total = stored.need().rows
    return Sample(rows, total) if total > len(rows) else rows


def report_job(run: JobRun) -> list[JobOutcome]:
    folder = StoragePath.of(run.config.report.folder or run.output.under("report").uri)
    present = [name for name in READS if run.result(name).manifest() is not None]
    tables = {name: _rows(run.result(name), run) for name in present}
    run.progress("writing the report")
    made = write_report(tables, folder)
    return [JobOutcome("report", f"written to {made[0].uri}", len(made))]
