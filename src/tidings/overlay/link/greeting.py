"""Messages about the link between two brokers: greeting, welcome or refusal, goodbye, pings and credit.

Both send a `Greeting` as soon as they are connected. A broker that accepts the other's greeting answers `Welcome`,
otherwise it answers `Refuse` and closes; the link is up for a broker that has sent and received `Welcome`. Parameters
of the encoding may differ while they are being changed (routing/bdrp/scheme.py), and so may those with which brokers
only do not reach as far as others (`SHORTER`), which is reported; all others must be equal.

>>> me = Greeting("net", 1, incarnation=7, dial=1)
>>> check(me, Greeting("net", 2, incarnation=1)) is None
True
>>> check(me, Greeting("net", 1, incarnation=8)).code
'E_LINK_SELF'
"""

from dataclasses import dataclass

from tidings.overlay.effects import ControlMessage, Router

LINK_VERSION = 2
ANY = "*"  # the value of a parameter that this broker does not know and does without
SHORTER = {"hops_max": "messages that cross more links than the lower value are dropped"}  # and what that means
MAY_DIFFER = frozenset({"encoding", "encoding key", "grade", *SHORTER})


@dataclass(frozen=True, slots=True)
class Greeting(ControlMessage):
    network: str
    router: Router
    incarnation: int  # grows with each start of this broker
    dial: int = 0  # which attempt of the dialling side this is, from 1; 0 from the side that was dialled
    version: int = LINK_VERSION
    parameters: tuple[tuple[str, str], ...] = ()  # sorted by name


@dataclass(frozen=True, slots=True)
class Welcome(ControlMessage):
    pass


@dataclass(frozen=True, slots=True)
class Refuse(ControlMessage):
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Goodbye(ControlMessage):
    reason: str


@dataclass(frozen=True, slots=True)
class LinkPing(ControlMessage):
    sent_us: int  # by the sender's clock; comes back in the Pong


@dataclass(frozen=True, slots=True)
class Pong(ControlMessage):
    sent_us: int


def check(mine: Greeting, theirs: Greeting, expected: Router | None = None) -> Refuse | None:
    """Returns the reason why there can be no link with this peer, or None."""
    if theirs.version != mine.version:
        return Refuse("E_LINK_VERSION", f"link version {theirs.version}; this broker requires {mine.version}")
    if theirs.network != mine.network:
        return Refuse("E_LINK_NETWORK", f"network {theirs.network!r}; this broker is in {mine.network!r}")
    if theirs.router == mine.router:
        return Refuse("E_LINK_SELF", f"broker {mine.router} linked to itself, or two brokers have this id")
    if expected is not None and theirs.router != expected:
        return Refuse("E_LINK_IDENTITY", f"broker {theirs.router} answered where {expected} was expected")
    if (theirs.dial == 0) == (mine.dial == 0):
        return Refuse("E_LINK_PROTOCOL", "exactly one side of a link must have dialled")
    for name, here, there in _differences(mine, theirs):
        if name not in MAY_DIFFER and ANY not in (here, there):
            reason = f"{name} is {there} there and {here} here; set the same value on both brokers"
            return Refuse("E_LINK_PARAMETER", reason)
    return None


def shortcomings(mine: Greeting, theirs: Greeting) -> list[str]:
    """The differences that do not hinder the link but should be mended, with their consequences.

    >>> one, other = (Greeting("net", n, 1, parameters=(("hops_max", str(8 * n)),)) for n in (1, 2))
    >>> shortcomings(one, other)[0]  # doctest: +ELLIPSIS
    'hops_max is 16 at broker 2 and 8 here, so messages that cross more links than the lower value are dropped; ...'
    """
    return [
        f"{name} is {there} at broker {theirs.router} and {here} here, so {SHORTER[name]}; "
        "set the same value on both brokers"
        for name, here, there in _differences(mine, theirs)
        if name in SHORTER
    ]


def _differences(mine: Greeting, theirs: Greeting) -> list[tuple[str, str, str]]:
    """Parameters that differ: name, value here, value there."""
    ours, others = dict(mine.parameters), dict(theirs.parameters)
    pairs = ((name, ours.get(name, "not set"), others.get(name, "not set")) for name in sorted(ours | others))
    return [(name, here, there) for name, here, there in pairs if here != there]
