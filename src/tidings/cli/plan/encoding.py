"""`tidings plan encoding`: which encoding of interests suits a network's filters and messages."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import strict_json
from tidings.errors import TidingsError, UsageError
from tidings.experiments.bdrp.encoding_study import EncodingOutcome, Study, propose, study
from tidings.experiments.bdrp.paper_workload import PaperWorkload
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.model.selector import Selector
from tidings.model.values import Value
from tidings.text_files import parse_json, read_text


def encoding(
    filters: Annotated[Path | None, typer.Option(help="Selectors, one a line; they go to the routers in turn.")] = None,
    messages: Annotated[Path | None, typer.Option(help="Attributes of messages, one JSON object a line.")] = None,
    routers: Annotated[int, typer.Option(min=1, help="Brokers in the network.")] = 100,
    conjunctions: Annotated[int, typer.Option(min=1, help="Of a broker, without --filters.")] = 100,
    constraints: Annotated[int, typer.Option(min=1, max=10, help="At most, without --filters.")] = 5,
    goal: Annotated[float, typer.Option(min=1.0, help="Destinations against the exact number.")] = 1.05,
    sample: Annotated[int, typer.Option(min=1, help="Messages, without --messages.")] = 1000,
    seed: Annotated[int, typer.Option()] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Grade, M and k of the encoding of interests: as small as possible at the requested precision.

    Without --filters and --messages the workload is the B-DRP paper's. It shows, for each encoding, to how many brokers
    messages are sent against how many really match, and how large a broker's advertisement is.

    Example: tidings plan encoding --filters selectors.txt --messages messages.jsonl --routers 12
    """
    paper = PaperWorkload(seed, constraints_max=constraints)
    if (filters is None) != (messages is None):
        raise UsageError("E_PLAN_ENCODING", "give both --filters and --messages, or neither")
    if filters is not None and messages is not None:
        predicates, sent = read_filters(filters, routers), read_messages(messages)
    else:
        predicates = [paper.predicate(conjunctions) for _ in range(routers)]
        sent = [paper.message() for _ in range(sample)]
    found = study(predicates, sent)
    chosen = propose(found, goal)
    if as_json:
        typer.echo(strict_json({**asdict(found), "proposed": asdict(chosen)}))
        return
    Console().print(as_table(found, chosen))
    typer.echo(as_toml(chosen))


def read_filters(path: Path, routers: int) -> list[Predicate]:
    """One predicate a router: the disjunction of its share of the selectors."""
    lines = [
        (number, line) for number, line in enumerate(read_text(path, "E_PLAN_ENCODING").splitlines(), 1) if line.strip()
    ]
    shares: list[list[Predicate]] = [[] for _ in range(min(routers, len(lines)))]
    for place, (number, line) in enumerate(lines):
        try:
            selector = Selector(line)
        except TidingsError as error:
            raise UsageError("E_PLAN_ENCODING", f"{path}:{number}: {error}") from None
        shares[place % len(shares)].append(Predicate(selector.conjunctions))  # what is encoded: a necessary condition
    return [Predicate([each for one in share for each in one.conjunctions]) for share in shares]


def read_messages(path: Path) -> list[dict[str, Value]]:
    found: list[dict[str, Value]] = []
    for number, line in enumerate(read_text(path, "E_PLAN_ENCODING").splitlines(), 1):
        if not line.strip():
            continue
        one = parse_json(line, f"{path}:{number}", "E_PLAN_ENCODING")
        if not isinstance(one, dict) or not all(isinstance(value, (bool, int, float, str)) for value in one.values()):
            raise UsageError("E_PLAN_ENCODING", f"{path}:{number}: not an object of numbers, texts and booleans")
        try:
            Message(Destination("study"), one)
        except TidingsError as error:
            raise UsageError("E_PLAN_ENCODING", f"{path}:{number}: {error}") from None
        found.append(one)
    return found


def as_table(found: Study, chosen: EncodingOutcome) -> Table:
    title = f"{found.routers} brokers; a message matches {found.exact_share:.1%} of them"
    table = Table("encoding", "M", "k", "pieces", "× exact", "of all", "rows", "bytes", title=title)
    for one in found.outcomes:
        candidate = one.candidate
        vectors = (str(candidate.bits), str(candidate.hashes)) if candidate.vectors else ("", "")
        pieces = str(candidate.pieces_max) if candidate.graded else ""
        ratio = "–" if one.ratio is None else f"{one.ratio:.3f}"
        cells = (ratio, f"{one.share:.1%}", f"{one.rows:.0f}", f"{one.advertisement_bytes:,.0f}")
        table.add_row(candidate.encoding, *vectors, pieces, *cells, style="bold" if one is chosen else "")
    return table


def as_toml(chosen: EncodingOutcome) -> str:
    candidate = chosen.candidate
    lines = ["[network]", f'encoding = "{candidate.encoding}"']
    if candidate.vectors:
        lines += [f"encoding_bits = {candidate.bits}", f"encoding_hashes = {candidate.hashes}"]
    if candidate.graded:
        lines.append(f"encoding_pieces_max = {candidate.pieces_max}")
    return "\n".join(lines)
