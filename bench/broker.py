"""Tidings and ActiveMQ through the same harness: throughput, CPU time, latency, persistence; fitted costs; goals.

    python -m bench.broker --quick               a subset of the grid
    python -m bench.broker --full --install      everything; installs Debian's activemq if it is missing (as root)
    python -m bench.broker --report              tables and plot of the stored results, nothing is measured

The server runs on core 0, the load generator (this process) on core 1. Points are measured on both servers in turn, so
that what disturbs the machine disturbs both. Results are kept after each point: a run that was broken off goes on
where it stopped (`--fresh` starts over).
"""

import argparse
import json
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from bench.broker_points import Point, fsync_us, points
from bench.broker_report import REFERENCE, best, report
from bench.harness import RESULTS, save
from tidings.lab.connections import ConnectionLoad
from tidings.lab.generator import run
from tidings.lab.load_protocols import LoadPlan
from tidings.lab.machine import environment
from tidings.lab.servers import SERVERS, Server, install_activemq

WARM_SECONDS = {"activemq": 10.0}  # a virtual machine that compiles what is hot needs to find out what that is
ATTEMPTS = 3
Results = dict[str, dict[str, Any]]  # server -> point -> {"runs": [...]}


class Run:
    def __init__(self, names: list[str], runs: int, results: dict[str, Any]) -> None:
        self.names, self.runs, self.results = names, runs, results
        for name in names:
            results["servers"].setdefault(name, {})
        self._topics = 0

    def measure(self, wanted: list[Point]) -> None:
        missing = [point for point in wanted if any(self._missing(name, point) for name in self.names)]
        if not missing:
            return
        with ExitStack() as stack:
            servers = {name: stack.enter_context(SERVERS[name]()) for name in self.names}
            for name, server in servers.items():
                self.results["versions"][name] = server.version
                run(
                    server,
                    ConnectionLoad(self._plan(LoadPlan("")), warm_seconds=WARM_SECONDS.get(name, 0.5), seconds=0.5),
                )
            for number, point in enumerate(missing, 1):
                for server in servers.values():
                    self._point(server, point, f"{number}/{len(missing)}")

    def _missing(self, name: str, point: Point) -> int:
        kept = self.results["servers"][name].get(point.name, {"runs": []})
        return max(0, self.runs - len(kept["runs"]))

    def _point(self, server: Server, point: Point, progress: str) -> None:
        mine = self.results["servers"][server.name]
        reference = self.results["servers"].get(REFERENCE, {})
        for _ in range(self._missing(server.name, point)):
            load = point.load(self._plan(point.plan), _best_of(mine), _best_of(reference) or _best_of(mine))
            result = self._tried(server, load)
            mine.setdefault(point.name, {"runs": []})["runs"].append(result)
            save("broker", self.results)
            rate, cpu = result["received_per_s"], result["cpu_us"]
            shares = f"server {result['server_share']:4.0%}, generator {result['generator_share']:4.0%}"
            print(f"{progress:>7} {server.name:9} {point.name:28} {rate:12,.0f}/s {cpu:9.2f} µs  {shares}", flush=True)

    def _tried(self, server: Server, load: ConnectionLoad) -> dict[str, Any]:
        """A point that fails is tried again; what keeps failing ends the run."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return run(server, replace(load, plan=self._plan(load.plan)))
            except (RuntimeError, OSError) as error:
                print(f"        {server.name}: {error}", flush=True)
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError

    def _plan(self, plan: LoadPlan) -> LoadPlan:
        """With a topic nobody used before: no point sees what another one left."""
        self._topics += 1
        return replace(plan, topic=f"bench.{self._topics}")


def _best_of(results: dict[str, Any]) -> dict[str, Any]:
    return {name: best(kept) for name, kept in results.items()}


def kept_results(mode: str, fresh: bool) -> dict[str, Any]:
    """Results of an earlier run of the same code on the same machine."""
    path = RESULTS / "broker.json"
    if path.exists() and not fresh:
        kept: dict[str, Any] = json.loads(path.read_text())
        now, then = environment(), kept.pop("environment")
        # A "+" behind the commit means uncommitted changes: stored results are one.
        same = all(now[key].rstrip("+") == then[key].rstrip("+") for key in ("commit", "cpu", "system"))
        if same and kept["mode"] == mode:
            return kept
    return {"mode": mode, "fsync_us": 0.0, "versions": {}, "servers": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="r 1, 10, 40 and n 0, 1000, 5000 (the default)")
    size.add_argument("--full", action="store_true", help="the whole grid, with and without bodies")
    size.add_argument("--report", action="store_true", help="only show what was measured before")
    parser.add_argument(
        "--install", action="store_true", help="install Debian's activemq with apt-get if it is missing"
    )
    parser.add_argument("--fresh", action="store_true", help="do not go on with an earlier run")
    parser.add_argument("--runs", type=int, default=1, help="measure each point so often and take the best")
    parser.add_argument("--only", choices=SERVERS, help="measure one server")
    parser.add_argument("--match", default="", help="measure only points whose name contains this")
    arguments = parser.parse_args()
    if arguments.report:
        report(json.loads((RESULTS / "broker.json").read_text()))
        return
    if arguments.install:
        install_activemq()
    results = kept_results("full" if arguments.full else "quick", arguments.fresh)
    results["fsync_us"] = fsync_us()
    names = [arguments.only] if arguments.only else [REFERENCE, *(name for name in SERVERS if name != REFERENCE)]
    wanted = [point for point in points(arguments.full) if arguments.match in point.name]
    Run(names, arguments.runs, results).measure(wanted)
    save("broker", results)
    report(results)


if __name__ == "__main__":
    main()
