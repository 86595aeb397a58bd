"""The picture of covering on real brokers: what the removals caused, over time and by broker."""

from collections.abc import Sequence
from pathlib import Path

from tidings.experiments.covering.real_pruning import PruningMeasurement


def draw(found: Sequence[PruningMeasurement], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (over_time, waiting, by_broker) = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    width = 0.8 / len(found)
    for number, one in enumerate(found):
        seconds = [at for at, _, _ in one.timeline]
        over_time.plot(seconds, [control for _, control, _ in one.timeline], label=one.policy)
        waiting.plot(seconds, [some / 1000 for _, _, some in one.timeline], label=one.policy)
        places = [place + number * width for place in range(len(one.control))]
        by_broker.bar(places, list(one.control.values()), width, label=one.policy)
    over_time.set(xlabel="seconds since the first removal", ylabel="control messages, all brokers")
    waiting.set(xlabel="seconds since the first removal", ylabel="waiting for links, kB")
    by_broker.set(xlabel="broker (1: publisher; 5, 6, 7: subscribers)", ylabel="control messages")
    by_broker.set_xticks([place + 0.4 - width / 2 for place in range(len(found[0].control))], list(found[0].control))
    over_time.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
