"""The servers of an experiment while it lasts: started once, warmed once, left alone until they are quiet again.

A server carries many measurements, each on topics nobody used before. It is started afresh where something could leak
from one into the next: for every round (so that what differs from process to process is part of the deviation over
runs), after a run that failed, when it does not get quiet, and when it has gone.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tidings.errors import UsageError
from tidings.lab.experiment import Measure
from tidings.lab.saturation import measure_run
from tidings.lab.servers import SERVERS, Server
from tidings.lab.workloads import SETUPS, Parameters

# Kinds, parameters and seconds. A virtual machine that compiles what is hot needs to find out what that is, and to find
# out again when filters come in; our broker only has to have run once.
WARM: dict[str, tuple[tuple[str, Parameters, float], ...]] = {
    "activemq": (
        ("filters", {}, 5.0),
        ("filters", {"matching": 10, "others": 100, "publishers": 10}, 3.0),
        ("presence", {"users": 50, "form": "or", "publishers": 20}, 2.0),
        ("and", {"components": 10, "publishers": 10}, 2.0),
    )
}
WARM_OTHERS: tuple[tuple[str, Parameters, float], ...] = (("filters", {}, 0.3),)
WARMING = Measure(warm_s=0.1, steady=0.0, cool_s=0.0)
STARTS_MAX = 3
QUIET_SHARE, QUIET_LOOK_S, QUIET_S_MAX = 0.1, 0.04, 30.0  # of its core, in so long; what is waited for it


class ServerPool:
    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}
        self._topics = 0
        self._failed_starts, self._why = 0, ""

    def server(self, name: str) -> Server:
        """One that runs, and is warm; started if there is none."""
        if name in self._servers and not self._servers[name].running:
            self.drop(name)
        while name not in self._servers:
            if self._failed_starts >= STARTS_MAX:
                raise UsageError("E_LAB_SERVER", f"{name} did not start {STARTS_MAX} times in a row: {self._why}")
            self._failed_starts += 1
            try:
                self._start(name)
            except (OSError, RuntimeError) as error:
                self._why = str(error)
                self.drop(name)
        self._failed_starts = 0
        return self._servers[name]

    def _start(self, name: str) -> None:
        server = self._servers[name] = SERVERS[name]()
        server.start()
        for kind, parameters, seconds in WARM.get(name, WARM_OTHERS):
            measure_run(server, SETUPS[kind](parameters, self.topic()), WARMING.lasting(seconds))
            self.settle(name)

    def topic(self) -> str:
        """One that nobody used before: no run sees what another one left."""
        self._topics += 1
        return f"lab.{self._topics:06d}"

    def settle(self, name: str) -> None:
        """Connections that were closed have to be cleared away before the next run, or a server measured beside it."""
        server = self._servers.get(name)
        deadline = time.monotonic() + QUIET_S_MAX
        while server is not None and server.running:
            before, begin = server.cpu_seconds(), time.monotonic()
            time.sleep(QUIET_LOOK_S)
            if server.cpu_seconds() - before < QUIET_SHARE * (time.monotonic() - begin):
                return
            if time.monotonic() > deadline:
                break
        self.drop(name)

    def drop(self, name: str) -> None:
        """The next one starts afresh."""
        server = self._servers.pop(name, None)
        if server is not None:
            server.stop()

    def drop_all(self) -> None:
        for name in list(self._servers):
            self.drop(name)


@contextmanager
def running() -> Iterator[ServerPool]:
    servers = ServerPool()
    try:
        yield servers
    finally:
        servers.drop_all()
