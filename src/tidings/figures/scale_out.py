"""The pictures of the scale-out with real brokers: input, output, what is missing, and the busiest link, over time."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from tidings.experiments.bdrp.real_measurement import RealMeasurement


def draw(found: Sequence[RealMeasurement], path: Path) -> None:
    """A row for each size of network, a column for each quantity, a line for each variant."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sorted({one.brokers for one in found})
    figure, grid = pyplot.subplots(len(sizes), 4, figsize=(15, 3.1 * len(sizes)), squeeze=False, layout="constrained")
    for axes, size in zip(grid, sizes, strict=True):
        for one in [one for one in found if one.brokers == size]:
            seconds = [second.at for second in one.timeline]
            missing = accumulate(second.expected - second.delivered for second in one.timeline)
            axes[0].plot(seconds, [second.sent for second in one.timeline], label=one.variant)
            axes[1].plot(seconds, [second.delivered for second in one.timeline], label=one.variant)
            axes[2].plot(seconds, list(missing), label=one.variant)
            axes[3].plot(seconds, [second.busiest for second in one.timeline], label=one.variant)
        titles = ("input, msg/s", "output, deliveries/s", "undelivered so far", "busiest link, share of 1 MB/s")
        for one_axes, title in zip(axes, titles, strict=True):
            one_axes.set(xlabel="s", title=f"{size} brokers: {title}" if size > 1 else f"1 broker: {title}")
        axes[3].set_ylim(bottom=0)
        axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
