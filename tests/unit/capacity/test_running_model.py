"""The planner's answers from what a running broker publishes."""

from dataclasses import asdict, replace

import pytest

from tidings.capacity.batch_costs import BatchCosts
from tidings.capacity.online import PresentLoad
from tidings.capacity.running_model import LoadAsked, RunningModel
from tidings.cli.plan.running import lines
from tidings.errors import UsageError

COSTS = BatchCosts(2e-5, 6e-6, 4e-7, 2e-8, 2e-7, t_cold=8e-6, t_byte_in=2e-10, t_byte_out=3e-10)
SEEN = PresentLoad(100, 50, 0.04, 120, 140, 0, together=True)
MODEL = RunningModel(COSTS, SEEN, 0.2)


def metrics(model: RunningModel) -> str:
    """As a broker writes them."""
    capacity = SEEN.server(COSTS).capacity(0.9)
    low, high = capacity * (1 - model.error), capacity * (1 + model.error)
    rows = ["# HELP tidings_load The load.", "tidings_ready 1", f"tidings_capacity_messages_per_second {capacity}"]
    rows += [f'tidings_capacity_interval{{bound="low"}} {low}', f'tidings_capacity_interval{{bound="high"}} {high}']
    rows += [f'tidings_cost_seconds{{cost="{name}"}} {value}' for name, value in asdict(model.costs).items()]
    rows += [f'tidings_load{{of="{name}"}} {float(value)}' for name, value in asdict(model.seen).items()]
    return "\n".join(rows) + "\n"


def test_a_model_is_read_from_the_metrics_of_a_broker() -> None:
    read = RunningModel.from_metrics(metrics(MODEL))
    assert (read.costs, read.seen) == (COSTS, SEEN)
    assert read.error == pytest.approx(0.2)


def test_a_broker_that_is_still_measuring_gives_no_answer() -> None:
    text = metrics(MODEL)
    for part in ("cost_seconds", "load", "capacity_interval", "capacity_messages"):
        without = "\n".join(row for row in text.splitlines() if f"tidings_{part}" not in row)
        with pytest.raises(UsageError, match="does not know its costs yet") as refused:
            RunningModel.from_metrics(without)
        assert refused.value.code == "E_PLAN_MEASURING"
    with pytest.raises(UsageError, match="not the metrics of such a broker"):
        RunningModel.from_metrics(text.replace("t_write", "t_other"))


def test_asked_about_what_it_has_seen_it_says_what_the_broker_says() -> None:
    answer = MODEL.plan(LoadAsked(rate=20_000, waiting_max_s=1.0))
    assert answer.outside == ()
    assert answer.busiest[1] == pytest.approx(SEEN.server(COSTS).capacity(0.9))
    assert answer.busiest[0] < answer.busiest[1] < answer.busiest[2]
    assert answer.busy is not None
    assert answer.busy[0] < answer.busy[1] < answer.busy[2]
    assert answer.waiting_quantile is not None
    assert answer.waiting_quantile[0] < answer.waiting_quantile[1] < answer.waiting_quantile[2]


def test_verdicts_respect_the_interval() -> None:
    low, middle, high = MODEL.plan(LoadAsked(waiting_max_s=1.0)).busiest
    verdicts = [MODEL.plan(LoadAsked(waiting_max_s=1.0)).enough(rate) for rate in (0.9 * low, middle, 1.1 * high)]
    assert verdicts == [True, None, False]


def test_what_lies_outside_is_said_first() -> None:
    for asked, name in (
        (LoadAsked(body=6000), "bytes_in"),
        (LoadAsked(match=0.4), "match"),
        (LoadAsked(filters_each=9), "filters"),
    ):
        answer = MODEL.plan(asked)
        assert lines(asked, answer)[0].startswith(f"outside of what was measured: {name} is")
    inside = LoadAsked(subscribers=80, rate=1000)
    said = lines(inside, MODEL.plan(inside))
    assert said[0].startswith("90% busy at ")
    assert "1,000 messages/s: yes" in said


def test_larger_bodies_and_more_receivers_cost_more() -> None:
    plain = MODEL.plan(LoadAsked()).busiest[1]
    assert MODEL.plan(LoadAsked(body=6000)).busiest[1] < plain
    assert MODEL.plan(LoadAsked(match=0.4)).busiest[1] < plain
    exact = replace(MODEL, error=0.0).plan(LoadAsked()).busiest
    assert exact[0] == exact[2] == pytest.approx(plain)


def test_beyond_the_limit_there_are_no_waiting_times() -> None:
    answer = MODEL.plan(LoadAsked(rate=1e9))
    assert (answer.busy, answer.waiting_mean, answer.waiting_quantile) == (None, None, None)
    assert answer.enough(1e9) is False
