"""The paper's large network in the simulator: 42 brokers of diameter 11, 420 clients, brokers that take time.

Series vary one thing each: clients, filters of a client, constraints of a filter, capacity of links. For each point:
output against the ideal, input times replication. Brokers are those that ship, in virtual time; how long they take for
a message was measured on real ones (broker_costs.py).
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from tidings.experiments.bdrp.broker_costs import Costs, meter
from tidings.experiments.bdrp.scale_out import ScaleOut, ScaleOutMeasurement, ScaleOutSetup

BASE = ScaleOutSetup(brokers=42, clients=420, subscriptions=20, constraints_max=1)
SERIES: dict[str, list[ScaleOutSetup]] = {
    "clients": [replace(BASE, clients=clients) for clients in (105, 210, 420, 840)],
    "filters": [replace(BASE, subscriptions=filters) for filters in (5, 10, 20, 40)],
    "constraints": [replace(BASE, constraints_max=constraints) for constraints in (1, 2, 3, 5)],
    "capacity": [replace(BASE, bandwidth_bytes_s=capacity) for capacity in (1e5, 2e5, 5e5, 1e6)],
}


@dataclass(frozen=True, slots=True)
class LargeNetworkPoint:
    series: str
    setup: ScaleOutSetup
    measured: ScaleOutMeasurement

    @property
    def value(self) -> float:
        field = {"clients": "clients", "filters": "subscriptions", "constraints": "constraints_max"}
        return float(getattr(self.setup, field.get(self.series, "bandwidth_bytes_s")))

    def as_row(self) -> dict[str, object]:
        found = asdict(self.measured)
        found["clients_wanting"] = found.pop("clients")  # the setup has clients of its own
        return {"series": self.series, "value": self.value, **asdict(self.setup), **found}


@dataclass(frozen=True, slots=True)
class Terms:
    """Parameters that all points of a run share."""

    rate: float  # messages a second, all clients together
    seconds: float
    costs: Costs
    seed: int = 1


def run(series: str, variant: str, terms: Terms, kept: Path) -> Iterator[LargeNetworkPoint]:
    """Each point in a fresh network, and kept in a folder: what is there already is not simulated again."""
    for setup in SERIES[series]:
        about = json.dumps([asdict(setup), variant, asdict(terms)], sort_keys=True)
        path = kept / f"{sha256(about.encode()).hexdigest()[:16]}.json"
        if not path.exists():
            network = ScaleOut(setup, variant, terms.seed, meter(terms.costs))
            found = asdict(network.run(terms.rate, terms.seconds))
            kept.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"about": json.loads(about), "found": found}) + "\n")
        yield LargeNetworkPoint(series, setup, ScaleOutMeasurement(**json.loads(path.read_text())["found"]))


def draw(points: list[LargeNetworkPoint], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(one.series for one in points))
    figure, grid = pyplot.subplots(2, len(names), figsize=(3.6 * len(names), 6), squeeze=False, layout="constrained")
    for column, name in enumerate(names):
        some = [one for one in points if one.series == name]
        for variant in dict.fromkeys(one.measured.variant for one in some):
            mine = [one for one in some if one.measured.variant == variant]
            at = [one.value for one in mine]
            grid[0][column].plot(at, [one.measured.delivered for one in mine], "o-", label=variant)
            grid[1][column].plot(at, [one.measured.busiest for one in mine], "o-", label=variant)
        ideal = {one.value: one.measured.expected for one in some}  # the same for all variants
        grid[0][column].plot(ideal.keys(), ideal.values(), "k:", label="ideal")
        grid[0][column].set(xlabel=name, ylabel="deliveries", ylim=(0, None))
        grid[1][column].set(xlabel=name, ylabel="busiest link, share", ylim=(0, None))
        if name == "capacity":
            grid[0][column].set_xscale("log")
            grid[1][column].set_xscale("log")
    grid[0][0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
