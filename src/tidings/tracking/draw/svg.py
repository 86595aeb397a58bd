"""A reconstructed path as an SVG picture: the tree of hops from left to right, subscribers as boxes beside them.

>>> from tidings.model.message_id import MessageId
>>> path = Path(MessageId(7, 1, 1000), True, (Hop(1, None, 8e-6), Hop(2, 1, 8e-6)), (), {}, (), asked=2, filters=2)
>>> to_svg(path).count("<circle"), to_svg(path).count("<path")
(2, 1)
"""

from dataclasses import dataclass
from xml.sax.saxutils import escape

from tidings.tracking.draw.text import printable
from tidings.tracking.query.path import Hop, Path

COLUMN, ROW, RADIUS, BOX = 190, 44, 16, 120
_STYLE = "font-family: sans-serif; font-size: 12px"


@dataclass(frozen=True, slots=True)
class _Spot:
    x: int
    y: int


def to_svg(path: Path) -> str:
    places, leaves, rows = _layout(path)
    width = max((place.x for place in [*places.values(), *leaves.values()]), default=0) + BOX + 2 * COLUMN // 3
    notes = [f"not asked: broker {broker} ({reason})" for broker, reason in path.unasked.items()]
    notes += [f"false positive: broker {hop.broker}" for hop in path.false_positives]
    notes += [f"unknown: broker {broker}" for broker in path.unknown]
    height = (rows + (2 if notes else 1)) * ROW
    title = f"message {path.message} of publisher {path.message.publisher} at broker {path.message.broker}"
    width = max(width, 7 * len(title) + 24)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" style="{_STYLE}">',
        f'<text x="12" y="20">{escape(title)}</text>',
    ]
    for hop in path.hops:
        here = places[hop.broker]
        if hop.sender is not None:
            parts.append(_line(places[hop.sender], here, dashed=hop.opaque))
        for number, one in enumerate(hop.subscribers):
            there = leaves[hop.broker, number]
            parts += [_line(here, there, dashed=False), *_box(there, one.peer, one.probability)]
        parts += _circle(here, hop)
    if notes:
        parts.append(f'<text x="12" y="{height - 12}" fill="#a33">{escape("; ".join(notes))}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _layout(path: Path) -> tuple[dict[int, _Spot], dict[tuple[int, int], _Spot], int]:
    """Places brokers and their subscribers; the last value is the number of rows."""
    children: dict[int | None, list[Hop]] = {}
    for hop in path.hops:
        children.setdefault(hop.sender, []).append(hop)
    places: dict[int, _Spot] = {}
    leaves: dict[tuple[int, int], _Spot] = {}
    row = 0
    stack = [(hop, 0) for hop in reversed(children.get(None, []))]
    while stack:  # each broker in a row of its own, below its sender
        hop, depth = stack.pop()
        row += 1
        places[hop.broker] = _Spot(40 + depth * COLUMN, 20 + row * ROW)
        for number in range(len(hop.subscribers)):
            row += number > 0
            leaves[hop.broker, number] = _Spot(40 + depth * COLUMN + COLUMN // 2, 20 + row * ROW)
        stack += [(child, depth + 1) for child in reversed(children.get(hop.broker, []))]
    return places, leaves, row


def _line(start: _Spot, end: _Spot, *, dashed: bool) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<path d="M{start.x} {start.y} V{end.y} H{end.x}" fill="none" stroke="#555"{dash}/>'


def _circle(place: _Spot, hop: Hop) -> list[str]:
    colour = "#eee" if hop.opaque else "#fd9" if hop.suspect else "#9d9" if hop.sender is None else "#bdf"
    note = "could not say" if hop.opaque else f"{hop.probability:.2g}"
    return [
        f'<circle cx="{place.x}" cy="{place.y}" r="{RADIUS}" fill="{colour}" stroke="#333">'
        f"<title>broker {hop.broker}: {note}</title></circle>",
        f'<text x="{place.x}" y="{place.y + 4}" text-anchor="middle">{hop.broker}</text>',
    ]


def _box(place: _Spot, name: str, probability: float) -> list[str]:
    shown = printable(name if len(name) <= 18 else name[:17] + "…")
    return [
        f'<rect x="{place.x}" y="{place.y - 12}" width="{BOX}" height="24" fill="#fff" stroke="#333"/>',
        f'<text x="{place.x + 6}" y="{place.y + 4}">{escape(shown)}<title>{probability:.2g}</title></text>',
    ]
