"""Traces a message at a broker that was not involved in its publication."""

import asyncio

from tidings.cli.demo import quotes
from tidings.cli.demo.site_map import TITLES, Way, draw_map
from tidings.cli.demo.stage import Stage
from tidings.cli.trace import as_tree
from tidings.client import connect
from tidings.errors import TidingsError
from tidings.model.message import Message
from tidings.model.message_id import MessageId
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
    way = way_of(stage, path)
    passed = ", ".join(TITLES[site] for site in stage.network.members if site in way.sites)
    found = f"published in {TITLES[way.origin]}, passed {passed}; {len(got)} receivers; each statement is {sure}"
    stage.find("trace of one message", found)
    about = ", ".join(f"{name} = {value!r}" for name, value in message.properties.items())
    texts = [
        "Every broker keeps a compact history of the ids of messages: what was published, passed on and delivered. So "
        "any broker can be asked later where a message went. "
        f"{TITLES[site]} was asked about one of the quotes ({about}).",
        f"It reached {len(got)} receivers at {len(way.receivers)} sites. Each statement is {sure}.",
    ]
    caption = f"The way of message {message.id}, from the brokers' histories."
    picture = stage.picture("trace", lambda theme: draw_map(theme, way), caption)
    stage.section("Where did this message go?", texts, picture)


def way_of(stage: Stage, path: Path) -> Way:
    names = {member.router: name for name, member in stage.network.members.items()}
    links = tuple((names[hop.sender], names[hop.broker]) for hop in path.hops if hop.sender in names)
    receivers = {names[hop.broker]: len(hop.subscribers) for hop in path.hops if hop.subscribers}
    return Way(names[path.hops[0].broker], links, receivers)


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
