"""Answers from calibrated costs: intervals, the smallest number of brokers, and the command."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidings.capacity.cost_answers import CostQuestion, plan_costs
from tidings.capacity.cost_file import CalibratedModel
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.processing import Errors
from tidings.capacity.traffic import Interests, Traffic
from tidings.cli import make_app
from tidings.errors import UsageError

VALUES = {"turn": 12e-6, "read": 3e-6, "write": 2e-6, "message": 1e-6, "body": 1e-10, "filter": 2e-8, "copy": 2e-7}
DOMAIN = {"body": (0.0, 2000.0), "properties": (1.0, 30.0), "in_flight": (1.0, 200.0), "filters": (1.0, 500.0)}
COSTS = replace(BrokerCosts.of(VALUES, share=0.4), domain=DOMAIN, persistent=(False,), held_out=Errors(0.05, 0.1))
TRAFFIC = Traffic(filters=50, properties=1, interests=Interests(50, 0.1), in_flight=100)


def test_every_figure_has_its_interval_and_knows_what_was_measured() -> None:
    answer = plan_costs(COSTS, CostQuestion(TRAFFIC, rate=20_000, waiting_max_s=2e-3, probability=0.99))
    assert answer.outside == ()
    assert answer.error == pytest.approx(1.96 * 0.05)
    figures = [answer.message_s, answer.saturated, answer.busiest, answer.rate_allowed]
    figures += [one for one in (answer.busy, answer.waiting_mean, answer.waiting_quantile) if one is not None]
    assert len(figures) == 7
    for low, middle, high in figures:
        assert low < middle < high
    assert answer.saturated[1] == pytest.approx(1 / COSTS.cost(TRAFFIC))
    assert answer.enough is True
    assert "body 3,000" in plan_costs(COSTS, CostQuestion(replace(TRAFFIC, body=3000))).outside[0]


def test_the_smallest_number_of_brokers_that_keeps_everything() -> None:
    question = CostQuestion(TRAFFIC, rate=400_000, waiting_max_s=1e-3)
    answer = plan_costs(COSTS, question)
    assert answer.enough is False
    needed = answer.needed
    assert needed is not None
    _, count, _ = needed.by_messages
    assert count is not None
    assert count > 1
    assert plan_costs(COSTS, replace(question, rate=400_000 / count)).rate_allowed[1] >= 400_000 / count
    assert plan_costs(COSTS, replace(question, rate=400_000 / (count - 1))).rate_allowed[1] < 400_000 / (count - 1)
    low, middle, high = needed.by_messages
    assert low is not None
    assert high is not None
    assert middle is not None
    assert low <= middle <= high
    assert needed.cores[0] < needed.cores[1] < needed.cores[2]


def test_subscribers_are_shared_where_copies_are_dear() -> None:
    many = replace(TRAFFIC, filters=500, interests=Interests(500, 1.0))
    rate = 20_000.0
    answer = plan_costs(COSTS, CostQuestion(many, rate=rate, waiting_max_s=0.01))
    assert answer.needed is not None
    _, count, _ = answer.needed.by_subscribers
    assert count is not None
    assert count > 1
    for brokers, enough in ((count, True), (count - 1, False)):
        part = replace(many, filters=500 / brokers, interests=many.interests.divided(brokers))
        assert (plan_costs(COSTS, CostQuestion(part, waiting_max_s=0.01)).rate_allowed[1] >= rate) is enough


def test_the_network_interface_is_a_limit_of_its_own() -> None:
    big = replace(TRAFFIC, body=2000)
    answer = plan_costs(COSTS, CostQuestion(big, rate=20_000, nic_bytes_per_s=125e6))
    assert answer.nic_rate == pytest.approx(125e6 / (5 * big.size))
    assert answer.enough is False
    assert answer.needed is not None
    assert answer.needed.by_messages == (2, 2, 2)


def test_a_rate_within_the_interval_is_not_decided() -> None:
    middle = plan_costs(COSTS, CostQuestion(TRAFFIC)).rate_allowed[1]
    assert plan_costs(COSTS, CostQuestion(TRAFFIC, rate=middle)).enough is None


def test_persistent_messages_are_refused_if_none_were_measured() -> None:
    with pytest.raises(UsageError, match="E_PLAN_DOMAIN"):
        plan_costs(COSTS, CostQuestion(replace(TRAFFIC, persistent=True)))


def test_the_command(tmp_path: Path) -> None:
    app, runner, path = make_app(["plan"]), CliRunner(), tmp_path / "model.json"
    path.write_text(CalibratedModel({"native": COSTS}).to_json())
    wish = ["plan", "capacity", "--model", str(path), "--subscribers", "50", "--match", "0.1", "--waiting", "5"]
    shown = runner.invoke(app, [*wish, "--rate", "20000"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("figures are within ±10% at 95 %")
    assert "20,000 messages/s on one broker: yes" in shown.output
    assert max(map(len, shown.output.splitlines())) <= 100
    outside = runner.invoke(app, [*wish, "--body", "5000", "--brokers", "3"])
    assert outside.output.startswith("OUTSIDE of what was measured: body 5,000 (measured: 0 to 2,000); links")
    assert "network of 3 (ring):" in outside.output
    answer = json.loads(runner.invoke(app, [*wish, "--rate", "20000", "--spread", "all-or-none", "--json"]).output)
    assert answer["traffic"]["interests"]["together"] is True
    assert answer["needed"]["by_messages"] == [1, 1, 1]
    grades = tmp_path / "g.json"
    grades.write_text("[50, 0, 0, 0, 0, 50]")
    measured = json.loads(runner.invoke(app, [*wish, "--rate", "20000", "--grades", str(grades), "--json"]).output)
    assert measured["traffic"]["interests"]["grades"] == [50, 0, 0, 0, 0, 50]
    for more, code in ((["--protocol", "amqp"], "E_PLAN_DOMAIN"), (["--plot", str(tmp_path / "a.png")], "E_USAGE")):
        with pytest.raises(UsageError, match=code):
            runner.invoke(app, [*wish, *more], catch_exceptions=False)
