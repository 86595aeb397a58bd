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
