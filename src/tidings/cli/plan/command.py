"""`tidings plan`: what settings a wish needs, before anything runs."""

import re
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tidings.cli.json_text import strict_json
from tidings.cli.plan.capacity import capacity
from tidings.cli.plan.encoding import encoding
from tidings.errors import UsageError
from tidings.tracking.plan.assistant import TrackingPlan, Wishes, propose
from tidings.tracking.recording.history import Mode

USED_WRONGLY = 2
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMG]i?)?B?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="Compute settings from requirements.")
    group.command("capacity")(capacity)
    group.command("encoding")(encoding)
    group.command("tracking")(tracking)
    app.add_typer(group, name="plan")


def tracking(
    efpp: Annotated[float, typer.Option(help="How probable may a wrong 'it was here' be? 1e-5 is 99.999 %.")],
    rate: Annotated[float, typer.Option(help="Peak rate of one history, messages per second.")],
    memory: Annotated[str, typer.Option(help="Memory for one history: 10kB, 128KiB, 1MB.")],
    jitter: Annotated[int, typer.Option(help="T_j: jitter of the network and skew between brokers, ms.")] = 0,
    skew: Annotated[int, typer.Option(help="The least skew tolerance T_s that is acceptable, ms.")] = 10,
    persist: Annotated[int | None, typer.Option(help="The longest T_p that is acceptable, ms.")] = None,
    mode: Annotated[Mode, typer.Option(help="What happens at T_p to a filter that is not full.")] = Mode.RETAIN,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Parameters of message tracking: filter size, capacity, hashes, T_p, T_s.

    Example: tidings plan tracking --efpp 1e-5 --rate 5000 --memory 10kB
    """
    try:
        wishes = Wishes(efpp, rate, parse_size(memory), jitter, skew, persist, mode)
        plan = propose(wishes)
    except UsageError as error:
        typer.echo(f"tidings: {error}", err=True)
        raise typer.Exit(USED_WRONGLY) from None
    if as_json:
        typer.echo(strict_json(plan.as_row()))
    else:
        Console().print(as_table(plan))


def parse_size(text: str) -> int:
    """Bytes.

    >>> parse_size("10kB"), parse_size("128KiB"), parse_size("64"), parse_size("1.5 MB")
    (10000, 131072, 64, 1500000)
    """
    match = _SIZE.fullmatch(text.strip().replace("K", "k"))
    if match is None:
        raise UsageError("E_PLAN_MEMORY", f"{text!r} is not a size like 10kB, 128KiB or 1MB")
    return int(float(match[1]) * _UNITS[match[2] or ""])


def as_table(plan: TrackingPlan) -> Table:
    settings = plan.settings
    table = Table("", "value", "what", title="Message tracking, for each history")
    for name, value, what in (
        ("m", f"{settings.bits:,}", f"bits of a filter ({settings.bits // 8:,} bytes)"),
        ("n", f"{settings.capacity:,}", "ids a filter takes"),
        ("k", str(settings.hashes), "hashes an id"),
        ("T_p", f"{plan.persist_ms:,} ms", f"persistence interval, then {settings.mode.value}"),
        ("T_s", f"{settings.skew_ms:,} ms", "skew between publisher and broker beyond which δ is sent again"),
        ("T_f", f"{plan.fill_ms:,.0f} ms", "time to fill a filter at the peak rate"),
        ("T_j", f"{settings.jitter_ms:,} ms", "jitter allowed for"),
        ("skew", f"{plan.skew_between_brokers_ms:,} ms", "between brokers: skew_between_brokers_ms, at least"),
        ("|M|", str(plan.matching_set_max), "filters that can match one message, at most"),
        ("fpp", f"{plan.fpp:.2e}", "of a full filter"),
        ("efpp", f"{plan.efpp:.2e}", f"requested: {plan.wishes.efpp:.2e}"),
        ("disk", f"{plan.bytes_per_message:.2f} bytes", "a message and history, full filters"),
        ("stores", f"{plan.stores_per_second:.2f} /s", "writes at the peak rate"),
    ):
        table.add_row(name, value, what)
    return table
