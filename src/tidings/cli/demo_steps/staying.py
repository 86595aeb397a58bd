"""`--stay`: the network goes on, with quotes on it and the console beside it, until Ctrl-C."""

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from importlib.util import find_spec

from tidings.cli.demo_steps import quotes
from tidings.cli.demo_steps.market import subscribe
from tidings.cli.demo_steps.stage import Stage
from tidings.client import connect
from tidings.client.client import Client

PAUSE_S = 0.05
CONSOLE_PORT = 8700


def stay(stage: Stage) -> None:
    stage.console.rule("Everything stays up until Ctrl-C")
    for site, member in stage.network.members.items():
        stage.tell(f"  {site}: {member.url()}, status http://{member.host}:{member.http_port}/network")
    console = start_console(stage)
    try:
        asyncio.run(_go_on(stage))
    finally:
        if console is not None:
            console.terminate()
            console.wait(20)


def start_console(stage: Stage) -> "subprocess.Popen[bytes] | None":
    """The console as its own process, if this installation has one."""
    if find_spec("tidings.console") is None:
        stage.tell("  (this installation has no console)")
        return None
    urls = [member.url() for member in stage.network.members.values()]
    command = [sys.executable, "-m", "tidings.cli", "console", *urls, "--port", str(CONSOLE_PORT)]
    log = (stage.work / "console.log").open("wb")
    with log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    stage.tell(f"  console: http://127.0.0.1:{CONSOLE_PORT}/")
    return process


async def _go_on(stage: Stage) -> None:
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        await subscribe(stage, stack)
        for site, exchange in quotes.EXCHANGES.items():
            group.create_task(_feed(await stack.enter_async_context(connect(stage.url(site))), exchange))


async def _feed(client: Client, exchange: str) -> None:
    for topic, about in quotes.feed(exchange, seed=2):
        await client.publish(topic, about)
        await asyncio.sleep(PAUSE_S)
