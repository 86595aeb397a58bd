"""The states of a link and what leads from one to the next: the whole machine as a table.

The link itself moves only along this table, and the documentation prints it.
"""

from enum import Enum


class LinkState(Enum):
    DOWN = "down"
    CONNECTING = "connecting"
    GREETING = "greeting"
    UP = "up"
    SUSPECT = "suspect"
    CLOSED = "closed"


class Trigger(Enum):
    START = "time to dial"
    ACCEPT = "the peer dialled"
    CONNECTED = "the peer picked up"
    AGREED = "welcome said and heard"
    ANSWERED = "a pong arrived"
    QUIET = "no pong for suspect_ms"
    TIMEOUT = "no progress in time"
    REFUSED = "one side refused"
    LOST = "the connection ended"
    STOP = "the operator ended it"


TRANSITIONS: dict[LinkState, dict[Trigger, LinkState]] = {
    LinkState.DOWN: {
        Trigger.START: LinkState.CONNECTING,
        Trigger.ACCEPT: LinkState.GREETING,
        Trigger.STOP: LinkState.CLOSED,
    },
    LinkState.CONNECTING: {
        Trigger.CONNECTED: LinkState.GREETING,
        Trigger.TIMEOUT: LinkState.DOWN,
        Trigger.LOST: LinkState.DOWN,
        Trigger.STOP: LinkState.CLOSED,
    },
    LinkState.GREETING: {
        Trigger.AGREED: LinkState.UP,
        Trigger.TIMEOUT: LinkState.DOWN,
        Trigger.REFUSED: LinkState.DOWN,
        Trigger.LOST: LinkState.DOWN,
        Trigger.STOP: LinkState.CLOSED,
    },
    LinkState.UP: {
        Trigger.ANSWERED: LinkState.UP,
        Trigger.QUIET: LinkState.SUSPECT,
        Trigger.REFUSED: LinkState.DOWN,
        Trigger.LOST: LinkState.DOWN,
        Trigger.STOP: LinkState.CLOSED,
    },
    LinkState.SUSPECT: {
        Trigger.ANSWERED: LinkState.UP,
        Trigger.TIMEOUT: LinkState.DOWN,
        Trigger.REFUSED: LinkState.DOWN,
        Trigger.LOST: LinkState.DOWN,
        Trigger.STOP: LinkState.CLOSED,
    },
    LinkState.CLOSED: {},
}
LIVE = (LinkState.UP, LinkState.SUSPECT)


def transitions_table() -> str:
    """The machine as a Markdown table, for docs/networks.md."""
    lines = ["| state | trigger | next |", "|---|---|---|"]
    for state, row in TRANSITIONS.items():
        lines += [f"| {state.name} | {trigger.name}: {trigger.value} | {to.name} |" for trigger, to in row.items()]
    return "\n".join(lines)


def transitions_diagram() -> str:
    """The machine as a Mermaid state diagram; triggers between the same two states share an arrow."""
    lines = ["stateDiagram-v2", "    [*] --> DOWN"]
    for state, row in TRANSITIONS.items():
        arrows: dict[LinkState, list[str]] = {}
        for trigger, to in row.items():
            arrows.setdefault(to, []).append(trigger.name)
        lines += [f"    {state.name} --> {to.name}: {', '.join(names)}" for to, names in arrows.items()]
    return "\n".join([*lines, "    CLOSED --> [*]"])
