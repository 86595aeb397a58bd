"""The drawings of the documentation, as SVG: `python docs/pictures/draw.py` writes them beside this file.

A drawing is a list of boxes and arrows; they are readable on light and on dark pages.
"""

from pathlib import Path
from xml.sax.saxutils import escape

HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" font-family="sans-serif" '
    'font-size="13"><defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b7083"/></marker></defs>'
    '<rect width="100%" height="100%" rx="8" fill="#fbfcfd"/>'
)
COLOURS = {"plain": "#eaf1f7", "hot": "#fde9d4", "store": "#e6f4ea", "client": "#f3ecfb"}


def box(x: int, y: int, w: int, h: int, text: str, kind: str = "plain") -> str:
    lines = text.split("\n")
    parts = [f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{COLOURS[kind]}" stroke="#5b7083"/>']
    top = y + h / 2 - 8 * (len(lines) - 1) + 4
    for number, line in enumerate(lines):
        weight = ' font-weight="bold"' if number == 0 and len(lines) > 1 else ""
        parts.append(
            f'<text x="{x + w / 2}" y="{top + 16 * number}" text-anchor="middle" fill="#1b2733"{weight}>'
            f"{escape(line)}</text>"
        )
    return "".join(parts)


def arrow(x1: int, y1: int, x2: int, y2: int, text: str = "", *, dashed: bool = False, up: int = 6) -> str:
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#5b7083" stroke-width="1.6"{dash} marker-end="url(#a)"/>'
    label = f'<text x="{(x1 + x2) / 2}" y="{(y1 + y2) / 2 - up}" text-anchor="middle" font-size="11" fill="#3b4a58" stroke="#fbfcfd" stroke-width="4" paint-order="stroke">{escape(text)}</text>'
    return line + (label if text else "")


def drawing(width: int, height: int, *parts: str) -> str:
    return "\n".join([HEAD.format(w=width, h=height), *parts, "</svg>"]) + "\n"


PICTURES = {
    "planes": drawing(
        760, 250,
        box(20, 150, 110, 60, "clients", "client"),
        box(250, 20, 250, 60, "control plane\nPython, pure state machines"),
        box(250, 150, 250, 60, "forwarding plane\nC++ kernel, batches", "hot"),
        box(610, 20, 130, 60, "store\nSQLite", "store"),
        box(610, 150, 130, 60, "links, clients", "client"),
        arrow(130, 180, 250, 180, "bytes"),
        arrow(500, 180, 610, 180, "bytes"),
        arrow(330, 80, 330, 150, "tables", up=-4),
        arrow(420, 150, 420, 80, "exceptions", up=-4),
        arrow(500, 50, 610, 50, "persistent"),
    ),
    "routing": drawing(
        760, 270,
        box(20, 110, 110, 50, "publisher", "client"),
        box(190, 100, 150, 70, "broker 1\nmatches once:\nD = {3, 4}", "hot"),
        box(410, 100, 110, 70, "broker 2\ndivides D"),
        box(600, 20, 140, 60, "broker 3\ndelivers", "hot"),
        box(600, 190, 140, 60, "broker 4\ndelivers", "hot"),
        box(410, 200, 110, 50, "broker 5\nwants nothing"),
        arrow(130, 135, 190, 135),
        arrow(340, 135, 410, 135, "⟨3, 4⟩"),
        arrow(520, 120, 600, 60, "⟨3⟩"),
        arrow(520, 150, 600, 210, "⟨4⟩"),
        arrow(465, 200, 465, 172, dashed=True),
    ),
    "tracking": drawing(
        760, 230,
        box(20, 30, 150, 60, "broker 1\nH_P: published"),
        box(300, 30, 150, 60, "broker 2\nH_1: came from 1"),
        box(580, 30, 150, 60, "audit\nH_1,audit: delivered", "client"),
        arrow(170, 60, 300, 60, "message m"),
        arrow(450, 60, 580, 60, "m"),
        box(20, 140, 150, 60, "Bloom filters\nby time", "store"),
        box(300, 140, 150, 60, "Bloom filters\nby time", "store"),
        arrow(95, 90, 95, 140, "id", up=-4),
        arrow(375, 90, 375, 140, "id", up=-4),
        box(580, 140, 150, 60, "trace m\nasks 1, then 2, …", "hot"),
        arrow(580, 170, 450, 170, "was m here?"),
    ),
    "delivery": drawing(
        760, 230,
        box(20, 85, 120, 60, "message"),
        box(220, 85, 130, 60, "matcher\nselectors", "hot"),
        arrow(140, 115, 220, 115),
        box(450, 20, 280, 70, "direct\nplain subscriber: straight to its output", "client"),
        box(450, 140, 280, 70, "mailbox\nqueue, durable, shared, acknowledged", "store"),
        arrow(350, 105, 450, 60),
        arrow(350, 125, 450, 170),
    ),
    "standby": drawing(
        760, 270,
        box(20, 105, 110, 60, "clients\nlist of both", "client"),
        box(230, 20, 220, 80, "host a: broker 1\nactive: listens, links,\nwrites with epoch 7", "hot"),
        box(230, 170, 220, 80, "host b: broker 1\nstandby: health and metrics,\nwaits for the lease"),
        box(570, 95, 170, 80, "store of broker 1\nlease: a, epoch 7", "store"),
        arrow(130, 120, 230, 70, "7300"),
        arrow(130, 150, 230, 200, "later", dashed=True, up=-14),
        arrow(450, 60, 570, 115, "commits"),
        arrow(450, 210, 570, 155, "is it free?", dashed=True, up=-14),
    ),
    "sites": drawing(
        760, 240,
        box(60, 20, 160, 60, "London\nbroker 1", "hot"),
        box(300, 160, 160, 60, "Frankfurt\nbroker 2", "hot"),
        box(540, 20, 160, 60, "New York\nbroker 3", "hot"),
        arrow(220, 50, 540, 50, "35 ms: what New York wants"),
        arrow(180, 80, 310, 160, "6 ms"),
        arrow(450, 160, 590, 80, "42 ms"),
        box(60, 170, 140, 40, "clients, London", "client"),
        arrow(130, 170, 130, 80),
        box(560, 170, 140, 40, "clients, New York", "client"),
        arrow(630, 170, 630, 80),
    ),
}  # fmt: skip


if __name__ == "__main__":
    for name, picture in PICTURES.items():
        Path(__file__).with_name(f"{name}.svg").write_text(picture)
