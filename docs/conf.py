"""Sphinx builds docs/ into build/docs; `make docs`."""

from pathlib import Path

project = "Tidings"
author = "the Tidings developers"
copyright = author
extensions = ["myst_parser"]
exclude_patterns = ["README.md"]
myst_heading_anchors = 3
# Pages outside docs/ (the map, examples, deploy) are linked for readers of the repository; here they are downloads or text.
suppress_warnings = ["myst.xref_missing"]
html_theme = "furo"
html_title = "Tidings"
html_static_path: list[str] = []
html_show_sphinx = False
root_doc = "index"
nitpicky = True
highlight_language = "text"
linkcheck_ignore = [r"http://127\.0\.0\.1.*"]
HERE = Path(__file__).parent


def setup(app: object) -> None:
    """Mermaid has no lexer: the diagram of link states is shown as text, its table beside it says the same."""
    from pygments.lexers.special import TextLexer
    from sphinx.highlighting import lexers

    lexers["mermaid"] = TextLexer()
