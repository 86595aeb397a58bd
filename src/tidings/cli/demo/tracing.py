"""Traces a message at a broker that was not involved in its publication."""

import asyncio

from tidings.cli.demo import quotes
from tidings.cli.demo.stage import Stage
from tidings.cli.trace import as_tree
from tidings.client import connect
from tidings.errors import TidingsError
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.tracking.draw.svg import to_svg
from tidings.tracking.query.path import Path


def trace_message(stage: Stage) -> None:
    message, receivers = choose(stage)
    assert message.id is not None
    site = next(one for one, member in stage.network.members.items() if member.router != message.id.broker)
    path = asyncio.run(_ask(stage.url(site), message.id))
    names = ", ".join(f"{member.router} {name}" for name, member in stage.network.members.items())
    stage.tell(f"{message.destination} {dict(message.properties)}, asked at {site}; brokers: {names}\n")
    stage.console.print(as_tree(path))
    got = {one.peer for hop in path.hops for one in hop.subscribers}
    if not receivers <= got:
        raise TidingsError("E_DEMO_TRACE", f"the trace lacks the receivers {', '.join(sorted(receivers - got))}")
    worst = max(
        [hop.probability for hop in path.hops] + [one.probability for hop in path.hops for one in hop.subscribers]
    )
    sure = f"wrong with probability {worst:.0e} at most" if worst else "certain: of so few messages ids are listed"
    found = f"brokers {', '.join(str(hop.broker) for hop in path.hops)}, {len(got)} receivers; each statement is {sure}"
    stage.find("trace of one message", found)
    (stage.output / "trace.svg").write_text(to_svg(path))
    texts = [f"Message {message.id}, asked at {site} ({names}). It reached {found}."]
    stage.section("Where a message went", texts, "trace.svg")


def choose(stage: Stage) -> tuple[Message, set[str]]:
    """A quote that matched desks at several sites, and their names."""
    _, matching = quotes.matches(stage.published, stage.desks)

    def reach(number: int) -> tuple[int, int]:
        sites = {stage.desks[one].site for one in matching[number]}
        return len(sites), len(matching[number])

    best = max(range(len(stage.published)), key=reach)
    return stage.published[best], {stage.desks[one].name for one in matching[best]}


async def _ask(url: str, message: MessageId) -> Path:
    async with connect(url) as client:
        return await client.trace(message)
