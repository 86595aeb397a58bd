"""The pages /metrics (Prometheus text format 0.0.4) and /health (for supervisors that restart the broker).

Queues and durable subscriptions have series of their own for the `MAILBOXES_MAX` fullest; the sums over all are always
present, so a broker with a million queues still answers quickly.
"""

import json
import os
import platform
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from importlib.metadata import version

from tidings.broker.broker_view import BrokerView
from tidings.broker.http.network_status import copy_counts
from tidings.broker.http.server import HttpPage
from tidings.broker.inspection import dropped
from tidings.broker.store_thread import LATENCY_SECONDS, StoreThread
from tidings.delivery.mailbox import Mailbox, MailboxKind
from tidings.kernel.client_input import wait_bounds

MAILBOXES_MAX = 500
SLOW_SECONDS = 1.0  # that one write takes, before /health calls the store slow
TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Counters of the forwarding plane: metric name and help text.
_FORWARDER = {
    "received": ("messages_received_total", "Messages received from publishers."),
    "received_bytes": ("received_bytes_total", "Bytes read from clients."),
    "delivered": ("messages_delivered_total", "Deliveries written to the output of subscribers."),
    "sent_bytes": ("sent_bytes_total", "Bytes handed to sockets."),
    "unmatched": ("messages_unmatched_total", "Messages that matched no subscription."),
    "pushed_back": ("publishers_pushed_back_total", "Times that a publisher was held back by a slow subscriber."),
    "feeds": ("reads_total", "Reads from sockets."),
    "writes": ("writes_total", "Writes to sockets."),
}

# Counters without a sample before the first event, and the label of their samples.
LABELS = {
    "logins_refused_total": "code",
    "protocol_errors_total": "code",
    "tls_handshakes_failed_total": "reason",
    "log_lines_suppressed_total": "line",
}

# Counters of copies between brokers (network_status.py), and their label values.
_FATES = {
    "copies": "sent",
    "arrived": "received",
    "relayed": "relayed",
    "in_vain": "in vain",
    "no_route": "no route",
    "no_hops": "too many hops",
    "duplicates": "duplicate",
    "wrong_path": "wrong path",
    "expired": "expired",
    "abandoned": "abandoned",
}


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(
        self, name: str, kind: str, meaning: str, samples: Iterable[tuple[Mapping[str, str], float]] | float
    ) -> None:
        self.lines += (f"# HELP tidings_{name} {meaning}", f"# TYPE tidings_{name} {kind}")
        for labels, value in [({}, samples)] if isinstance(samples, (int, float)) else samples:
            self.sample(name, labels, value)

    def sample(self, name: str, labels: Mapping[str, str], value: float) -> None:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        self.lines.append(f"tidings_{name}{'{' + inside + '}' if inside else ''} {value}")

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


class Metrics:
    def __init__(self, view: Callable[[], BrokerView]) -> None:
        self._view = view
        self._began, self._began_steady = time.time(), time.monotonic()

    def metrics(self) -> HttpPage:
        text, broker = _Text(), self._view()
        _build(text, broker.name, broker.role)
        _traffic(text, broker)
        _clients(text, broker)
        _mailboxes(text, broker)
        if broker.writer is not None:
            _store(text, broker.writer)
        _network(text, broker)
        _machine(text, broker, self._began)
        _waits(text, broker)
        _admission(text, broker)
        for name, meaning, samples in broker.observer.gauges() if broker.observer else ():
            text.add(name, "gauge", meaning, samples)
        return HttpPage(str(text), TYPE)

    def health(self) -> HttpPage:
        """200 while the broker serves clients, otherwise 503; a store that refuses or is slow, and messages that are
        held because the store was replaced, are reported with status 200, as are interests of the network that are not
        known yet, if messages are stored meanwhile. If `live` is false, only a restart helps."""
        broker = self._view()
        ended = broker.failure
        network = broker.engine.network()
        fits = network is None or (network.takes_persistent and not network.contested)
        ready = broker.ready and not ended and fits
        state = {
            "role": broker.role,
            "live": not ended,
            "ready": ready,
            "store": _store_state(broker.writer),
            "connections": len(broker.clients.connections),
            "uptime_seconds": round(time.monotonic() - self._began_steady, 3),
        }
        if network is not None:
            state |= {"synchronised": network.synchronised, "duplicate_id": network.contested}
            if network.copies_held:
                state["held"] = network.copies_held
            if network.store_behind:
                state["store_behind"] = True
        if ended:
            state["failure"] = ended
        return HttpPage(json.dumps(state) + "\n", "application/json", 200 if ready else 503)

    def live(self) -> HttpPage:
        """503 if only a restart helps: something in the broker that had to go on has ended."""
        failure = self._view().failure
        return HttpPage(f"{failure}\n", status=503) if failure else HttpPage("live\n")

    def ready(self) -> HttpPage:
        """503 while the broker serves no clients: it starts, stops or has failed."""
        broker = self._view()
        ready = broker.ready and not broker.failure
        return HttpPage("ready\n") if ready else HttpPage("not ready\n", status=503)


def standby_text(name: str, began: float) -> str:
    """The metrics of a process that waits to be the broker."""
    text = _Text()
    _build(text, name, "standby")
    text.add("start_time_seconds", "gauge", "When the broker started.", began)
    text.add("ready", "gauge", "1 while clients are served.", 0)
    return str(text)


def _build(text: _Text, name: str, role: str) -> None:
    labels = {"version": version("tidings"), "python": platform.python_version(), "broker": name}
    text.add("build_info", "gauge", "Version of the broker; always 1.", [(labels, 1)])
    text.add("role", "gauge", "single, or of a pair active or standby; always 1.", [({"role": role}, 1)])


def _traffic(text: _Text, broker: BrokerView) -> None:
    stats, counts = broker.forwarder.stats(), broker.engine.counts()
    for key, (name, meaning) in _FORWARDER.items():
        text.add(name, "counter", meaning, stats[key] + (counts.pushed_back if key == "pushed_back" else 0))
    given_up = broker.forwarder.overruns()
    text.add("filters_given_up_total", "counter", "Filters not evaluated to the end, each once a message.", given_up)
    drops = [({"reason": reason}, count) for reason, count in dropped(broker).items()]
    drops.append(({"reason": "expired"}, stats["expired"] + counts.expired))
    text.add("messages_dropped_total", "counter", "Messages not delivered to a subscriber, by reason.", drops)
    text.add("dead_letters_total", "counter", "Messages moved to the dead letters.", counts.dead_letters)
    failed = counts.dead_letters_failed
    text.add(
        "dead_letters_failed_total",
        "counter",
        "Messages that could not be moved to the dead letters and stay in their queue.",
        failed,
    )
    _by_protocol(text, broker)
    text.add("messages_delayed", "gauge", "Messages that wait for their time.", counts.delayed)
    text.add("messages_duplicate_total", "counter", "Repeated publications that were discarded.", counts.duplicates)


def _by_protocol(text: _Text, broker: BrokerView) -> None:
    names, counts = broker.clients.protocols, broker.forwarder.by_protocol()
    open_now = Counter(one.protocol for one in broker.clients.connections.values())
    received = [({"protocol": name}, came) for name, (came, _) in zip(names, counts, strict=False)]
    delivered = [({"protocol": name}, went) for name, (_, went) in zip(names, counts, strict=False)]
    text.add(
        "protocol_connections",
        "gauge",
        "Connections by protocol.",
        [({"protocol": one}, open_now[one]) for one in names],
    )
    text.add("protocol_messages_received_total", "counter", "Messages received, by the publisher's protocol.", received)
    text.add("protocol_messages_delivered_total", "counter", "Deliveries, by the subscriber's protocol.", delivered)


def _clients(text: _Text, broker: BrokerView) -> None:
    logged_in = sum(connection.logged_in for connection in broker.clients.connections.values())
    states = [({"state": "ready"}, logged_in), ({"state": "login"}, len(broker.clients.connections) - logged_in)]
    text.add("connections", "gauge", "Connections of clients.", states)
    text.add(
        "connections_refused_total", "counter", "Connections refused because of limits.", broker.connections_refused
    )
    for name, counts, meaning in (
        ("logins_refused_total", broker.refused_logins, "Logins refused, by error code."),
        ("protocol_errors_total", broker.engine.protocol_errors, "Connections ended because of a protocol error."),
        ("tls_handshakes_failed_total", broker.failed_handshakes.by_reason, "TLS handshakes that failed, by reason."),
        (
            "log_lines_suppressed_total",
            broker.suppressed_lines,
            "Log lines suppressed by rate limits, by kind.",
        ),
    ):
        text.add(name, "counter", meaning, [({LABELS[name]: code}, count) for code, count in counts.items()])
    text.add("logins_waiting", "gauge", "Logins that wait for a password check.", broker.waiting_logins)


def _mailboxes(text: _Text, broker: BrokerView) -> None:
    mailboxes = broker.engine.mailboxes.values()
    sums = {kind: [0, 0, 0, 0] for kind in MailboxKind}
    for mailbox in mailboxes:
        one = sums[mailbox.kind]
        for number, value in enumerate((1, len(mailbox.backlog), mailbox.unacknowledged, len(mailbox.consumers))):
            one[number] += value
    names = ("mailboxes", "mailboxes_waiting", "mailboxes_unacknowledged", "mailboxes_consumers")
    meanings = ("Queues and kept subscriptions.", "Messages waiting.", "Delivered, not acknowledged.", "Consumers.")
    for number, (name, meaning) in enumerate(zip(names, meanings, strict=True)):
        by_kind = [({"kind": str(kind.value)}, values[number]) for kind, values in sums.items()]
        text.add(name, "gauge", f"{meaning} Sums by kind.", by_kind)
    kept = [mailbox for mailbox in mailboxes if mailbox.kind is not MailboxKind.PRIVATE]
    shown = nlargest(MAILBOXES_MAX, kept, key=lambda mailbox: len(mailbox.backlog)) if kept else []
    _each(text, "mailbox_waiting", "gauge", "Messages waiting.", [(one, len(one.backlog)) for one in shown])
    _each(text, "mailbox_unacknowledged", "gauge", "Not acknowledged.", [(one, one.unacknowledged) for one in shown])
    _each(text, "mailbox_consumers", "gauge", "Consumers attached.", [(one, len(one.consumers)) for one in shown])
    _each(text, "mailbox_dropped_total", "counter", "Dropped by its policy.", [(one, one.dropped) for one in shown])
    meaning = "Deliveries since the broker started, repeated ones included."
    _each(text, "mailbox_given_total", "counter", meaning, [(one, one.given) for one in shown])


def _network(text: _Text, broker: BrokerView) -> None:
    network, forwarder = broker.engine.network(), broker.forwarder
    if network is None:
        return
    waiting = [({"peer": str(peer)}, forwarder.link_waiting(peer)) for peer in network.links]
    text.add("link_waiting_bytes", "gauge", "Bytes that wait for a link.", waiting)
    text.add("synchronised", "gauge", "1 once the network's interests are known.", int(network.synchronised))
    text.add("duplicate_id", "gauge", "1 while an older broker has this one's id.", int(network.contested))
    text.add("routes", "gauge", "Other brokers that can be reached.", len(network.routes))
    text.add(
        "transit_messages", "gauge", "Persistent messages not yet acknowledged by the next broker.", network.in_transit
    )
    meaning = "Persistent messages held because the store was replaced (network.empty_store)."
    text.add("held_messages", "gauge", meaning, network.copies_held)
    meaning = "1 if the store is older than what other brokers know of it, as after a restored backup."
    text.add("store_behind", "gauge", meaning, int(network.store_behind))
    counts = copy_counts(broker, network)
    text.add("copy_bytes_total", "counter", "Bytes of copies sent to other brokers.", counts["copy_bytes"])
    fates = [({"fate": fate}, counts[name]) for name, fate in _FATES.items()]
    text.add("copies_total", "counter", "Copies between brokers, by fate.", fates)


def _admission(text: _Text, broker: BrokerView) -> None:
    admission = broker.admission
    if admission is None:
        return
    if admission.rate_allowed is not None:
        meaning = "Messages per second at which they wait no longer than allowed, by the estimate."
        text.add("admission_rate", "gauge", meaning, admission.rate_allowed)
    if broker.windows is not None:
        window = broker.windows.window or 0
        text.add("admission_window_bytes", "gauge", "What may wait in a publisher's socket; 0: no limit.", window)
        text.add("admission_shrunk_total", "counter", "Times that this was made smaller.", broker.windows.shrunk)
    text.add("admission_refused_total", "counter", "Publishers refused by admission control.", admission.refused)


def _waits(text: _Text, broker: BrokerView) -> None:
    name, below = "socket_waiting_seconds", 0.0
    text.add(name, "histogram", "Time messages waited in sockets until they were read, by samples.", [])
    bounds = [f"{bound:.3g}" for bound in wait_bounds()]
    for number, (bound, count) in enumerate(zip((*bounds, "+Inf"), broker.pace.wait_counts(), strict=True)):
        below += count
        if number % 2 == 0 or bound == "+Inf":
            text.sample(f"{name}_bucket", {"le": bound}, below)
    text.sample(f"{name}_sum", {}, broker.pace.wait_seconds)
    text.sample(f"{name}_count", {}, below)


def _machine(text: _Text, broker: BrokerView, began: float) -> None:
    held = [
        ({"part": "output"}, broker.forwarder.held_bytes()),
        ({"part": "matcher"}, broker.forwarder.matcher_bytes()),
        ({"part": "messages"}, broker.engine.counts().message_bytes),
    ]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    text.add("memory_bytes", "gauge", "Memory held, by part.", held)
    text.add("resident_bytes", "gauge", "Resident memory of the process.", _resident_bytes())
    text.add("cpu_seconds_total", "counter", "Processor time.", usage.ru_utime + usage.ru_stime)
    text.add("start_time_seconds", "gauge", "When the broker started.", began)
    text.add("ready", "gauge", "1 while clients are served.", int(broker.ready))


def _each(text: _Text, name: str, kind: str, meaning: str, values: list[tuple[Mailbox, int]]) -> None:
    text.add(name, kind, meaning, [({"mailbox": mailbox.name}, value) for mailbox, value in values])


def _store_state(writer: StoreThread | None) -> str:
    if writer is None:
        return "starting"
    if writer.health.error is not None:
        return writer.health.error.code
    return "slow" if writer.write_seconds > SLOW_SECONDS else "ok"


def _store(text: _Text, writer: StoreThread) -> None:
    stats = writer.stats
    text.add("store_write_age_seconds", "gauge", "Age of the write under way; 0: none is.", writer.write_seconds)
    text.add("store_records_total", "counter", "Records written.", stats.records)
    text.add("store_failures_total", "counter", "Batches the store refused.", stats.failures)
    name = "store_append_seconds"
    text.add(name, "histogram", "Time to write a batch, fsync included.", [])
    below = 0
    for bound, count in zip((*map(str, LATENCY_SECONDS), "+Inf"), stats.by_latency, strict=True):
        below += count
        text.sample(f"{name}_bucket", {"le": bound}, below)
    text.sample(f"{name}_sum", {}, stats.seconds)
    text.sample(f"{name}_count", {}, below)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:  # not Linux: the largest it ever was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
