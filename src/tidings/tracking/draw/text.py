"""Pictures of a reconstructed path: a tree for terminals, DOT for graphviz.

>>> from tidings.model.message_id import MessageId
>>> from tidings.tracking.trace_answer import Statement
>>> hops = (Hop(1, None, 8e-6), Hop(2, 1, 8e-6, (Statement("audit", 3e-6),)), Hop(3, 1, 8e-6, suspect=True))
>>> path = Path(MessageId(7, 1, 1000), True, hops, (), {4: "no route"}, (), asked=4, filters=5)
>>> print(to_text(path))
message 00000007000000010000000003e80000 of publisher 7 at broker 1, 1970-01-01 00:00:01.000 UTC
broker 1 (origin, 8e-06)
├── broker 2 (8e-06)
│   └── ▸ audit (3e-06)
└── broker 3 (8e-06, suspect: neither delivered nor passed on)
not asked: broker 4 (no route)
"""

from tidings.tracking.moments import Span, utc
from tidings.tracking.query.path import BrokerReason, Hop, Path
from tidings.tracking.trace_answer import Statement

REASONS = {
    "delivered": "it was delivered",
    "dropped": "it was dropped",
    "expired": "it expired",
    "buried": "it is a dead letter",
    "not-attached": "the subscriber was not attached then",
    "not-here": "it was not delivered here",
    "waits": "it waits",
    "dead-letter": "it is in a dead-letter queue",
    "destination": "the subscription is for another destination",
    "selector": "the selector is not true",
    "matches": "the subscription wants it",
    "attributes-unknown": "its attributes are not known here",
}


def to_text(path: Path, *, times: bool = False) -> str:
    """Draws a path as a tree; the numbers in brackets are the false-positive probabilities of the statements, and with
    `times` when each happened, after the message's own time."""
    children: dict[int, list[Hop]] = {}
    for hop in path.hops:
        if hop.sender is not None:
            children.setdefault(hop.sender, []).append(hop)
    roots = [hop for hop in path.hops if hop.sender is None]
    trees = [line for root in roots for line in _tree(root, children, path, times)]
    return "\n".join([*heading(path), *trees, *notes(path)])


def heading(path: Path) -> list[str]:
    message = path.message
    lines = [f"message {message} of publisher {message.publisher} at broker {message.broker}, {utc(message.ms)}"]
    if path.publisher:
        lines.append(f"published by {printable(path.publisher)}")
    if not path.confirmed:
        lines.append(f"broker {message.broker} does not confirm that it was published there")
    elif path.entered and message.broker not in path.entered:
        brokers = " and ".join(map(str, path.entered))
        lines.append(f"its publisher had left broker {message.broker}: it was published at broker {brokers}")
    return lines


def notes(path: Path) -> list[str]:
    """Lists false positives, brokers that were not asked and brokers with missing records."""
    lines = [f"false positive: broker {hop.broker} (no neighbour has it)" for hop in path.false_positives]
    lines += [f"not asked: broker {broker} ({printable(reason)})" for broker, reason in path.unasked.items()]
    lines += [f"broker {one.broker}: {why_text(one)}" for one in path.reasons]
    lines += [f"unknown: broker {broker} (records of that time are lost, at least in part)" for broker in path.unknown]
    return lines


def why_text(one: BrokerReason) -> str:
    """Of the subscriber that was asked about."""
    text = REASONS.get(one.reason.code, one.reason.code)
    return printable(f"{text}: {one.reason.detail}" if one.reason.detail else text)


def hop_line(hop: Hop, path: Path, *, times: bool = False) -> str:
    return f"broker {hop.broker} ({', '.join(_notes(hop, path))}{_when(hop.between, path, times)})"


def subscriber_line(one: Statement, path: Path, *, times: bool = False) -> str:
    return f"▸ {printable(one.peer)} ({one.probability:.2g}{_when(one.between, path, times)})"


def _when(between: Span | None, path: Path, times: bool) -> str:
    """
    >>> from tidings.model.message_id import MessageId
    >>> path = Path(MessageId(7, 1, 1000), True, (), (), {}, (), asked=1, filters=1)
    >>> _when((990, 2000), path, True)
    ', −10 to +1000 ms'
    """
    if not times or between is None:
        return ""
    first, last = (f"{one - path.message.ms:+d}".replace("-", "−") for one in between)
    return f", {first} to {last} ms"


def _tree(root: Hop, children: dict[int, list[Hop]], path: Path, times: bool) -> list[str]:
    lines: list[str] = []
    stack: list[tuple[Hop, str, str]] = [(root, "", "")]
    while stack:  # not recursive: a line of a thousand brokers is a tree a thousand deep
        hop, first, rest = stack.pop()
        lines.append(first + hop_line(hop, path, times=times))
        below = children.get(hop.broker, [])
        for number, one in enumerate(hop.subscribers):
            last = number == len(hop.subscribers) - 1 and not below
            lines.append(f"{rest}{'└' if last else '├'}── {subscriber_line(one, path, times=times)}")
        for position, child in enumerate(reversed(below)):
            last = position == 0
            stack.append((child, rest + ("└── " if last else "├── "), rest + ("    " if last else "│   ")))
    return lines


def _notes(hop: Hop, path: Path) -> list[str]:
    origin = path.message.broker
    notes = ["origin"] if hop.broker == origin else ["published here"] if hop.broker in path.entered else []
    notes.append("could not say" if hop.opaque else f"{hop.probability:.2g}")
    if hop.sender is None and hop.broker != origin and hop.broker not in path.entered:
        notes.append("no way there is known")
    if hop.suspect:
        notes.append("suspect: neither delivered nor passed on")
    if hop.other_senders:
        notes.append("or from " + ", ".join(map(str, hop.other_senders)))
    return notes


def to_dot(path: Path) -> str:
    lines = ["digraph path {", "  node [shape=circle];"]
    for hop in path.hops:
        style = ", style=dashed" if hop.opaque or hop.suspect else ""
        lines.append(f'  b{hop.broker} [label="{hop.broker}"{style}];')
        if hop.sender is not None:
            lines.append(f"  b{hop.sender} -> b{hop.broker};")
        for number, one in enumerate(hop.subscribers):
            name = f"s{hop.broker}_{number}"
            lines += [f"  {name} [label={_quoted(one.peer)}, shape=box];", f"  b{hop.broker} -> {name};"]
    return "\n".join([*lines, "}"]) + "\n"


def printable(text: str) -> str:
    """Replaces characters that are not printable: names come from clients and may contain control sequences."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
