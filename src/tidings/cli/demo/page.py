"""The end of the demo: a summary on the console, and one page with all pictures."""

import html
from pathlib import Path

from rich.table import Table

from tidings.cli.demo.stage import Highlight, Picture, Section, Stage
from tidings.cli.demo.theme import DARK, LIGHT, Theme

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tidings: the demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root{{color-scheme:light dark;{light}}}
@media (prefers-color-scheme:dark){{:root{{{dark}}}}}
*{{box-sizing:border-box}}
body{{font:16px/1.55 system-ui,sans-serif;margin:0;background:var(--back);color:var(--ink)}}
main{{max-width:62rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}}
h1{{font-size:2rem;line-height:1.2;margin:0}} h2{{font-size:1.3rem;line-height:1.3;margin:0 0 .5rem}}
.lead{{color:var(--muted);margin:.4rem 0 1.6rem;max-width:46rem}}
.cards{{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8rem;margin-bottom:1.2rem}}
.card,section{{background:var(--paper);border:1px solid var(--line);border-radius:10px}}
.card{{padding:.9rem 1rem}} .card b{{display:block;font-size:1.6rem;line-height:1.2}}
.card span{{color:var(--muted);font-size:.87rem}}
section{{padding:1.4rem 1.5rem;margin:1.2rem 0}} section p{{margin:.5rem 0;max-width:46rem}}
figure{{margin:1rem 0 0}} figure img{{max-width:100%;height:auto;display:block}}
figcaption{{color:var(--muted);font-size:.87rem;margin-top:.3rem;max-width:46rem}}
.scroll{{overflow-x:auto}} table{{border-collapse:collapse;font-size:.93rem}}
td{{padding:.35rem 1.2rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}}
td:first-child{{font-weight:600}}
</style></head><body><main>
<h1>What the demo found</h1>
<p class="lead">Everything on this page was measured on this machine, a moment ago, by brokers, clients and Spark jobs
that ran beside each other. On a machine that is busy with other things times are longer.</p>
<div class="cards">
{cards}
</div>
{sections}
<section><h2>All findings</h2><div class="scroll"><table>
{summary}
</table></div></section>
</main></body></html>
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
    page.write_text(
        _PAGE.format(
            light=_colours(LIGHT, back="#f6f8fa", line="#d1d9e0"),
            dark=_colours(DARK, back="#0d1117", line="#30363d"),
            cards="\n".join(map(_card, stage.highlights)),
            sections="\n".join(map(_section, stage.sections)),
            summary=rows,
        )
    )
    return page.resolve()


def _colours(theme: Theme, *, back: str, line: str) -> str:
    muted = f"color-mix(in srgb,{theme.ink} 68%,{theme.paper})"
    return f"--back:{back};--line:{line};--paper:{theme.paper};--ink:{theme.ink};--muted:{muted}"


def _card(one: Highlight) -> str:
    return f'<div class="card"><b>{html.escape(one.figure)}</b><span>{html.escape(one.about)}</span></div>'


def _section(section: Section) -> str:
    lines = [f"<h2>{html.escape(section.title)}</h2>", *(f"<p>{html.escape(one)}</p>" for one in section.paragraphs)]
    if section.more is not None:
        link, text = section.more
        lines.append(f'<p><a href="{html.escape(link)}">{html.escape(text)}</a></p>')
    return "\n".join(["<section>", *lines, *map(_figure, section.pictures), "</section>"])


def _figure(picture: Picture) -> str:
    caption = html.escape(picture.caption)
    return (
        f'<figure><picture><source srcset="{DARK.file_name(picture.name)}" media="(prefers-color-scheme:dark)">'
        f'<img src="{LIGHT.file_name(picture.name)}" alt="{caption}"></picture>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
