"""`--stay`: the network goes on, with quotes on it and the console beside it, until Ctrl-C."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib.util import find_spec

from tidings.cli.demo import quotes
from tidings.cli.demo.market import subscribe
from tidings.cli.demo.stage import Stage
from tidings.client import connect
from tidings.client.client import Client

PAUSE_S = 0.05
CONSOLE_SECONDS = 60.0


def stay(stage: Stage) -> None:
    stage.console.rule("Everything stays up until Ctrl-C")
    for site, member in stage.network.members.items():
        stage.tell(f"  {site}: {member.url()}, status http://{member.host}:{member.http_port}/network")
    with console(stage):
        asyncio.run(_go_on(stage))


@contextmanager
def console(stage: Stage) -> Iterator[None]:
    """The console as its own process, if this installation has one."""
    if find_spec("tidings.console") is None:
        stage.tell("  (this installation has no console)")
        yield
        return
    urls = [member.url() for member in stage.network.members.values()]
    command = [sys.executable, "-m", "tidings.cli", "console", *urls]
    log = stage.work / "console.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
    try:
        deadline = time.monotonic() + CONSOLE_SECONDS
        while "http://" not in log.read_text() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        said = log.read_text().strip().splitlines()
        stage.tell(f"  {said[-1] if said else 'the console says nothing yet'}")
        yield
    finally:
        process.terminate()
        process.wait(CONSOLE_SECONDS)


async def _go_on(stage: Stage) -> None:
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        await subscribe(stage, stack)
        for site, exchange in quotes.EXCHANGES.items():
            group.create_task(_feed(await stack.enter_async_context(connect(stage.url(site))), exchange))


async def _feed(client: Client, exchange: str) -> None:
    for topic, about in quotes.feed(exchange, seed=2):
        await client.publish(topic, about)
        await asyncio.sleep(PAUSE_S)
