"""The paper's scale-out in the simulator : `python -m bench.network`; about five minutes.

Results and pictures go to bench/results: what 2, 4 and 8 brokers deliver under a rising load with links of 1 MB/s, and
what the links carry for it, for B-DRP with graded and with plain encoding and for controlled flooding.
"""

from collections.abc import Sequence
from dataclasses import asdict

import matplotlib as mpl
import matplotlib.pyplot as plt

from bench.harness import RESULTS, save, table
from tidings.experiments.bdrp.scale_out import VARIANTS, ScaleOut, ScaleOutMeasurement, ScaleOutSetup

BROKERS = (2, 4, 8)
RATES = (1000, 2000, 4000, 8000)
SECONDS = 1.0


def measure() -> list[ScaleOutMeasurement]:
    """Each point in a fresh network: what one rate leaves in the queues must not slow down the next."""
    found = []
    for brokers in BROKERS:
        for variant in VARIANTS:
            for rate in RATES:
                found.append(ScaleOut(ScaleOutSetup(brokers), variant).run(rate, SECONDS))
                print(".", end="", flush=True)
    return found


def show(found: Sequence[ScaleOutMeasurement]) -> None:
    rows = [
        (
            one.brokers,
            one.variant,
            one.rate,
            f"{one.delivered / one.expected:.1%}",
            f"{one.link_bytes / one.least_bytes:.2f}",
            f"{one.busiest:.2f}",
            f"{one.destinations:.2f}",
            f"{one.wanted:.2f}",
        )
        for one in found
    ]
    columns = ("brokers", "variant", "msg/s", "delivered", "bytes ÷ least", "busiest link", "sent to", "wanted by")
    table("Scale-out, links of 1 MB/s, replication about 5 % of the clients", columns, rows)


def plot(found: Sequence[ScaleOutMeasurement]) -> None:
    mpl.rcParams["svg.hashsalt"] = "tidings"
    figure, axes = plt.subplots(2, len(BROKERS), figsize=(11, 6), sharex=True, sharey="row", squeeze=False)
    for column, brokers in enumerate(BROKERS):
        for variant in VARIANTS:
            some = [one for one in found if (one.brokers, one.variant) == (brokers, variant)]
            rates = [one.rate for one in some]
            axes[0][column].plot(rates, [100 * one.delivered / one.expected for one in some], "o-", label=variant)
            axes[1][column].plot(rates, [one.busiest for one in some], "o-", label=variant)
        axes[0][column].set_title(f"{brokers} brokers")
        axes[1][column].set_xlabel("input, messages a second")
        axes[1][column].axhline(1.0, color="gray", linewidth=0.8)
    axes[0][0].set_ylabel("delivered 0.2 s after the last, %")
    axes[1][0].set_ylabel("use of the busiest link")
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(RESULTS / f"network.{kind}", dpi=120)
    plt.close(figure)


def main() -> None:
    found = measure()
    show(found)
    save("network", {"points": [asdict(one) for one in found]})
    plot(found)


if __name__ == "__main__":
    main()
