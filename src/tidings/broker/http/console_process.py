"""Runs the console of a broker (`[console]`) as a process of its own, so that no page delays the broker's loop.

The console talks to the broker as any client does, and ends with it: its input is a pipe that closes when the broker
ends, for whatever reason. If it fails it is started again, after a pause that grows. The same pipe carries notice of a
new certificate. Its log goes through the broker, so that all lines of a log have one form.

If metrics have the same address the broker listens there, and the console inherits the sockets: while it is not up the
broker answers, and requests for health or metrics always find an open port.
"""

import asyncio
import json
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

from tidings.broker.http.server import HttpEndpoint
from tidings.broker.logs import note
from tidings.broker.tasks import Steps

log = logging.getLogger("tidings.console")

USED_WRONGLY = 2  # exit status: trying again would not help
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1.0, 60.0
STOP_SECONDS = 5.0
LINE_BYTES_MAX = 1 << 20


def command(
    url: str, host: str, port: int, names: Sequence[str] = (), *, metrics: str = "", anonymous: bool = False
) -> list[str]:
    """`metrics`: host:port of pages that the console shows under its own address too."""
    line = [sys.executable, "-m", "tidings.cli", "console", url, "--host", host, "--port", str(port), "--with-parent"]
    line += [word for name in names for word in ("--name", name)]
    line += ["--metrics", metrics] if metrics else []
    return [*line, "--allow-anonymous"] if anonymous else line


def certificate_options(pair: tuple[str, str] | None) -> list[str]:
    """
    >>> certificate_options(("server.pem", ""))
    ['--certificate', 'server.pem']
    """
    if pair is None:
        return []
    certificate, key = pair
    return ["--certificate", certificate, *(("--key", key) if key else ())]


def _environment() -> dict[str, str]:
    """The environment without options of the console: a user set there would apply to all its visitors."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}


class ConsoleChild:
    """`pair`: certificate and key; None: without TLS. `front`: the endpoint that answers until the console is up."""

    def __init__(
        self, line: Sequence[str], pair: tuple[str, str] | None = None, front: HttpEndpoint | None = None
    ) -> None:
        self._line = line
        self._pair = pair
        self._front = front
        self._log_reader: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._pause = PAUSE_SECONDS

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def renew(self, pair: tuple[str, str]) -> None:
        """Another certificate, or the same files with something else in them; without TLS it stays without."""
        if self._pair is None:
            return
        self._pair = pair
        process = self._process
        if process is not None and process.returncode is None and process.stdin is not None:
            process.stdin.write(json.dumps(pair).encode() + b"\n")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._log_reader is not None:
            await asyncio.wait((self._log_reader,), timeout=STOP_SECONDS)
            self._log_reader.cancel()

    async def _run(self) -> None:
        steps = Steps()
        while True:
            status: int | None = None
            with steps.going_on("console"):  # as when the system has no process to spare
                status = await self._serve()
            if self._front is not None:
                with steps.going_on("endpoint in place of the console"):
                    await self._front.resume()
            note(log, logging.ERROR, "console process ended", status=status)
            if status == USED_WRONGLY:
                return
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)

    async def _serve(self) -> int:
        self._process = process = await self._start()
        assert process.stdout is not None
        assert process.stderr is not None
        self._log_reader = asyncio.get_running_loop().create_task(_log_lines(process.stderr))
        try:
            while line := await process.stdout.readline():
                if self._front is not None:
                    self._front.pause()
                note(log, logging.INFO, "console", url=line.decode(errors="replace").split()[-1])
                self._pause = PAUSE_SECONDS
        except Exception:
            process.kill()  # there is to be one
            raise
        return await process.wait()

    async def _start(self) -> Process:
        sockets = () if self._front is None else self._front.filenos()
        line = [*self._line, *certificate_options(self._pair)]
        line += [word for number in sockets for word in ("--listening", str(number))]
        return await asyncio.create_subprocess_exec(
            *line, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LINE_BYTES_MAX, pass_fds=sockets, env=_environment()
        )


async def _log_lines(stream: asyncio.StreamReader) -> None:
    """Log the lines that the console writes to its error output."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than anything it logs
            continue
        if not line:
            return
        if line.strip():
            level, fields = _parsed(line)
            note(log, level, "console log", **fields)


def _parsed(line: bytes) -> tuple[int, dict[str, object]]:
    """Level and fields of a record, or of a line that is none.

    >>> _parsed(b'{"time": "now", "level": "error", "event": "oops"}'), _parsed(b"oops\\n")
    ((40, {'text': 'oops'}), (30, {'text': 'oops'}))
    """
    try:
        record = json.loads(line)
        level = logging.getLevelNamesMapping()[record["level"].upper()]
        more = {name: record[name] for name in ("exception",) if name in record}
        return level, {"text": record["event"], **more}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return logging.WARNING, {"text": line.decode(errors="replace").strip()}
