"""`tidings plan capacity`: what a server carries, with which waiting time, and what a demand needs."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console

from tidings.capacity.arrays import check_finite
from tidings.capacity.cost_file import CalibratedModel, is_calibrated
from tidings.capacity.forecast import FILTERS_MAX, Allowed
from tidings.capacity.plan import (
    PROBABILITIES,
    SPREADS,
    TOPOLOGIES,
    NetworkAnswer,
    SizingAnswer,
    SizingQuestion,
    plan_capacity,
)
from tidings.capacity.processing import Fitted
from tidings.capacity.running_model import LoadAsked
from tidings.capacity.service import Empirical, Replication
from tidings.cli.json_text import strict_json
from tidings.cli.pictures import check_picture
from tidings.cli.plan.calibrated import CalibratedOptions, grades_of, plan_from_model
from tidings.cli.plan.running import plan_from_broker
from tidings.cli.tables import table_of
from tidings.errors import CodecError, UsageError
from tidings.extras import lazy
from tidings.text_files import parse_json, read_text

if TYPE_CHECKING:
    from matplotlib import figure as figures
else:
    figures = lazy("matplotlib.figure")

T = TypeVar("T")
CLOSED = Fitted.of("constant", t_rcv=1.0, t_tx=0.0)  # in a question whose server a calibrated model gives

# No realistic question exceeds these limits, and far beyond them powers of the numbers are no floats any more.
SUBSCRIBERS_MAX = PUBLISHERS_MAX = 10**9
BODY_MAX = 10**12
COUNT_MAX = 10**15  # limit of each count in the file
FILTERS_MAX_EACH, COMPONENTS_MAX = 1e9, 1e6
RATE_MIN, RATE_MAX = 1e-6, 1e12  # a message in eleven days is no load
WAITING_MAX_S = 1e9
LINK_MAX = 1e15


ModelOption = Annotated[
    Path | None,
    typer.Option(help="A stored model, of tidings lab calibrate or tidings lab fit, which write it with -o."),
]
SubscribersOption = Annotated[
    int | None, typer.Option(min=1, max=SUBSCRIBERS_MAX, help="How many subscribers there are.")
]
FromBrokerOption = Annotated[
    str | None,
    typer.Option(help="Instead of a model: HOST:PORT of a running broker's metrics. Its load is what is not given."),
]
MatchOption = Annotated[
    float | None,
    typer.Option(help="How probable is it that a message matches a subscriber? Without a broker 0.01."),
]
SpreadOption = Annotated[str, typer.Option(help=f"How the number of receivers varies: {', '.join(SPREADS)}.")]
GradesOption = Annotated[
    Path | None, typer.Option(help="Measured instead: a JSON list, how many messages had 0, 1, 2 … receivers.")
]
PublishersOption = Annotated[int, typer.Option(min=1, max=PUBLISHERS_MAX, help="Connections that publish.")]
BodyOption = Annotated[
    int | None,
    typer.Option(min=0, max=BODY_MAX, help="Bytes of a body, for links; with --from-broker of a message."),
]
PropertiesOption = Annotated[
    float | None, typer.Option(min=0, help="Properties of a message; of a calibrated model, as what follows.")
]
ProtocolOption = Annotated[str, typer.Option(help="Protocol of the clients: native, stomp, amqp or mqtt.")]
PersistentOption = Annotated[bool, typer.Option("--persistent", help="Messages are persistent, subscriptions durable.")]
FlightOption = Annotated[
    float | None, typer.Option(min=1, help="Messages in flight, of all publishers; default: most that were measured.")
]
NicOption = Annotated[float | None, typer.Option(help="Bytes a second of a broker's network interface, each way.")]


def capacity(
    model: ModelOption = None,
    subscribers: SubscribersOption = None,
    from_broker: FromBrokerOption = None,
    filters: Annotated[float | None, typer.Option(help="Filters each of them has; without a broker 1.")] = None,
    match: MatchOption = None,
    spread: SpreadOption = "binomial",
    grades: GradesOption = None,
    rate: Annotated[float | None, typer.Option(help="Required messages per second.")] = None,
    waiting: Annotated[float, typer.Option(help="The longest waiting time that is acceptable, ms.")] = 100.0,
    probability: Annotated[float, typer.Option(help="Share of the messages that must meet --waiting.")] = 0.9999,
    publishers: PublishersOption = 1,
    components: Annotated[float, typer.Option(help="Comparisons in one filter.")] = 1.0,
    body: BodyOption = None,
    properties: PropertiesOption = None,
    protocol: ProtocolOption = "native",
    persistent: PersistentOption = False,
    in_flight: FlightOption = None,
    nic: NicOption = None,
    brokers: Annotated[int, typer.Option(min=1, help="Number of brokers of a network to answer for too.")] = 1,
    topology: Annotated[str, typer.Option(help=f"Of the network: {', '.join(TOPOLOGIES)}.")] = "ring",
    link: Annotated[float | None, typer.Option(help="Bytes a second a link carries.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw waiting time against rate here (.svg, .png).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Throughput and waiting times of a scenario, and what a demand needs.

    Example: tidings plan capacity --model model.json --subscribers 500 --match 0.01 --rate 100000 --waiting 5
    """
    check_picture(plot)
    _check(filters, components, waiting, rate, link, nic)
    if from_broker is not None:
        if model is not None:
            raise UsageError("E_USAGE", "choose one of --model and --from-broker")
        asked = LoadAsked(subscribers, match, filters, body, rate, waiting / 1000, probability)
        plan_from_broker(from_broker, asked, as_json=as_json)
        return
    if model is None or subscribers is None:
        raise UsageError("E_USAGE", "give --model and --subscribers, or --from-broker")
    measured, each = _grades(grades, subscribers), 1.0 if filters is None else filters
    share = 0.01 if match is None else match
    calibrated = is_calibrated(_text(model))
    question = SizingQuestion(
        CLOSED if calibrated else _stored(Fitted.from_json, model), subscribers, each, share, spread, measured, rate,
        waiting / 1000, probability, publishers=publishers, components=components, body_bytes=body or 0,
        brokers=brokers, topology=topology, link_bytes_per_s=link,
    )  # fmt: skip
    if calibrated:
        options = CalibratedOptions(
            subscribers, each, share, spread, grades_of(measured), protocol, persistent, body or 0.0, properties,
            components, publishers, in_flight,
        )  # fmt: skip
        _answer_calibrated(model, options, question, nic, plot, as_json=as_json)
        return
    if (properties, protocol, persistent, in_flight, nic) != (None, "native", False, None, None):
        named = "--properties, --protocol, --persistent, --in-flight and --nic"
        raise UsageError(
            "E_USAGE", f"{named} need a model of tidings lab calibrate; {model} is one of the closed forms"
        )
    _answer_closed(question, plot, as_json=as_json)


def _check(
    filters: float | None, components: float, waiting: float, rate: float | None, link: float | None, nic: float | None
) -> None:
    if filters is not None:
        check_finite("--filters", filters, 0, FILTERS_MAX_EACH)
    check_finite("--components", components, 0, COMPONENTS_MAX)
    check_finite("--waiting", waiting, 0, 1000 * WAITING_MAX_S)
    if rate is not None:
        check_finite("--rate", rate, RATE_MIN, RATE_MAX)
    for name, value in (("--link", link), ("--nic", nic)):
        if value is not None:
            check_finite(name, value, 0, LINK_MAX, open_low=True)


def _answer_calibrated(
    model: Path,
    options: CalibratedOptions,
    question: SizingQuestion,
    nic: float | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> None:
    if plot is not None:
        raise UsageError("E_USAGE", "--plot draws a model of tidings lab fit, not one of tidings lab calibrate")
    stored = _stored(CalibratedModel.from_json, model)
    plan_from_model(stored, options, question, nic_bytes_per_s=nic, as_json=as_json)


def _answer_closed(question: SizingQuestion, plot: Path | None, *, as_json: bool) -> None:
    answer = plan_capacity(question)
    if plot is not None:
        _draw(answer).savefig(plot, dpi=130)
    if as_json:
        typer.echo(strict_json(asdict(answer)))
    else:
        _show(Console(), question, answer)


def _grades(path: Path | None, subscribers: int) -> Replication | None:
    if path is None:
        return None
    counts = parse_json(_text(path), path, "E_PLAN_GRADES")
    if not isinstance(counts, list):
        raise UsageError("E_PLAN_GRADES", f"{path} is not a JSON list of counts")
    for grade, count in enumerate(counts):
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= COUNT_MAX:
            reason = f"how many messages had {grade} receivers is a whole number from 0 to 10^15, not {count!r:.40}"
            raise UsageError("E_PLAN_GRADES", f"{path} is not a JSON list of counts: {reason}")
    largest = max((grade for grade, count in enumerate(counts) if count), default=0)
    if largest > subscribers:
        raise UsageError("E_PLAN_GRADES", f"{path} has messages with {largest} receivers, of {subscribers} subscribers")
    return Empirical(tuple(counts))


def _stored(read: Callable[[str], T], path: Path) -> T:
    """A file that does not do was chosen wrongly."""
    try:
        return read(_text(path))
    except CodecError as error:
        raise UsageError(error.code, f"{path}: {error.reason}", position=error.position) from None


def _text(path: Path) -> str:
    return read_text(path, "E_PLAN_FILE")


def _show(console: Console, question: SizingQuestion, answer: SizingAnswer) -> None:
    table = table_of("busy", "messages/s", "sent/s", "mean wait", *_waits(), title=question.server.model.formula)
    for row in answer.at:
        first = row[0]
        cells = [f"{first.utilisation:.0%}", f"{first.rate:,.0f}", f"{first.overall - first.rate:,.0f}"]
        table.add_row(*cells, _time(first.waiting_mean), *(_time(one.waiting_quantile) for one in row))
    console.print(table)
    console.print(
        f"filters pay: {'yes' if answer.filters_pay else 'no, sending everything would cost the server less'}"
    )
    servers = "one server" if question.publishers == 1 else f"{question.publishers} servers"
    console.print(
        f"{servers} at the publishers: {answer.publisher_side:,.0f}/s; at the subscribers: "
        f"{answer.subscriber_side:,.0f}/s; break-even at {answer.break_even_publishers:,.1f} publishers"
    )
    if answer.network is not None:
        network = answer.network
        console.print(
            f"network of {network.brokers} ({network.topology}): {network.capacity:,.0f}/s{_at_rate(network)}"
        )
    if answer.demand is None:
        console.print(f"one server: up to {answer.rate_allowed:,.0f}/s {_bound(question)}", highlight=False)
    if isinstance(answer.demand, Allowed):
        allowed = answer.demand
        console.print(
            f"{question.rate:,.0f}/s: yes; up to {allowed.rate_max:,.0f}/s or {_filters(allowed.filters_max)}"
        )
    elif answer.demand is not None:
        refused = answer.demand
        console.print(f"no: {refused.reason}", markup=False)
        console.print(f"servers needed: {refused.publisher_side} by messages, {refused.subscriber_side} by subscribers")
    console.print(f"recommended: {answer.recommendation}")


def _at_rate(network: NetworkAnswer) -> str:
    if network.busiest_link_bytes is None:
        return ""
    traffic = f", {network.busiest_link_bytes:,.0f} bytes/s on the busiest link"
    waiting = network.waiting_quantile
    return traffic + (
        ", more than a broker takes" if waiting is None else f", waiting {_time(waiting)} on the longest way"
    )


def _bound(question: SizingQuestion) -> str:
    return f"with {question.probability:.6g} of the messages waiting at most {_time(question.waiting_max_s)}"


def _waits() -> list[str]:
    names = [f"{p:.5g}".replace("0.", "").ljust(2, "0") for p in PROBABILITIES]
    return [f"{name[:2]}{'.' + name[2:] if name[2:] else ''} %" for name in names]


def _filters(count: int) -> str:
    return "any number of filters" if count >= FILTERS_MAX else f"{count:,} filters"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1 or unit == "µs":
            return f"{seconds * factor:,.3g} {unit}"
    raise AssertionError


def _draw(answer: SizingAnswer) -> "figures.Figure":
    figure = figures.Figure(figsize=(6.5, 4), layout="constrained")
    axes = figure.subplots()
    for number, probability in enumerate(PROBABILITIES):
        part = [row[number] for row in answer.at]
        xs, ys = [one.rate for one in part], [one.waiting_quantile * 1e3 for one in part]
        axes.plot(xs, ys, marker="o", label=f"{probability:.5g} quantile")
    axes.plot([row[0].rate for row in answer.at], [row[0].waiting_mean * 1e3 for row in answer.at], "k:", label="mean")
    axes.set(xlabel="messages a second", ylabel="waiting time, ms", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend()
    return figure
