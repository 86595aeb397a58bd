"""Admission control under overload: waiting from send to receive, throughput, losses: `python -m bench.overload`.

Publishers send one message a call, as a Poisson process of twice what the broker carries, or as fast as their sockets
take them; a message is stamped before the call that sends it, so what waits in the publisher's own buffer counts too.
That buffer is as large as the system likes, or limited as Tidings' client limits it. Filters that are evaluated one by
one make messages dear, so that the broker and not its clients is what saturates.

Besides: how long a burst of 10 000 messages takes on a broker that was idle, and the waiting of a publisher of few
messages alone and beside others that flood. Nothing else may run on the machine.
"""

import argparse
import json
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from bench.harness import RESULTS
from tidings.client.connection.transport import limit_unsent
from tidings.kernel.load_pump import LoadPump
from tidings.lab.calibration.load import KINDS, LoadConnection, LoadPoint, connected_load
from tidings.lab.calibration.meters import MetricsMeter
from tidings.lab.calibration.target import CLIENTS, parse_address
from tidings.lab.calibration.wires import ClientAccount, LoadMessage, LoadSubscription
from tidings.testing.broker_process import BrokerProcess

BOUND_MS = 5.0
MARK = b"at="
ENDLESS = 1 << 40
SATURATED = 1000  # messages in flight that show what the broker carries
WARM_S, PATIENCE_S, IDLE_S = 1.0, 20.0, 0.3
BURST, BURSTS, INNOCENT_RATE = 10_000, 10, 200.0


@dataclass(frozen=True, slots=True)
class DearLoad:
    """Messages that pass filters which match nothing, and get to one subscriber of all and two of 40 %."""

    publishers: int = 1
    dear: int = 1000  # filters
    limited: bool = True  # publishers limit what waits in their own buffers
    protocol: str = "native"


@dataclass(frozen=True, slots=True)
class Run:
    """Times in milliseconds, rates per second."""

    name: str
    admission: bool
    limited: bool
    throughput: float
    per_cpu_s: float
    median: float
    p99: float
    longest: float
    lost: int


@contextmanager
def broker(*, admission: bool) -> Iterator[tuple[str, str]]:
    more = '[broker]\ndata = "data"\n'
    if admission:
        more += f"[admission]\nwaiting_ms_max = {BOUND_MS}\n"
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder), more, level="info") as process:
        yield f"127.0.0.1:{process.port}", f"127.0.0.1:{process.events('metrics')[-1]['port']}"


@contextmanager
def pump(address: str, load: DearLoad, topic: str = "overload") -> Iterator[LoadPump]:
    where, client = parse_address(address), partial(CLIENTS[load.protocol], ClientAccount())
    point = LoadPoint(load.protocol, subscribers=3, match=0.4, publishers=load.publishers)
    with connected_load(where, point, client, topic) as connected, socket.create_connection(where) as idle:
        connection = LoadConnection(idle, client())
        connection.ask([connection.client.login(f"{topic}-dear")])
        for number in range(load.dear):
            plan = LoadSubscription(topic, (), f"NOT (kind > 'a{number}' OR p > {number} * 2 + p)")
            connection.ask([connection.client.subscribe(number + 1, plan)])
        if load.limited:
            for one in connected.publishers:
                limit_unsent(one.socket)
        body = MARK + b"0" * 16 + b"x" * 81
        messages = [LoadMessage(topic, kind, body, (("kind", str(kind)),)) for kind in range(10, KINDS)]
        frame = connected.publishers[0].client.publisher(messages)
        frames = [frame(number, 0) for number in range(len(messages))]
        files = [[one.socket.fileno() for one in part] for part in (connected.publishers, connected.others)]
        stamp_at = frames[0].index(MARK) + len(MARK)
        yield LoadPump(files[0], connected.probe.socket.fileno(), files[1], frames, MARK, stamp_at=stamp_at)


def capacity_of(load: DearLoad) -> float:
    """Messages a second, of publishers that always have more."""
    with broker(admission=False) as (address, _), pump(address, load) as one:
        one.run(WARM_S / 2, SATURATED, 0)
        first, begun = one.arrived, time.perf_counter()
        one.run(WARM_S, SATURATED, 0)
        return float((one.arrived - first) / (time.perf_counter() - begun))


def overload(load: DearLoad, seconds: float, rate: float, *, admission: bool) -> Run:
    with broker(admission=admission) as (address, metrics), pump(address, load) as one:
        meter = MetricsMeter(metrics)
        one.run(WARM_S, ENDLESS, rate)
        one.take_latencies()
        before, first, begun = meter.read(), one.arrived, time.perf_counter()
        one.run(seconds, ENDLESS, rate)
        took, came, after = time.perf_counter() - begun, one.arrived - first, meter.read()
        found = sorted(1000 * each for each in one.take_latencies())
        one.drain(PATIENCE_S)
        name, per_cpu_s = f"{load.publishers} publishers", came / (after.cpu_s - before.cpu_s)
        longest = (statistics.median(found), found[int(0.99 * len(found))], found[-1])
        return Run(name, admission, load.limited, came / took, per_cpu_s, *longest, one.sent - one.arrived)


def burst(*, admission: bool) -> float:
    """Milliseconds that a burst takes on a broker that was idle, in the median."""
    with broker(admission=admission) as (address, _), pump(address, DearLoad(dear=0)) as one:
        times = []
        for _ in range(BURSTS):
            time.sleep(IDLE_S)
            begun = time.perf_counter()
            one.run(0.0, ENDLESS, 1e9, BURST)
            one.drain(PATIENCE_S)
            times.append(1000 * (time.perf_counter() - begun))
        return statistics.median(times)


def innocent(seconds: float, rate: float, *, admission: bool) -> tuple[float, float]:
    """The 99 % waiting of a publisher of few messages in milliseconds: beside one at half load, and beside a flood."""
    found = []
    with (
        broker(admission=admission) as (address, _),
        pump(address, DearLoad(4), "flood") as flood,
        pump(address, DearLoad(dear=0), "innocent") as quiet,
    ):
        for each in (rate / 2, rate * 2):
            thread = threading.Thread(target=flood.run, args=(seconds + WARM_S, ENDLESS, each, 0))
            thread.start()
            quiet.run(WARM_S, ENDLESS, INNOCENT_RATE)
            quiet.take_latencies()
            quiet.run(seconds, ENDLESS, INNOCENT_RATE)
            thread.join()
            flood.drain(PATIENCE_S)
            waits = sorted(quiet.take_latencies())
            found.append(1000 * waits[int(0.99 * len(waits))])
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--publishers", type=int, nargs="*", default=[1, 4, 20])
    parser.add_argument("--dear", type=int, default=DearLoad().dear)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    runs: list[Run] = []
    more: dict[str, float | tuple[float, float]] = {}
    for publishers in arguments.publishers:
        load = DearLoad(publishers, arguments.dear)
        capacity = capacity_of(load)
        print(f"{publishers} publishers: {capacity:,.0f} messages/s at saturation", flush=True)
        for admission, limited in ((False, False), (True, False), (False, True), (True, True)):
            each = replace(load, limited=limited)
            runs.append(overload(each, arguments.seconds, 2 * capacity, admission=admission))
            print(runs[-1], flush=True)
    for admission in (False, True):
        more[f"burst, admission {admission}"] = burst(admission=admission)
        more[f"innocent, admission {admission}"] = innocent(arguments.seconds, capacity, admission=admission)
    print(more)
    if arguments.keep:
        rows = {"runs": [asdict(one) for one in runs], "more": more}
        (RESULTS / "overload.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
