"""The planner's whole answer, against the parts it is made of, and its command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.cli import make_app
from tidings.errors import UsageError
from tidings.lab.capacity import Question, links_of, plan_capacity
from tidings.lab.planner import Allowed, Refused, forecast
from tidings.lab.processing import Fitted
from tidings.lab.service import Empirical, Moments
from tidings.lab.thesis import FIORANO_PROPERTY

QUESTION = Question(FIORANO_PROPERTY, subscribers=50, filters_each=2, match_probability=0.02)
FAST = Fitted.of("log", t_rcv=2e-7, t_fltr=1e-8, t_tx=4e-8)


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
    assert isinstance(answer.demand, Refused)
    assert answer.demand.publisher_side == 4
    assert answer.recommendation == "replicate at the publishers"


def test_a_network_carries_more_than_one_broker_until_its_links_are_full() -> None:
    question = replace(QUESTION, server=FAST, brokers=4, rate=1e6, body_bytes=850)
    network = plan_capacity(question).network
    assert network is not None
    assert network.capacity > forecast(question.scenario, 0.9).rate
    assert network.busiest_link_bytes == pytest.approx(1e6 * network.link_copies / 4 * 1000)
    narrow = plan_capacity(replace(question, link_bytes_per_s=1e6)).network
    assert narrow is not None
    assert narrow.capacity == pytest.approx(1e6 / (network.link_copies / 4 * 1000))


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
    grades = tmp_path / "g.json"
    grades.write_text('"many"')
    with pytest.raises(UsageError, match="not a JSON list"):
        runner.invoke(app, [*wish, "--grades", str(grades)], catch_exceptions=False)
    with pytest.raises(UsageError, match="cannot read"):
        runner.invoke(app, [*wish, "--model", str(tmp_path / "none")], catch_exceptions=False)
