"""The servers that can be measured, behind one small face: start, address, protocol, CPU time, memory, stop.

Each runs on one core, in a directory of its own that goes when it stops, on loopback only.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tidings.errors import UsageError
from tidings.lab import activemq
from tidings.lab.load_protocols import LoadProtocol, NativeLoad, StompLoad
from tidings.localnet.ports import free_ports

SERVER_CORE, LOAD_CORE = 0, 1
_LIBC, _PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
READS_FILE = "reads.npy"  # in the server's directory
HEAP = "1g"
START_SECONDS_MAX = 60.0


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """This process stays on one core meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _in_child() -> None:
    """On its core, and gone when we are, also if we are killed: nobody else would end it."""
    os.sched_setaffinity(0, {SERVER_CORE})
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Server(ABC):
    """A child process; subclasses say how to start it."""

    name: str
    wire: LoadProtocol

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"bench-{self.name}-"))
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def start(self) -> None:
        """Returns when it can be connected to."""

    def cpu_seconds(self) -> float:
        """CPU time of all its threads so far, those that have ended included (the CPU clock of another process)."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end(self) -> None:
        """The process ends; what it wrote stays until `stop`."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def stop(self) -> None:
        self.end()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _spawn(self, command: list[str], **options: int) -> subprocess.Popen[str]:
        log = (self.directory / "log").open("w")
        with log:
            self._process = subprocess.Popen(
                command,
                stdout=options.get("stdout", log),
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                preexec_fn=_in_child,
            )
        return self._process

    def _failure(self, reason: str) -> RuntimeError:
        log = (self.directory / "log").read_text()[-2000:]
        self.stop()
        return RuntimeError(f"{self.name} {reason}:\n{log}")


class TidingsServer(Server):
    name = "tidings"
    wire: LoadProtocol = NativeLoad()
    protocol = "native"

    @property
    def version(self) -> str:
        return installed_version("tidings")

    def __init__(
        self,
        tracking: Mapping[str, object] | None = None,
        python: str = sys.executable,
        tuning: Mapping[str, bool] | None = None,
    ) -> None:
        """`tracking`: keys of [tracking]; None: nothing is recorded. `python`: an interpreter that has Tidings, perhaps
        in another version. `tuning`: keys of [tuning]."""
        super().__init__()
        self._tracking, self._python, self._tuning = tracking, python, tuning

    def start(self) -> None:
        command = [self._python, "-m", "tidings.lab.server_process", str(self.directory), "--protocol", self.protocol]
        if self._tracking is not None:
            command += ["--tracking", json.dumps(self._tracking)]
        if self._tuning:
            command += ["--tuning", json.dumps(self._tuning)]
        process = self._spawn(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise self._failure("did not start")
        self.port = int(line)

    def counters(self) -> dict[str, int]:
        """Counters of its forwarding plane since the start."""
        counts: dict[str, int] = json.loads(self._asked(signal.SIGUSR1))
        return counts

    def reads(self) -> NDArray[np.int64]:
        """Since the last call: when each read began (perf_counter_ns), and the messages received before it.

        The first call finds nothing: from then on the times are noted.
        """
        self._asked(signal.SIGUSR2)
        found: NDArray[np.int64] = np.load(self.directory / READS_FILE)
        return found

    def _asked(self, number: signal.Signals) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.send_signal(number)
        return self._process.stdout.readline()


class TidingsStompServer(TidingsServer):
    """The same broker, spoken to as ActiveMQ is."""

    name = "tidings-stomp"
    wire: LoadProtocol = StompLoad()
    protocol = "stomp"


class ActiveMqServer(Server):
    name = "activemq"
    wire: LoadProtocol = StompLoad()

    @cached_property
    def version(self) -> str:
        done = subprocess.run(
            ["dpkg-query", "-W", "-f=${Version}", "activemq"], capture_output=True, text=True, check=False
        )
        return done.stdout or "unknown"

    def start(self) -> None:
        if not activemq.JAR.exists():
            raise UsageError("E_LAB_SERVER", "ActiveMQ is not installed; --install installs Debian's package (as root)")
        self.port = free_ports(1)[0]
        here, ports = self.directory, {"stomp": self.port, "openwire": free_ports(1)[0]}
        setup = activemq.ActiveMQSetup(
            "localhost", ports, HEAP, memory_mb=700, store=str(here / "kahadb"), own_tasks=True
        )
        self._spawn(activemq.command(here, setup))
        self._wait_for_port()

    def _wait_for_port(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.2)
        raise self._failure("did not start")


SERVERS: dict[str, Callable[[], Server]] = {
    "tidings": TidingsServer,
    "tidings-stomp": TidingsStompServer,
    "activemq": ActiveMqServer,
}


def install_activemq() -> None:
    if not activemq.JAR.exists():
        subprocess.run(["apt-get", "update", "-qq"], check=False)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "activemq"]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
