"""The end of the demo: a summary on the console, and one page with all pictures."""

import html
from pathlib import Path

from rich.table import Table

from tidings.cli.demo.stage import Section, Stage

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tidings: the demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{{color-scheme:light dark}}
body{{font:16px/1.5 system-ui;max-width:56rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse}} td{{padding:.3rem 1rem .3rem 0;border-bottom:1px solid #8884;vertical-align:top}}
td:first-child{{font-weight:600}} img{{max-width:100%;background:#fff;border-radius:6px}}
</style></head><body>
<h1>Tidings: what the demo found</h1>
<table>
{summary}
</table>
{sections}
</body></html>
"""


def summarise(stage: Stage) -> None:
    table = Table("", "found", title="Summary", show_lines=False)
    for one in stage.findings:
        table.add_row(one.about, one.found)
    stage.console.print(table)
    page = write(stage)
    stage.console.print(f"The report, with pictures: [bold]{page}[/bold]", highlight=False, soft_wrap=True)


def write(stage: Stage) -> Path:
    rows = "\n".join(
        f"<tr><td>{html.escape(one.about)}</td><td>{html.escape(one.found)}</td></tr>" for one in stage.findings
    )
    page = stage.output / "index.html"
    page.write_text(_PAGE.format(summary=rows, sections="\n".join(map(_section, stage.sections))))
    return page.resolve()


def _section(section: Section) -> str:
    lines = [f"<h2>{html.escape(section.title)}</h2>", *(f"<p>{html.escape(one)}</p>" for one in section.paragraphs)]
    lines += [f'<img src="{html.escape(one)}" alt="{html.escape(section.title)}">' for one in section.pictures]
    return "\n".join(lines)
