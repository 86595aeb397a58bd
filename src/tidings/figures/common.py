"""Shared by all figures: a matplotlib backend without a screen, and both file formats."""

from pathlib import Path
from typing import Any


def pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plots

    return plots


def save_figure(figure: Any, folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg")
    figure.savefig(folder / f"{name}.png", dpi=110)
    pyplot().close(figure)
    return folder / f"{name}.png"
