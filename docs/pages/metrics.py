"""The table of metrics, from what a broker that is a member of a network exports."""

import asyncio
import re
import tempfile
import time
import urllib.request
from pathlib import Path

import tidings.broker.http.metrics
import tidings.broker.tuning.capacity_monitor
from tidings.broker.http.metrics import LABELS
from tidings.client import connect
from tidings.localnet.member import Member
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.localnet.ports import free_ports
from tidings.overlay.topology.generate import line

SECONDS_MAX = 60.0
# What the broker asked below does not show: name, kind, label, meaning.
SOMETIMES = (
    ("admission_rate", "gauge", "", "With [admission]: messages a second at which they wait no longer than allowed."),
    ("admission_window_bytes", "gauge", "", "With [admission]: what may wait in a publisher's socket; 0: no limit."),
    ("admission_shrunk_total", "counter", "", "With [admission]: times that this was made smaller."),
    ("admission_refused_total", "counter", "", "With [admission]: publishers turned away."),
    ("service_seconds", "gauge", "", "Once known: processor time of one message, as the load is."),
    ("capacity_messages_per_second", "gauge", "", "Once known: what would be carried at 90% utilisation."),
    ("capacity_interval", "gauge", "bound", "Once known: bounds of that, with 95% confidence."),
    ("cost_seconds", "gauge", "cost", "Once known: costs of the model of batches."),
    ("load", "gauge", "of", "Once known: the load that is predicted for."),
    ("waiting_mean_seconds", "gauge", "", "Once known: predicted mean waiting time."),
    ("waiting_seconds", "gauge", "quantile", "Once known: predicted waiting time."),
    ("waiting_error_ratio", "gauge", "", "Once known: predicted mean waiting times are off by this factor."),
)
SOURCES = [
    Path(module.__file__ or "") for module in (tidings.broker.http.metrics, tidings.broker.tuning.capacity_monitor)
]
CAPACITY = "tidings_capacity_measuring"  # the last to appear: it is estimated from traffic


def page() -> str:
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|", *described(exported())]
    source = "".join(path.read_text() for path in SOURCES)
    for name, kind, label, meaning in SOMETIMES:
        if f'"{name}"' not in source:
            raise SystemExit(f"no broker exports tidings_{name} any more")
        rows.append(f"| `tidings_{name}` | {kind} | {label} | {meaning} |")
    intro = (
        "`/metrics` of a broker, for Prometheus (text format 0.0.4); [configuration](../configuration.md) says where it "
        "listens. `/health`, `/live` and `/ready` answer 200 or 503, `/network` says as JSON what a broker sees of its network."
    )
    return "\n\n".join(["# Metrics", intro, "\n".join(rows)]) + "\n"


def described(text: str) -> list[str]:
    """A row for each metric that a broker has told of."""
    rows = []
    for name, meaning, kind in re.findall(r"^# HELP (\S+) (.*)\n# TYPE \1 (\S+)", text, re.MULTILINE):
        labels = set(re.findall(rf"^{name}(?:_bucket)?\{{(\w+)=", text, re.MULTILINE))
        if not re.search(rf"^{name}\w*[ {{]", text, re.MULTILINE):
            labels = {LABELS[name.removeprefix("tidings_")]}
        rows.append(f"| `{name}` | {kind} | {', '.join(sorted(labels))} | {meaning} |")
    return rows


def exported() -> str:
    """The metrics of one broker with some traffic."""
    with tempfile.TemporaryDirectory() as folder:
        network = LocalNetwork.create(Path(folder), line(2), LocalOptions(port=free_ports(6)[0]))
        try:
            network.start()
            member = next(iter(network.members.values()))
            deadline = time.monotonic() + SECONDS_MAX
            while not network.settled() and time.monotonic() < deadline:
                time.sleep(0.1)
            text = ""
            while CAPACITY not in text and time.monotonic() < deadline:
                asyncio.run(traffic(member.url()))
                text = fetch(member)
            return text
        finally:
            network.stop(kill=True)


def fetch(member: Member) -> str:
    with urllib.request.urlopen(f"http://{member.host}:{member.http_port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


async def traffic(url: str) -> None:
    async with connect(url, client_id="pages") as client:
        subscriptions = [await client.subscribe("ticks.>", selector=f"n >= {least}") for least in (0, 100, 400)]
        await client.subscribe("ticks.>", durable="kept")
        for n in range(500):
            await client.publish("ticks.a", {"n": n})
        for subscription in subscriptions:
            await subscription.close()
        await asyncio.sleep(0.5)
