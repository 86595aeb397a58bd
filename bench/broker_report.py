"""Report of the measured points: tables, fitted costs, goals beside results, a plot."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.broker_points import BODIES, MATCHING, OTHERS, PACES, grid_name
from bench.harness import RESULTS, table
from tidings.capacity.fitting import Measurement, fit
from tidings.capacity.processing import Load

REFERENCE = "activemq"
OURS = "tidings"
STOMP = "tidings-stomp"
RELATIVE_DEVIATION = 0.05  # of each measurement: errors count relative to what was measured
BUSY = 0.95  # the share of its core from which on a process has no time left
CPU_GOALS_US = {1: 0.4, 10: 0.9, 40: 5.0}
RATE_GOALS = {1: 15, 10: 25, 40: 30}

Points = Mapping[str, Mapping[str, Any]]


def best(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The least disturbed run: the fastest; of paced ones that which cost least CPU time, with the least latencies."""
    runs: list[dict[str, Any]] = kept["runs"]
    if "offered_per_s" in runs[0]:
        latencies = {key: min(one[key] for one in runs) for key in ("p50_ms", "p99_ms")}
        return {**min(runs, key=lambda one: one["cpu_us"]), **latencies}
    return max(runs, key=lambda one: one["received_per_s"])


def report(results: Mapping[str, Any]) -> None:
    servers = {
        name: {point: best(kept) for point, kept in points.items()} for name, points in results["servers"].items()
    }
    ours, reference = servers.get(OURS, {}), servers.get(REFERENCE, {})
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    print(f"\n{versions}; one fsync takes {results['fsync_us']:.0f} µs here")
    _show_grid(ours, reference)
    _show_others(ours, reference)
    _show_costs(servers)
    for name in (OURS, STOMP):
        _show_goals(name, servers.get(name, {}), reference)
    _show_protocols(ours, servers.get(STOMP, {}))
    if any(len(points) > 1 for points in servers.values()):
        plot(servers)
        print(f"\nplot: {RESULTS.name}/broker.png, broker.svg")


def _show_grid(ours: Points, reference: Points) -> None:
    columns = ["body", "r", "n", "Tidings/s", "CPU µs", "shares", "ActiveMQ/s", "CPU µs", "shares", "rate ×", "CPU ×"]
    rows = []
    for body in BODIES:
        for matching in MATCHING:
            for others in OTHERS:
                name = grid_name(body, matching, others)
                if name in ours or name in reference:
                    rows.append([body, matching, others, *_pair(ours.get(name), reference.get(name))])
    table(
        "saturated: messages received a second, CPU time a message; shares: server and generator of their cores",
        columns,
        rows,
    )


def _show_others(ours: Points, reference: Points) -> None:
    names = [name for name in {**reference, **ours} if not name.startswith("grid")]
    columns = ["point", "Tidings/s", "CPU µs", "shares", "ActiveMQ/s", "CPU µs", "shares", "rate ×", "CPU ×"]
    rows = [[name, *_pair(ours.get(name), reference.get(name))] for name in names]
    table("unbatched, persistent", columns, rows)
    timed = [name for name in names if "p50_ms" in ours.get(name, reference.get(name, {}))]
    latency = [
        [name, *(_get(one.get(name), key) for one in (ours, reference) for key in ("p50_ms", "p99_ms"))]
        for name in timed
    ]
    table("latency in ms", ["point", "Tidings p50", "p99", "ActiveMQ p50", "p99"], latency)


def _pair(ours: Mapping[str, Any] | None, reference: Mapping[str, Any] | None) -> list[object]:
    cells: list[object] = []
    for one in (ours, reference):
        shares = "–" if one is None else f"{one['server_share']:.0%} {one['generator_share']:.0%}"
        cells += [_get(one, "received_per_s"), _get(one, "cpu_us"), shares]
    if ours is None or reference is None:
        return [*cells, "–", "–"]
    return [*cells, ours["received_per_s"] / reference["received_per_s"], reference["cpu_us"] / ours["cpu_us"]]


def _get(one: Mapping[str, Any] | None, key: str) -> object:
    return "–" if one is None else one[key]


def costs(points: Points, body: int) -> dict[str, float] | None:
    """t_rcv, t_fltr, t_tx in µs, by non-negative least squares on the CPU time of a message."""
    measured = []
    for matching in MATCHING:
        for others in OTHERS:
            point = points.get(grid_name(body, matching, others))
            if point is not None:
                capacity = 1e6 / point["cpu_us"]
                load = Load(filters=others + matching, replication=matching)
                measured.append(Measurement(load, capacity, capacity * RELATIVE_DEVIATION))
    if len({(one.load.filters, one.load.replication) for one in measured}) < 4:
        return None
    return {name: value * 1e6 for name, value in fit("base", measured).parameters.items()}


def _show_costs(servers: Mapping[str, Points]) -> None:
    rows = []
    for body in BODIES:
        fitted = {name: costs(points, body) for name, points in servers.items()}
        for name, values in fitted.items():
            if values is not None:
                rows.append([body, name, *(values[key] for key in ("t_rcv", "t_fltr", "t_tx"))])
        ours, reference = fitted.get(OURS), fitted.get(REFERENCE)
        if ours and reference:
            ratios = [reference[key] / ours[key] if ours[key] else float("inf") for key in ("t_rcv", "t_fltr", "t_tx")]
            rows.append([body, "ratio", *ratios])
    if rows:
        table("fitted costs in µs, B = t_rcv + (n + r)·t_fltr + r·t_tx", ["body", "", "t_rcv", "t_fltr", "t_tx"], rows)


class _Goals:
    def __init__(self, ours: Points, reference: Points) -> None:
        self._ours, self._reference = ours, reference
        self.rows: list[list[object]] = []

    def ratio(self, what: str, names: Sequence[str], least: float, *, small_sends: bool = False) -> None:
        """At least this multiple of the reference's, at the worst of these points. `small_sends`: the generator may
        have been busy all the time with sending, before the server was; the server may then do more."""
        key = "received_per_s"
        both = [name for name in names if name in self._ours and name in self._reference]
        if both:
            reached, name = min((self._ours[name][key] / self._reference[name][key], name) for name in both)
            bound = small_sends and self._ours[name]["generator_share"] > BUSY > self._ours[name]["server_share"]
            verdict = "more than the generator gives" if bound and reached < least else _met(reached >= least)
            self.rows.append([what, f">= {least:.3g} ×", f"{'> ' * bound}{reached:.3g} ×", verdict])

    def share(self, what: str, name: str, most: float, key: str) -> None:
        """Ours at most this part of the reference's."""
        if name in self._ours and name in self._reference:
            reached = self._ours[name][key] / self._reference[name][key]
            self.rows.append([what, f"<= {most:.2f} ×", f"{reached:.2f} ×", _met(reached <= most)])

    def most(self, what: str, reached: float | None, most: float) -> None:
        if reached is not None:
            self.rows.append([what, f"<= {most:.3g} µs", f"{reached:.3g} µs", _met(reached <= most)])


def _met(yes: bool) -> str:
    return "met" if yes else "NOT MET"


def _show_protocols(native: Points, stomp: Points) -> None:
    ratios = {
        name: native[name]["received_per_s"] / stomp[name]["received_per_s"]
        for name in native.keys() & stomp.keys()
        if "offered_per_s" not in native[name]
    }
    if ratios:
        name = max(ratios, key=lambda name: ratios[name])
        print(f"\nnative beside STOMP: at most {ratios[name]:.2f} × ({name}), {_met(ratios[name] <= 1.5)} (1.5)")


def _show_goals(name: str, ours: Points, reference: Points) -> None:
    goals = _Goals(ours, reference)
    for matching, least in RATE_GOALS.items():
        goals.ratio(f"saturated, r = {matching}", [grid_name(0, matching, 0)], least)
    for others, least in ((1000, 40), (5000, 100)):
        goals.ratio(f"{others} further filters, any r", [grid_name(0, r, others) for r in MATCHING], least)
    goals.ratio("bodies of 1 kB, any r", [grid_name(1000, r, 0) for r in MATCHING], 5)
    for pace in PACES:
        goals.share(f"CPU per message, paced {pace}/s", f"paced {pace}", 2 / 3, "cpu_us")
    goals.ratio("receipt per message, 50 publishers", ["receipts of 50 publishers"], 3)
    goals.ratio("receipt per message, one a send", ["receipts one a send"], 3, small_sends=True)
    goals.ratio("receipt per message, one a send, gathered by TCP", ["receipts one a send, gathered"], 3)
    for load in ("half of its own", "half of the reference"):
        for key in ("p50_ms", "p99_ms"):
            goals.share(f"latency {key[:3]}, {load}", load, 1.0, key)
    goals.ratio("persistent, 1000 unconfirmed", ["persistent 1000 unconfirmed"], 10)
    goals.ratio("persistent, one at a time", ["persistent one at a time"], 1)
    for matching, most in CPU_GOALS_US.items():
        goals.most(f"CPU per message, r = {matching}", ours.get(grid_name(0, matching, 0), {}).get("cpu_us"), most)
    fitted = costs(ours, 0)
    goals.most("5000 filters more than none, fitted", None if fitted is None else fitted["t_fltr"] * 5000, 1.0)
    few, many = (ours.get(grid_name(0, 1, others), {}).get("cpu_us") for others in (0, 5000))
    goals.most("5000 filters more than none, measured", many - few if few and many else None, 1.0)
    if goals.rows:
        table(f"goals, {name} beside {REFERENCE}", ["goal", "wanted", "reached", ""], goals.rows)


def plot(servers: Mapping[str, Points]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 6), layout="constrained")
    colours = dict(zip(MATCHING, pyplot.colormaps["viridis"]([0.0, 0.17, 0.34, 0.51, 0.68, 0.85]), strict=True))
    styles = {OURS: ("o-", "Tidings"), STOMP: ("^:", "Tidings, STOMP"), REFERENCE: ("s--", "ActiveMQ")}
    for name, points in servers.items():
        style, label = styles[name]
        for matching in MATCHING:
            line = [
                (n, points[grid_name(0, matching, n)]["received_per_s"])
                for n in OTHERS
                if grid_name(0, matching, n) in points
            ]
            if line:
                axes.plot(
                    *zip(*line, strict=True),
                    style,
                    color=colours[matching],
                    label=f"{label}, r = {matching}",
                    markersize=4,
                )
    axes.set_xscale("symlog", linthresh=5, linscale=0.5)
    axes.set_yscale("log")
    axes.set_xticks(OTHERS, [str(n) for n in OTHERS])
    axes.minorticks_off()
    axes.set_xlabel("further subscriptions that do not match (n)")
    axes.set_ylabel("messages received a second")
    axes.set_title("Saturated brokers on one core, r matching subscribers, empty bodies")
    axes.grid(True, alpha=0.3)
    figure.legend(ncols=4, fontsize="small", loc="outside lower center")
    for suffix in ("png", "svg"):
        figure.savefig(RESULTS / f"broker.{suffix}", dpi=150)
    pyplot.close(figure)
