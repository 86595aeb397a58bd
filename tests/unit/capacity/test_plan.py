"""The planner's whole answer, against the parts it is made of, and its command."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from tidings.capacity.forecast import Allowed, CapacityRefused, forecast
from tidings.capacity.plan import HEADER_BYTES, SizingQuestion, links_of, plan_capacity
from tidings.capacity.processing import Fitted
from tidings.capacity.replication import broker_match_probability
from tidings.capacity.service import Empirical, Moments
from tidings.capacity.thesis import ACTIVEMQ_SIMPLE, FIORANO_PROPERTY
from tidings.cli import make_app
from tidings.cli.json_text import strict_json
from tidings.errors import UsageError

QUESTION = SizingQuestion(FIORANO_PROPERTY, subscribers=50, filters_each=2, match_probability=0.02)
FAST = Fitted.of("log", t_rcv=2e-7, t_fltr=1e-8, t_tx=4e-8)
SUBSCRIBERS = "replicate at the subscribers"


def test_the_table_is_the_planners_forecast() -> None:
    answer = plan_capacity(QUESTION)
    rows = {round(row[0].utilisation, 6): row for row in answer.at}
    assert set(rows) == {0.3, 0.5, 0.7, 0.8, 0.9, 0.95}
    assert rows[0.9][1] == forecast(QUESTION.scenario, 0.9, 0.9999)
    assert answer.demand is None
    assert answer.recommendation == "one server"


def test_a_demand_one_server_meets() -> None:
    answer = plan_capacity(replace(QUESTION, rate=400.0))
    assert isinstance(answer.demand, Allowed)
    assert answer.recommendation == "one server"


def test_a_demand_it_does_not_meet_says_how_many_are_needed() -> None:
    answer = plan_capacity(replace(QUESTION, rate=2000.0))
    assert isinstance(answer.demand, CapacityRefused)
    assert answer.demand.publisher_side == 4
    assert answer.recommendation == "replicate at the publishers"


def test_a_network_carries_more_than_one_broker_until_its_links_are_full() -> None:
    question = replace(QUESTION, server=FAST, brokers=4, topology="full", rate=1e6, body_bytes=850, subscribers=52)
    network = plan_capacity(question).network
    assert network is not None
    assert network.capacity > forecast(question.scenario, 0.9).rate
    assert network.busiest_link_bytes == pytest.approx(1e6 * network.link_copies / 6 * 1000)
    narrow = plan_capacity(replace(question, link_bytes_per_s=1e6)).network
    assert narrow is not None
    assert narrow.capacity == pytest.approx(1e6 / (network.link_copies / 6 * 1000))


@pytest.mark.parametrize("subscribers", [1, 3, 4, 5])
def test_links_carry_traffic_where_brokers_outnumber_subscribers(subscribers: int) -> None:
    everything = SizingQuestion(
        FIORANO_PROPERTY, subscribers, match_probability=1.0, rate=100.0, brokers=8, topology="star"
    )
    network = plan_capacity(replace(everything, body_bytes=850, link_bytes_per_s=1000)).network
    assert network is not None
    assert network.link_copies > 0
    assert network.busiest_link_bytes is not None
    assert network.busiest_link_bytes >= 100 * 1000 / 8  # somebody is not at the broker where a message comes in
    assert network.capacity <= 8


def test_the_busiest_link_is_not_the_average_one() -> None:
    network = plan_capacity(replace(QUESTION, brokers=16, topology="line", subscribers=160, rate=100.0)).network
    assert network is not None
    assert network.busiest_link_bytes is not None
    q = broker_match_probability(10, 0.02)
    middle = 1 - (1 - q) ** 8  # half of the messages come in at either side, and any of eight brokers may want them
    assert network.busiest_link_bytes == pytest.approx(100 * middle * HEADER_BYTES)


def test_break_even_is_where_the_capacities_beside_it_meet() -> None:
    answer = plan_capacity(replace(QUESTION, subscribers=100, match_probability=0.05, publishers=10))
    assert answer.break_even_publishers == pytest.approx(answer.subscriber_side / (answer.publisher_side / 10))


def test_components_count_in_every_part_of_the_answer() -> None:
    one = replace(QUESTION, server=ACTIVEMQ_SIMPLE, brokers=4, publishers=1, match_probability=0.001)
    many = replace(one, components=20.0)
    little, much = plan_capacity(one), plan_capacity(many)
    assert much.publisher_side == pytest.approx(forecast(many.scenario, 0.9).rate)
    assert much.subscriber_side < little.subscriber_side
    assert much.break_even_publishers > little.break_even_publishers
    assert much.network is not None
    assert little.network is not None
    assert much.network.capacity < little.network.capacity


def test_measured_grades_count_in_every_part_of_the_answer() -> None:
    measured = SizingQuestion(FIORANO_PROPERTY, 10, grades=Empirical((0,) * 10 + (7,)), brokers=4, rate=100.0)
    told = SizingQuestion(FIORANO_PROPERTY, 10, match_probability=1.0, spread="fixed", brokers=4, rate=100.0)
    assert plan_capacity(measured) == plan_capacity(told)
    with pytest.raises(UsageError, match="10 receivers a message, but 9 subscribers"):
        replace(measured, subscribers=9)


def test_the_fewest_servers_that_keep_the_waiting_time_are_recommended() -> None:
    question = SizingQuestion(FIORANO_PROPERTY, 100_000, match_probability=1e-5, rate=3.0, waiting_max_s=0.01)
    star = plan_capacity(replace(question, brokers=200, topology="star"))
    assert isinstance(star.demand, CapacityRefused)
    assert star.demand.publisher_side is not None
    assert star.demand.subscriber_side is not None
    assert star.demand.publisher_side > star.demand.subscriber_side > 200
    assert star.recommendation == "a network of 200 brokers"
    assert plan_capacity(replace(question, brokers=300, topology="star")).recommendation == SUBSCRIBERS


def test_a_network_on_whose_longest_way_messages_wait_too_long_is_not_recommended() -> None:
    question = SizingQuestion(
        FIORANO_PROPERTY, 100_000, match_probability=1e-5, rate=3.0, waiting_max_s=0.01, brokers=200
    )
    ring = plan_capacity(question)
    assert ring.network is not None
    assert ring.network.capacity > 3
    assert ring.network.waiting_quantile is not None
    assert ring.network.waiting_quantile > 0.01
    assert ring.recommendation == SUBSCRIBERS


def test_nobody_is_spread_over_several_servers() -> None:
    slow = Fitted.of("base", t_rcv=0.0, t_fltr=0.0, t_tx=1.0)
    answer = plan_capacity(SizingQuestion(slow, 1, match_probability=1.0, rate=2.0, waiting_max_s=100.0))
    assert answer.recommendation == "replicate at the publishers"


def test_the_reverse_the_largest_rate_for_a_waiting_time() -> None:
    answer = plan_capacity(replace(QUESTION, waiting_max_s=0.03))
    allowed = plan_capacity(replace(QUESTION, waiting_max_s=0.03, rate=answer.rate_allowed * 0.999)).demand
    assert isinstance(allowed, Allowed)
    assert allowed.rate_max == pytest.approx(answer.rate_allowed)
    assert allowed.forecast.waiting_quantile == pytest.approx(0.03, rel=0.02)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("link_bytes_per_s", -5.0),
        ("link_bytes_per_s", math.nan),
        ("waiting_max_s", -0.005),
        ("waiting_max_s", math.nan),
        ("probability", 7.0),
        ("probability", 1.0),
        ("rate", 0.0),
        ("utilisation", 1.0),
        ("components", math.inf),
    ],
)
def test_questions_that_make_no_sense(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=name):
        replace(QUESTION, **cast("dict[str, Any]", {name: value}))


def test_no_share_of_the_messages_is_all_of_them() -> None:
    with pytest.raises(UsageError, match=r"probability must lie in \[0, 1\), not 1$"):
        replace(QUESTION, probability=1.0)


def test_measured_grades_replace_the_assumed_spread() -> None:
    moments = replace(QUESTION, grades=Empirical((0, 10))).replication.moments()
    assert moments == Moments(1.0, 1.0, 1.0)


def test_topologies() -> None:
    assert len(links_of("full", 5)) == 10
    assert links_of("line", 3) == [(0, 1), (1, 2)]
    with pytest.raises(UsageError, match="topology"):
        replace(QUESTION, topology="torus")
    with pytest.raises(UsageError, match="spread"):
        replace(QUESTION, spread="normal")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--rate", "1e-12"),
        ("--rate", "1e-320"),
        ("--rate", "1e300"),
        ("--rate", "nan"),
        ("--filters", "1e200"),
        ("--components", "1e200"),
        ("--waiting", "1e300"),
        ("--link", "1e300"),
    ],
)
def test_numbers_beyond_all_sense_are_refused(tmp_path: Path, option: str, value: str) -> None:
    model = tmp_path / "m.json"
    model.write_text(FAST.to_json())
    wish = ["plan", "capacity", "--model", str(model), "--subscribers", "500", "--brokers", "4", option, value]
    with pytest.raises(UsageError, match=f"E_LAB_INPUT: {option} must lie in"):
        CliRunner().invoke(make_app(["plan"]), wish, catch_exceptions=False)


@pytest.mark.parametrize("option", ["--subscribers", "--publishers", "--body"])
def test_counts_beyond_all_sense_are_refused(tmp_path: Path, option: str) -> None:
    model = tmp_path / "m.json"
    model.write_text(FAST.to_json())
    wish = ["plan", "capacity", "--model", str(model), "--subscribers", "5", option, "1" + 120 * "0"]
    found = CliRunner().invoke(make_app(["plan"]), wish, catch_exceptions=False)
    assert found.exit_code == 2
    assert option in found.output


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_json_has_no_numbers_that_are_none(number: float) -> None:
    with pytest.raises(UsageError, match="E_JSON_NUMBER"):
        strict_json({"network": [{"waiting_quantile": number}]})


@pytest.mark.parametrize("brokers", [2, 4, 20])
def test_next_to_no_load_is_a_load(brokers: int) -> None:
    constant = Fitted.of("constant", t_rcv=1e-5, t_tx=0.0)
    for rate in (1e-3, 1.24e-11, 1e-12, 1e-150, 1e-320):
        answer = plan_capacity(SizingQuestion(constant, 1, match_probability=0.5, rate=rate, brokers=brokers))
        assert isinstance(answer.demand, Allowed)
        assert answer.network is not None
        assert answer.network.waiting_quantile == 0.0


def test_the_command(tmp_path: Path) -> None:
    app, runner, model, plot = make_app(["plan"]), CliRunner(), tmp_path / "m.json", tmp_path / "p.png"
    model.write_text(FAST.to_json())
    wish = ["plan", "capacity", "--model", str(model), "--subscribers", "500", "--rate", "100000", "--waiting", "5"]
    shown = runner.invoke(app, [*wish, "--brokers", "8", "--plot", str(plot)])
    assert shown.exit_code == 0, shown.output
    assert "recommended: one server" in shown.output
    assert plot.read_bytes().startswith(b"\x89PNG")
    answer = json.loads(runner.invoke(app, [*wish, "--json"]).output)
    assert answer["demand"]["rate_max"] > 100000
    assert "one server: up to" in runner.invoke(app, [*wish[:6], "--waiting", "5"]).output
    grades = tmp_path / "g.json"
    grades.write_text("[1, 2, 3]")
    assert runner.invoke(app, [*wish, "--grades", str(grades)]).exit_code == 0
    with pytest.raises(UsageError, match="need a model of tidings lab calibrate"):
        runner.invoke(app, [*wish, "--persistent"], catch_exceptions=False)
    grades.write_text('"many"')
    with pytest.raises(UsageError, match="not a JSON list"):
        runner.invoke(app, [*wish, "--grades", str(grades)], catch_exceptions=False)
    with pytest.raises(UsageError, match="cannot read"):
        runner.invoke(app, [*wish, "--model", str(tmp_path / "none")], catch_exceptions=False)


@pytest.mark.parametrize(
    ("option", "content", "code"),
    [
        ("--model", b"\xff\xfe", "E_PLAN_FILE"),
        ("--model", b"[]", "E_LAB_JSON: .*other.xyz: not a stored model: it is not a JSON object$"),
        ("--model", b"{}", "E_LAB_JSON: .*other.xyz: not a stored model: it has no 'format'$"),
        ("--grades", b"[" * 200_000, "E_PLAN_GRADES"),
        ("--grades", b"[Infinity]", "E_PLAN_GRADES"),
        ("--grades", b'{"3": 5}', "E_PLAN_GRADES: .*other.xyz is not a JSON list of counts$"),
        ("--grades", b'"123"', "E_PLAN_GRADES: .*other.xyz is not a JSON list of counts$"),
        ("--grades", b"[0.1, 0.9, 1.0]", "E_PLAN_GRADES: .*0 receivers is a whole number .*, not 0.1$"),
        ("--grades", b"[2, 1.9]", "E_PLAN_GRADES: .*1 receivers is a whole number .*, not 1.9$"),
        ("--grades", b"[true, 7]", "E_PLAN_GRADES: .*, not True$"),
        ("--grades", b'[1, "7"]', "E_PLAN_GRADES: .*, not '7'$"),
        ("--grades", b"[1, -1]", "E_PLAN_GRADES: .*, not -1$"),
        ("--grades", b"[1, 1" + b"0" * 400 + b"]", "E_PLAN_GRADES"),
        ("--grades", b"[9, 0, 0, 0, 0, 0, 1, 0]", "E_PLAN_GRADES: .* has messages with 6 receivers, of 5 subscribers"),
        ("--plot", b"", "E_PICTURE"),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, option: str, content: bytes, code: str) -> None:
    model, other = tmp_path / "m.json", tmp_path / "other.xyz"
    model.write_text(FAST.to_json())
    other.write_bytes(content)
    wish = ["plan", "capacity", "--model", str(model), "--subscribers", "5", option, str(other)]
    with pytest.raises(UsageError, match=code):
        CliRunner().invoke(make_app(["plan"]), wish, catch_exceptions=False)
