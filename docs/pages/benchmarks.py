"""The benchmarks page, from bench/results: what was measured, how, when, and where others are better."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.broker_report import best

RESULTS = Path(__file__).parents[2] / "bench" / "results"
OURS, STOMP, OTHER = "tidings", "tidings-stomp", "activemq"


def page() -> str:
    parts = [
        "# Benchmarks",
        "All figures come from the programs in `bench/`, which keep them in `bench/results/`, and this page is made of those "
        "files. Absolute figures are those of one machine with two shared cores; compare ratios. `make bench` and "
        "`make versus` measure on yours.",
        *(part for section in (broker, matching, network, tracking, pipeline) for part in present(section)),
        "## Where others are better",
        "\n".join(f"- {line}" for line in weak()),
    ]
    return "\n\n".join(parts) + "\n"


def present(section: Callable[[], Iterable[str]]) -> list[str]:
    """Nothing, if its results are not there."""
    try:
        return list(section())
    except FileNotFoundError:
        return []


def broker() -> Iterable[str]:
    found = load("broker")
    servers = {name: {point: best(runs) for point, runs in points.items()} for name, points in found["servers"].items()}
    ours, stomp, other = (servers.get(name, {}) for name in (OURS, STOMP, OTHER))
    yield "## One broker, beside ActiveMQ"
    yield taken(found) + f" ActiveMQ {found['versions'][OTHER]}, by STOMP; mode {found['mode']}."
    yield (
        "Server on one core, generator on the other, tiny messages in batches unless a body is given. r: subscribers that get every "
        "message; n: filters that match none. Both by STOMP is the like-for-like comparison; our own protocol is in the first column."
    )
    rows = []
    for point in ours:
        if point.startswith("grid") and point in other:
            body, matching, others = (part.partition("=")[2] for part in point.split()[1:])
            ratio = stomp[point]["received_per_s"] / other[point]["received_per_s"] if point in stomp else None
            rates = [f"{one[point]['received_per_s']:,.0f}" if point in one else "" for one in (ours, stomp, other)]
            rows.append([body, matching, others, *rates, f"{ratio:.1f} ×" if ratio else ""])
    yield table(["body", "r", "n", "Tidings/s", "Tidings, STOMP/s", "ActiveMQ/s", "by STOMP"], rows)
    rows = []
    for point in ours:
        if not point.startswith("grid") and point in other and "p50_ms" not in ours[point]:
            rates = [f"{one[point]['received_per_s']:,.0f}" if point in one else "" for one in (ours, stomp, other)]
            rows.append([point, *rates, f"{ours[point]['received_per_s'] / other[point]['received_per_s']:.2f} ×"])
    yield "One message a send, and persistent ones (one fsync took " + f"{found['fsync_us']:.0f} µs):"
    yield table(["", "Tidings/s", "Tidings, STOMP/s", "ActiveMQ/s", "Tidings : ActiveMQ"], rows)
    rows = [
        [point, *(f"{one[point][key]:.3f}" for one in (ours, stomp, other) for key in ("p50_ms", "p99_ms"))]
        for point in ours
        if "p50_ms" in ours[point] and point in other and point in stomp
    ]
    yield "Latency at a steady rate, in ms:"
    yield table(["messages/s", "Tidings p50", "p99", "by STOMP p50", "p99", "ActiveMQ p50", "p99"], rows)


def matching() -> Iterable[str]:
    found = load("matching")
    rows = [
        [
            row["workload"],
            f"{row['conjunctions']:,}",
            f"{row['us_per_message']:.2f}",
            f"{row['scan_us_per_message']:,.1f}",
            f"{row['ratio']:.0f} ×",
            f"{row['matches_per_message']:,.1f}",
            f"{row['bytes_per_conjunction']:,.0f}",
        ]
        for row in found["matching"]
    ]
    yield "## Matching"
    yield taken(found) + " Messages are seen for the first time; the scan is ours too, and looks at every conjunction."
    yield table(["workload", "conjunctions", "µs a message", "scan, µs", "faster", "matches", "bytes each"], rows)


def network() -> Iterable[str]:
    found = load("network")
    sizes: dict[int, dict[str, Mapping[str, Any]]] = {}
    for point in found["points"]:
        best_so_far = sizes.setdefault(point["brokers"], {}).get(point["variant"])
        if best_so_far is None or point["rate"] < best_so_far["rate"]:
            sizes[point["brokers"]][point["variant"]] = point
    rows = [
        [
            brokers,
            variant,
            f"{point['link_bytes'] / point['least_bytes']:.2f}" if point["least_bytes"] else "",
            f"{point['destinations']:.2f}",
            f"{point['wanted']:.2f}",
            f"{point['delivered'] / point['expected']:.1%}",
        ]
        for brokers, variants in sizes.items()
        for variant, point in variants.items()
    ]
    yield "## Networks"
    yield (
        taken(found)
        + " In the simulator with the brokers that ship, at the lowest rate measured. Bytes on links are relative to the "
        "least that any scheme would need; destinations are brokers a message was sent to, wanted those that had a subscriber."
    )
    yield table(["brokers", "variant", "bytes on links", "destinations", "wanted", "delivered"], rows)


def tracking() -> Iterable[str]:
    cost, trace = load("tracking_cost"), load("trace")
    yield "## Tracking"
    yield taken(cost) + " CPU time a message and throughput, relative to a broker that records nothing."
    rows = [
        [
            row["point"],
            f"{row['bloom_cpu']:.2f}",
            f"{row['bloom_rate']:.2f}",
            f"{row['async_cpu']:.2f}",
            f"{row['async_rate']:.2f}",
        ]
        for row in [*cost["rows"], {"point": "all of these, geometric mean", **cost["all"]}]
    ]
    yield table(["", "bloom: CPU", "rate", "exact log: CPU", "rate"], rows)
    rows = [[row["brokers"], f"{row['median_ms']:.2f}", f"{row['worst_ms']:.1f}"] for row in trace["by_brokers"]]
    yield "A trace over so many brokers in a line takes, in ms:"
    yield table(["brokers", "median", "worst"], rows)


def pipeline() -> Iterable[str]:
    found = load("pipeline")
    yield "## Spark"
    yield taken(found) + " `local[2]`; start-up of Spark not counted."
    rows = [
        [f"{row['rows']:,}", f"{row['wall_s']:.1f}", f"{row['per_cpu_s']:,.0f}"] for row in found["trace"]["traces"]
    ]
    yield table(["messages traced", "seconds", "a CPU second"], rows)
    rows = [[f"{row['subscriptions']:,}", f"{row['rows']:,}", f"{row['per_cpu_s']:,.0f}"] for row in found["replay"]]
    yield table(["subscriptions", "messages replayed", "a CPU second"], rows)


def weak() -> Iterable[str]:
    """Computed where it can be: what speaks against Tidings must not go stale."""
    for section in (slower, flooding, recording, starting):
        yield from present(section)
    yield (
        "Only what two cores show was compared: ActiveMQ uses many cores, a Tidings broker forwards on one. On a large machine run "
        "several brokers, or take something else."
    )
    yield (
        "Not measured beside others here: RabbitMQ, NATS, Artemis, EMQX, Zenoh. NATS and Zenoh route by subject only, without "
        "selectors, and are small and fast at it; Kafka keeps and replays large logs better than retained subscriptions do."
    )
    yield (
        "No clustering of one queue over several brokers: a queue belongs to the broker it was made at. ActiveMQ Artemis and "
        "RabbitMQ's quorum queues survive the loss of a machine's disk; here its persistent messages wait for its return."
    )
    yield "Not there: MQTT, XA transactions, message groups, scheduled delivery, JMX."


def slower() -> Iterable[str]:
    servers = load("broker")["servers"]
    ratios = {
        point: best(servers[OURS][point])["received_per_s"] / best(runs)["received_per_s"]
        for point, runs in servers[OTHER].items()
        if point in servers[OURS] and "offered_per_s" not in best(runs)
    }
    behind = [f"{point} ({ratio:.2f} ×)" for point, ratio in ratios.items() if ratio < 1]
    yield f"Points above at which ActiveMQ takes more messages: {', '.join(behind) or 'none'}."


def flooding() -> Iterable[str]:
    """Sizes of networks in which it sends less than the default, at the same rate."""
    sent: dict[tuple[int, int], dict[str, int]] = {}
    for point in load("network")["points"]:
        sent.setdefault((point["brokers"], point["rate"]), {})[point["variant"]] = point["link_bytes"]
    sizes = sorted({key[0] for key, one in sent.items() if one.get("flooding", 1 << 62) < one.get("graded", 0)})
    found = ", ".join(map(str, sizes)) or "none"
    yield f"Flooding needs fewer bytes on links than B-DRP in networks of so many brokers: {found}."


def recording() -> Iterable[str]:
    worst = max(load("tracking_cost")["rows"], key=lambda row: row["bloom_cpu"])
    more = f"{worst['bloom_cpu'] - 1:.0%}"
    yield f"Recording for traces costs up to {more} more CPU time ({worst['point']}); brokers without it do not pay that."


def starting() -> Iterable[str]:
    first, *_, last = load("pipeline")["trace"]["traces"]
    share = f"{first['per_cpu_s'] / last['per_cpu_s']:.0%}"
    yield (
        f"Spark has a price before it begins: {first['rows']:,} messages are traced at {share} of the speed of {last['rows']:,}. "
        "For a few ids `tidings trace` answers in milliseconds."
    )


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def taken(found: Mapping[str, Any]) -> str:
    about = found["environment"]
    return f"{about['date'][:10]}, {about['cpu']}, commit `{about['commit']}`."


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])
