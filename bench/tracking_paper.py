"""The evaluation of Jun and Astley, repeated: their Table 2 on a real broker, latency and bytes a message.

    python -m bench.tracking_paper            all configurations, half a minute each and longer where T_p is long
    python -m bench.tracking_paper --quick    six of them, some seconds each

One broker, 200 publishers, 500 subscribers, 500 topics, 5000 messages a second in and out; each publisher sends to ten
topics, each subscriber has one. The broker runs on one core, the clients on the other. Latency is from the publisher's
send to the subscriber's read of each message, and `disk` what all histories take on disk at the end, with the storage
mode that is the default, *retain*. Bytes of H_P, as they are and compressed, come from a minute of the same load in
virtual time with filters that *rotate*, as the paper's do (bench.tracking).
"""

import argparse
import select
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bench.harness import RESULTS, save, table
from bench.paper_configurations import PUBLISHERS, RATE_PER_S, RUNS, SUBSCRIBERS, TABLE_2, TOPICS, PaperConfiguration
from bench.tracking import figure_1, storage
from tidings.kernel.codec import encode_message
from tidings.lab.servers import LOAD_CORE, Server, TidingsServer, on_core
from tidings.model.codec import encode_frame
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageIdSource
from tidings.protocols.native.frames import FrameSplitter, FrameType, control

STEP_SECONDS = 0.01
TOPICS_EACH = 10
WARM_SECONDS = 2.0


def keys_of(row: PaperConfiguration) -> dict[str, object] | None:
    """[tracking] for a row of Table 2."""
    if row.strategy == "none":
        return None
    keys: dict[str, object] = {"strategy": row.strategy, "persist_ms": 1000 * row.persist_s}
    if row.strategy == "runs":
        return keys
    if row.settings is None:
        return keys | {"buffer_bytes": row.buffer_bytes}
    shape = row.settings
    return keys | {"bits": shape.bits, "capacity": shape.capacity, "hashes": shape.hashes}


@dataclass(slots=True)
class Client:
    socket: socket.socket
    splitter: FrameSplitter


class World:
    """All clients of one run, in one thread."""

    def __init__(self, server: Server) -> None:
        rng = Random(1)
        self._address = ("127.0.0.1", server.port)
        self._publishers = [self._connect() for _ in range(PUBLISHERS)]
        self._ids = [MessageIdSource(number, 1) for number in range(1, PUBLISHERS + 1)]
        self._topics = [[rng.randrange(TOPICS) for _ in range(TOPICS_EACH)] for _ in range(PUBLISHERS)]
        self._subscribers = {}
        self._poller = select.epoll()
        for _ in range(SUBSCRIBERS):
            one = self._connect(f"t.{rng.randrange(TOPICS)}")
            self._subscribers[one.socket.fileno()] = one
            self._poller.register(one.socket.fileno(), select.EPOLLIN)
        self.sent = 0
        self.latencies_ms: list[float] = []

    def _connect(self, topic: str = "") -> Client:
        made = socket.create_connection(self._address)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Client(made, FrameSplitter(1 << 20))
        made.sendall(control(FrameType.HELLO, {"version": 1}))
        self._expect(client, FrameType.WELCOME)
        if topic:
            made.sendall(control(FrameType.SUBSCRIBE, {"receipt": 1, "subscription": 1, "destination": topic}))
            self._expect(client, FrameType.OK)
        made.setblocking(False)
        return client

    @staticmethod
    def _expect(client: Client, type: FrameType) -> None:
        frames: list[Any] = []
        while not frames:
            data = client.socket.recv(1 << 16)
            if not data:
                raise RuntimeError("the broker closed a connection")
            frames = list(client.splitter.feed(data))
        if frames[0].type != type:
            raise RuntimeError(f"expected {type.name}, got {frames[0]}")

    def run(self, seconds: float) -> None:
        begin = time.perf_counter()
        step = 0
        each = round(RATE_PER_S * STEP_SECONDS)
        while (now := time.perf_counter()) - begin < seconds:
            due = int((now - begin) / STEP_SECONDS)
            while step < due:
                for _ in range(each):
                    self._publish()
                step += 1
            self._read(max(0.0, begin + (step + 1) * STEP_SECONDS - time.perf_counter()))

    def settle(self) -> None:
        self._read(0.5)

    def _publish(self) -> None:
        number = self.sent % PUBLISHERS
        self.sent += 1
        topics = self._topics[number]
        id = self._ids[number].next(time.time_ns() // 1_000_000)
        assert id is not None
        body = time.perf_counter_ns().to_bytes(8, "little")
        topic = Destination(f"t.{topics[self.sent // PUBLISHERS % TOPICS_EACH]}")
        frame = encode_frame(FrameType.PUBLISH, bytes(4) + encode_message(Message(topic, {}, body, id=id)))
        if self._publishers[number].socket.send(frame) != len(frame):
            raise RuntimeError("the socket is full at this rate")

    def _read(self, patience: float) -> None:
        for number, _ in self._poller.poll(patience):
            client = self._subscribers[number]
            data = client.socket.recv(1 << 16)
            now_ns = time.perf_counter_ns()
            for frame in client.splitter.feed(data):
                if frame.type == FrameType.DELIVER:
                    self.latencies_ms.append((now_ns - int.from_bytes(frame.payload[-8:], "little")) / 1e6)

    def close(self) -> None:
        self._poller.close()
        for client in [*self._publishers, *self._subscribers.values()]:
            client.socket.close()


def measure(row: PaperConfiguration, seconds: float) -> dict[str, Any]:
    with TidingsServer(keys_of(row)) as server, on_core(LOAD_CORE):
        world = World(server)
        world.run(WARM_SECONDS)
        world.latencies_ms.clear()
        cpu = server.cpu_seconds()
        world.run(max(seconds, 2.5 * row.persist_s))
        cpu = server.cpu_seconds() - cpu
        latencies = np.array(world.latencies_ms)
        world.settle()
        world.close()
        server.end()
        disk = disk_bytes(server.directory / "tracking") / world.sent
    about = {"strategy": row.strategy, "buffer": row.buffer_bytes, "accuracy": row.accuracy, "persist_s": row.persist_s}
    quantiles = {f"p{q}_ms": float(np.percentile(latencies, q)) for q in (50, 99)}
    per_message = {"mean_ms": float(latencies.mean()), "cpu_us": cpu / len(latencies) * 1e6}
    return {**about, **per_message, **quantiles, "disk_bytes": disk, "received": len(latencies)}


def disk_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.parquet")) if root.is_dir() else 0


def name_of(row: dict[str, Any]) -> str:
    if row["strategy"] == "none":
        return "none"
    return f"{row['strategy']} {row['buffer'] // 1000}k {row['accuracy']} {row['persist_s']}s"


def plot(path: Path, rows: list[dict[str, Any]], stored: list[dict[str, Any]], shapes: list[dict[str, float]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, ((one, three), (four, five)) = plt.subplots(2, 2, figsize=(15, 12))
    one.semilogy([r["bits_per_message"] for r in shapes], [r["fpp"] for r in shapes], "o-")
    one.set(xlabel="bits a message, m/n", ylabel="false-positive probability", title="Figure 1: accuracy")
    at, names = np.arange(len(rows)), [name_of(row) for row in rows]
    three.barh(
        at, [row["mean_ms"] for row in rows], color=["#888" if r["strategy"] == "none" else "#48c" for r in rows]
    )
    three.set(xlabel="mean latency [ms]", title="Figure 3: latency")
    three.set_yticks(at, names, fontsize=7)
    three.invert_yaxis()
    at, names = np.arange(len(stored)), [name_of(row) for row in stored]
    for axes, kind, title in ((four, "raw", "Figure 4: storage"), (five, "gzip", "Figure 5: storage, compressed")):
        axes.barh(at, [row[kind] for row in stored])
        axes.set(xlabel="bytes a message in H_P", title=title)
        axes.set_yticks(at, names, fontsize=7)
        axes.invert_yaxis()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=0.0, help="of each configuration, at least")
    arguments = parser.parse_args()
    wanted = [row for row in (*TABLE_2, RUNS) if not arguments.quick or (row.persist_s <= 1 and row.accuracy != "99%")]
    rows = []
    for row in wanted:
        rows.append(measure(row, arguments.seconds or (5.0 if arguments.quick else 30.0)))
        last = rows[-1]
        print(f"{name_of(last):28} {last['mean_ms']:8.3f} ms {last['disk_bytes']:8.2f} bytes", flush=True)
    columns: tuple[str, ...] = ("configuration", "mean_ms", "p50_ms", "p99_ms", "cpu_us", "disk_bytes")
    table(
        "latency, CPU time and disk of a message", columns, [[name_of(r), *(r[c] for c in columns[1:])] for r in rows]
    )
    stored = storage()
    columns = ("configuration", "full", "raw", "gzip", "stores_per_s")
    cells = [[name_of(row), *(row.get(c, "") for c in columns[1:])] for row in stored]
    table("bytes a message of H_P, filters that rotate", columns, cells)
    name = "tracking_paper_quick" if arguments.quick else "tracking_paper"
    shapes = figure_1()
    plot(RESULTS / f"{name}.png", rows, stored, shapes)
    print("written to", save(name, {"rows": rows, "storage": stored, "figure_1": shapes}))


if __name__ == "__main__":
    main()
