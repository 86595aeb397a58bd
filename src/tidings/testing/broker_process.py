"""A real broker process for tests: its own directory, ports chosen by the system, its log as records."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

START_SECONDS = 120.0  # only there to fail at all: machines may be busy
_CONFIG = """
[[listeners]]
port = 0
{listener}
[metrics]
port = 0
[logging]
json = true
level = "{level}"
{more}
"""


class BrokerProcess:
    """Use it with `with`; it is ended if the test has not ended it."""

    def __init__(self, directory: Path, more: str = "", *, listener: str = "", level: str = "debug") -> None:
        self.directory, self._level = directory, level
        self.config = directory / "broker.toml"
        self.configure(more, listener=listener)
        self._log = directory / "broker.log"

    def configure(self, more: str, *, listener: str = "") -> None:
        self.config.write_text(_CONFIG.format(listener=listener, level=self._level, more=more))

    def __enter__(self) -> "BrokerProcess":
        starts = len(self.events("ready"))  # of earlier processes in this directory
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "tidings.cli", "broker", "--config", str(self.config)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.wait_for("ready", starts + 1)
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"tidings://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self.events("listening")[-1]["port"])

    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log records with this event name so far."""
        lines = [line for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [record for record in map(json.loads, lines) if record["event"] == name]

    def wait_for(self, name: str, count: int = 1) -> dict[str, Any]:
        """The last event of this name, once there are `count`."""
        deadline = time.monotonic() + START_SECONDS
        while len(found := self.events(name)) < count:
            assert self.process.poll() is None, f"the broker has ended:\n{self.text()}"
            assert time.monotonic() < deadline, f"no {name!r} in the log:\n{self.text()}"
            time.sleep(0.01)
        return found[-1]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        """A clean shutdown; returns the exit status."""
        self.signal(signal.SIGTERM)
        return self.process.wait(START_SECONDS)

    def get(self, path: str) -> str:
        """A page of the metrics endpoint."""
        port = self.events("metrics")[-1]["port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return str(answer.read().decode())
