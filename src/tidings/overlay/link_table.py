"""The states of a link and what leads from one to the next: the whole machine as a table.

The link itself moves only along this table, and the documentation prints it.
"""

from enum import Enum


class State(Enum):
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


TRANSITIONS: dict[State, dict[Trigger, State]] = {
    State.DOWN: {
        Trigger.START: State.CONNECTING,
        Trigger.ACCEPT: State.GREETING,
        Trigger.STOP: State.CLOSED,
    },
    State.CONNECTING: {
        Trigger.CONNECTED: State.GREETING,
        Trigger.TIMEOUT: State.DOWN,
        Trigger.LOST: State.DOWN,
        Trigger.STOP: State.CLOSED,
    },
    State.GREETING: {
        Trigger.AGREED: State.UP,
        Trigger.TIMEOUT: State.DOWN,
        Trigger.REFUSED: State.DOWN,
        Trigger.LOST: State.DOWN,
        Trigger.STOP: State.CLOSED,
    },
    State.UP: {
        Trigger.ANSWERED: State.UP,
        Trigger.QUIET: State.SUSPECT,
        Trigger.REFUSED: State.DOWN,
        Trigger.LOST: State.DOWN,
        Trigger.STOP: State.CLOSED,
    },
    State.SUSPECT: {
        Trigger.ANSWERED: State.UP,
        Trigger.TIMEOUT: State.DOWN,
        Trigger.REFUSED: State.DOWN,
        Trigger.LOST: State.DOWN,
        Trigger.STOP: State.CLOSED,
    },
    State.CLOSED: {},
}
LIVE = (State.UP, State.SUSPECT)


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
        arrows: dict[State, list[str]] = {}
        for trigger, to in row.items():
            arrows.setdefault(to, []).append(trigger.name)
        lines += [f"    {state.name} --> {to.name}: {', '.join(names)}" for to, names in arrows.items()]
    return "\n".join([*lines, "    CLOSED --> [*]"])
