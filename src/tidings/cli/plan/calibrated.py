"""`tidings plan capacity` with a model that `tidings lab calibrate` made: intervals, and what lies outside of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import typer

from tidings.capacity.cost_answers import BrokersNeeded, CostAnswer, CostQuestion, plan_costs
from tidings.capacity.cost_file import CalibratedModel
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.online import UTILISATION_MAX
from tidings.capacity.plan import NetworkAnswer, SizingQuestion, plan_capacity
from tidings.capacity.running_model import Interval
from tidings.capacity.service import Replication
from tidings.capacity.traffic import Interests, Traffic
from tidings.cli.json_text import strict_json

CLIENTS_RULE = 1.02  # what faster clients would bring, from which on it is worth a line
LINKS = "links between brokers (not measured: a copy on a link counts as one to a client)"


@dataclass(frozen=True, slots=True)
class CalibratedOptions:
    """None: what the calibration had least of, or, of messages in flight, most."""

    subscribers: int
    filters_each: float
    match: float
    spread: str
    grades: tuple[int, ...] | None
    protocol: str = "native"
    persistent: bool = False
    body: float = 0.0
    properties: float | None = None
    components: float = 1.0
    publishers: int = 1
    in_flight: float | None = None

    def traffic(self, costs: BrokerCosts) -> Traffic:
        domain = costs.domain
        in_flight = domain.get("in_flight", (1.0, 1.0))[1] if self.in_flight is None else self.in_flight
        properties = domain.get("properties", (0.0, 0.0))[0] if self.properties is None else self.properties
        return Traffic(
            protocol=self.protocol,
            persistent=self.persistent,
            body=self.body,
            properties=properties,
            filters=self.subscribers * self.filters_each,
            components=self.components,
            interests=self._interests,
            publishers=self.publishers,
            in_flight=max(in_flight, self.publishers) if self.in_flight is None else in_flight,
        )

    @property
    def _interests(self) -> Interests:
        if self.grades is not None:
            return Interests(self.subscribers, 0.0, grades=tuple(map(float, self.grades)))
        if self.spread == "fixed":
            return Interests(0, 0.0, always=self.subscribers * self.match)
        return Interests(self.subscribers, self.match, together=self.spread == "all-or-none")


def plan_from_model(
    model: CalibratedModel,
    options: CalibratedOptions,
    question: SizingQuestion,
    *,
    nic_bytes_per_s: float | None,
    as_json: bool,
) -> None:
    """`question`: of the network of brokers, if it has more than one; its server is replaced."""
    costs = model.costs(options.protocol)
    traffic = options.traffic(costs)
    asked = CostQuestion(traffic, question.rate, question.waiting_max_s, question.probability, nic_bytes_per_s)
    answer, network = plan_costs(costs, asked), None
    if question.brokers > 1:
        network = plan_capacity(replace(question, server=costs.closed_form(traffic))).network
        answer = replace(answer, outside=(*answer.outside, LINKS))
    if as_json:
        more = {} if network is None else {"network": asdict(network)}
        typer.echo(strict_json({"traffic": asdict(traffic)} | asdict(answer) | more))
        return
    for line in lines(asked, answer, network):
        typer.echo(line)


def lines(question: CostQuestion, answer: CostAnswer, network: NetworkAnswer | None = None) -> list[str]:
    """The answer for people, first what lies outside of what was measured."""
    traffic, found = question.traffic, []
    if answer.outside:
        found.append(f"OUTSIDE of what was measured: {'; '.join(answer.outside)}")
    found.append(f"figures are within ±{answer.error:.0%} at 95 %, intervals in brackets")
    found.append(
        f"a message takes {_range(answer.message_s, 1e6, '{:,.3g}')} µs of CPU with {traffic.in_flight:,.0f} in flight"
    )
    found.append(f"saturated: {_range(answer.saturated)} messages/s with {traffic.in_flight:,.0f} in flight")
    if answer.fast_clients[1] > answer.saturated[1] * CLIENTS_RULE:
        found.append(f"its clients saturate first; faster ones: {_range(answer.fast_clients)} messages/s")
    found.append(f"{UTILISATION_MAX:.0%} busy: {_range(answer.busiest)} messages/s from independent publishers")
    share, bound = f"{question.probability:.6g}", f"{question.waiting_max_s * 1e3:.3g} ms"
    found.append(f"{share} wait at most {bound} up to {_range(answer.rate_allowed)} messages/s")
    if answer.nic_rate is not None:
        found.append(f"the network interface carries {answer.nic_rate:,.0f} messages/s")
    if question.rate is not None:
        verdict = {True: "yes", False: "no", None: "cannot tell, it is within the interval"}[answer.enough]
        found.append(f"{question.rate:,.0f} messages/s on one broker: {verdict}")
    found += _waits(question, answer)
    if answer.needed is not None:
        found += _needed(answer.needed)
    if network is not None:
        low, high = network.capacity / (1 + answer.error), network.capacity * (1 + answer.error)
        capacity = _range((low, network.capacity, high))
        found.append(f"network of {network.brokers} ({network.topology}): {capacity} messages/s")
    return found


def _waits(question: CostQuestion, answer: CostAnswer) -> list[str]:
    if answer.busy is None or answer.waiting_mean is None or answer.waiting_quantile is None:
        return []
    mean, longest = (_range(one, 1e3, "{:,.3g}") for one in (answer.waiting_mean, answer.waiting_quantile))
    return [
        f"busy {_range(answer.busy, 100)} %",
        f"mean wait {mean} ms; {question.probability:.6g} wait at most {longest} ms",
    ]


def _needed(needed: BrokersNeeded) -> list[str]:
    one, other = _counts(needed.by_messages), _counts(needed.by_subscribers)
    cores = _range(needed.cores, 1, "{:,.2f}")
    return [
        f"brokers needed: {one} that share the messages, or {other} that share the",
        f"subscribers; busy cores: {cores}",
    ]


def _counts(numbers: Sequence[int | None]) -> str:
    low, middle, high = ("none is enough" if one is None else f"{one:,}" for one in numbers)
    return middle if low == middle == high else f"{middle} [{low} to {high}]"


def _range(one: Interval, factor: float = 1.0, form: str = "{:,.0f}") -> str:
    low, middle, high = (form.format(value * factor) for value in one)
    return f"{middle} [{low} to {high}]"


def grades_of(replication: Replication | None) -> tuple[int, ...] | None:
    """Counts of measured grades."""
    counts = getattr(replication, "counts", None)
    return None if counts is None else tuple(counts)
