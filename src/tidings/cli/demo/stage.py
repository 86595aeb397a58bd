"""State shared by the steps of the demo: the console, the folders, the network and the findings.

A step is a function of the stage. It adds findings, which become the summary; highlights and sections, which become
the page.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from tidings.cli.demo.theme import Drawing, save
from tidings.localnet.network import LocalNetwork
from tidings.model.message import Message


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of the demo."""

    conjunctions: tuple[int, ...] = (1_000, 10_000, 100_000)
    desks: int = 8  # subscribers at each site
    seconds: float = 12.0  # of quotes
    quotes_per_s: float = 1500.0
    trades: int = 600  # persistent ones, around the failure
    matching: tuple[int, ...] = (1, 5, 20)  # the grid that the model is fitted to
    others: tuple[int, ...] = (0, 100, 1000)
    measure_s: float = 1.0
    spark: bool = True


QUICK = Scale((1_000, 10_000), 3, 1.0, 500.0, 90, (1, 20), (0, 500), 0.3, spark=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the summary."""

    about: str
    found: str


@dataclass(frozen=True, slots=True)
class Highlight:
    """A large figure at the head of the page."""

    figure: str
    about: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing in the output folder, in both themes; the caption says what it shows."""

    name: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: text in paragraphs, then pictures."""

    title: str
    paragraphs: tuple[str, ...]
    pictures: tuple[Picture, ...] = ()
    more: tuple[str, str] | None = None  # a page to go on reading: its place, and what it is


@dataclass(slots=True)
class Desk:
    """A subscriber somewhere, and how many messages came."""

    site: str
    name: str
    selector: str
    received: int = 0


@dataclass(slots=True)
class Stage:
    console: Console
    output: Path
    work: Path  # goes when the demo ends
    scale: Scale = field(default_factory=Scale)
    desks: list[Desk] = field(default_factory=list)
    published: list[Message] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    highlights: list[Highlight] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    running: LocalNetwork | None = None

    @property
    def network(self) -> LocalNetwork:
        assert self.running is not None, "the first step starts it"
        return self.running

    def url(self, site: str) -> str:
        return self.network.members[site].url()

    def find(self, about: str, found: str) -> None:
        self.findings.append(Finding(about, found))

    def tell(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def highlight(self, figure: str, about: str) -> None:
        self.highlights.append(Highlight(figure, about))

    def section(
        self, title: str, paragraphs: Sequence[str], *pictures: Picture, more: tuple[str, str] | None = None
    ) -> None:
        self.sections.append(Section(title, tuple(paragraphs), pictures, more))

    def picture(self, name: str, drawing: Drawing, caption: str) -> Picture:
        """Keep a drawing, in all themes."""
        save(drawing, self.output, name)
        return Picture(name, caption)


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    work: Callable[[Stage], None]
