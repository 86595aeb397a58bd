"""Tables that lose nothing where the terminal is narrow: Rich would end what does not fit with an ellipsis."""

from collections.abc import Collection

from rich.table import Column, Table

NARROW = 110  # columns of a terminal; below, parts of a cell go on lines of their own


def table_of(*names: str, whole: Collection[str] = (), title: str | None = None) -> Table:
    """A table whose cells are folded; those of the columns in `whole`, numbers, are not broken at all."""
    return Table(*(Column(name, no_wrap=name in whole, overflow="fold") for name in names), title=title)
