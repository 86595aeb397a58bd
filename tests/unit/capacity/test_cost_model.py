"""Costs of a broker: special cases that are known, a queue of two kinds of batches against a simulation, JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tidings.capacity.batching import BatchKind, analyse, mixed
from tidings.capacity.cost_file import CalibratedModel, is_calibrated
from tidings.capacity.cost_model import BrokerCosts
from tidings.capacity.processing import Errors
from tidings.capacity.traffic import CLIENT_TERMS, TERMS, Interests, Traffic
from tidings.errors import CodecError, UsageError

VALUES = {"turn": 12e-6, "read": 3e-6, "write": 2e-6, "message": 1e-6, "body": 1e-10, "copy": 2e-7, "commit": 8e-5}
COSTS = BrokerCosts.of(VALUES, share=0.5)


def test_one_message_in_flight_costs_what_the_closed_form_says() -> None:
    traffic = Traffic(body=1000, interests=Interests(20, 0.5), in_flight=1)
    assert COSTS.cost(traffic) == pytest.approx(12e-6 + 3e-6 + 1e-6 + 1e-7 + 10 * (2e-6 + 2e-7))
    server = COSTS.closed_form(traffic)
    assert server.t_rcv == pytest.approx(16.1e-6)
    assert server.t_tx == pytest.approx(2.2e-6)
    assert COSTS.queue(traffic, 100.0).busy == pytest.approx(100 * COSTS.cost(traffic), rel=0.01)


def test_what_is_in_flight_together_makes_a_message_cheaper_and_commits_are_shared() -> None:
    few, many = (Traffic(persistent=True, interests=Interests(5, 1.0), in_flight=w) for w in (1, 200))
    assert COSTS.cost(many) < COSTS.cost(few) / 10
    assert COSTS.capacity(many) > 1 / COSTS.cost(many)


def simulated(costs: BrokerCosts, traffic: Traffic, rate: float, turns: int) -> tuple[float, float, float]:
    """Mean wait, its 99 % quantile, and the share of busy time of a broker whose interests are all or none."""
    rng, values, interests = np.random.default_rng(7), costs.parameters, traffic.interests
    arrivals, at, now, busy = np.cumsum(rng.exponential(1 / rate, turns)), 0, 0.0, 0.0
    waits = []
    while at < len(arrivals):
        now = max(now, arrivals[at])
        end = int(np.searchsorted(arrivals, now, side="right"))
        k, hits = end - at, int((rng.random(end - at) < interests.match).sum())
        waits.append(now - arrivals[at:end])
        seconds = values["turn"] + values["read"] + k * values["message"]
        seconds += interests.subscribers * (values["write"] * (hits > 0) + hits * values["copy"])
        at, now, busy = end, now + seconds, busy + seconds
    every = np.concatenate(waits)
    return float(every.mean()), float(np.quantile(every, 0.99)), busy / now


@pytest.mark.parametrize("rate", [3000.0, 12_000.0])
def test_all_or_none_interests_wait_as_a_simulation_says(rate: float) -> None:
    traffic = Traffic(interests=Interests(100, 0.05, together=True))
    queue = COSTS.queue(traffic, rate)
    mean, quantile, busy = simulated(COSTS, traffic, rate, 200_000)
    assert queue.busy == pytest.approx(busy, rel=0.02)
    assert queue.waiting_mean == pytest.approx(mean, rel=0.04)
    assert queue.quantile(0.99) == pytest.approx(quantile, rel=0.05)
    independent = COSTS.queue(Traffic(interests=Interests(100, 0.05)), rate)
    assert independent.quantile(0.99) < quantile / 1.5


def test_a_mixture_of_one_kind_is_that_kind() -> None:
    kind = BatchKind(lambda k: np.full_like(k, 0.4), lambda k: 1e-5 + 1e-6 * k)
    other = BatchKind(lambda k: np.full_like(k, 0.6), kind.mean)
    one = analyse(20_000.0, *mixed([kind, other]), kinds=[kind, other])
    two = analyse(20_000.0, kind.mean)
    assert one.waiting_mean == pytest.approx(two.waiting_mean)
    assert one.quantile(0.99) == pytest.approx(two.quantile(0.99))


def test_the_interval_covers_the_fit_and_the_points_held_out() -> None:
    message = list(TERMS).index("message")
    square = tuple(tuple(1e-14 if i == j == message else 0.0 for j in range(len(TERMS))) for i in range(len(TERMS)))
    traffic = Traffic(interests=Interests(0, 0.0))
    held_out = BrokerCosts(COSTS.values, 0.5, {}, covariance=square, held_out=Errors(0.1, 0.2))
    own = 1e-7 / held_out.cost(traffic)
    assert held_out.error(traffic) == pytest.approx(1.96 * np.hypot(own, 0.1))
    assert COSTS.error(traffic) == 0.0


def test_outside_of_the_domain_is_said() -> None:
    costs = BrokerCosts(COSTS.values, 0.5, {"body": (0.0, 1000.0), "receivers": (1.0, 5.0)}, persistent=(False,))
    inside = Traffic(body=1000, interests=Interests(5, 1.0))
    assert costs.outside(inside) == ()
    found = costs.outside(Traffic(body=1001, persistent=True, interests=Interests(6, 1.0)))
    assert found == (
        "body 1,001 (measured: 0 to 1,000)",
        "receivers 6 (measured: 1 to 5)",
        "persistent messages (none measured)",
    )


def test_models_are_kept_as_json() -> None:
    square = tuple((0.0,) * len(TERMS) for _ in TERMS)
    costs = BrokerCosts(
        COSTS.values,
        0.5,
        {"body": (0.0, 9.0)},
        (False,),
        square,
        3e-5,
        12,
        Errors(0.1, 0.2),
        Errors(0.2, 0.4),
        ("x: y",),
        tuple(1e-6 for _ in CLIENT_TERMS),
    )
    model = CalibratedModel({"stomp": costs}, {"cpu": "a"})
    text = model.to_json()
    assert is_calibrated(text)
    assert CalibratedModel.from_json(text) == model
    with pytest.raises(UsageError, match=r"knows stomp, not amqp; calibrate it: tidings lab calibrate --protocol amqp"):
        model.costs("amqp")
    assert not is_calibrated("[]")
    assert not is_calibrated("{")
    for wrong in ("{", "[]", "{}", text.replace('"version": 2', '"version": 1'), text.replace("1.2e-05", "-1")):
        with pytest.raises(CodecError):
            CalibratedModel.from_json(wrong)
    document = json.loads(text)
    document["protocols"]["stomp"]["covariance"][3].pop()
    with pytest.raises(CodecError, match="covariance"):
        CalibratedModel.from_json(json.dumps(document))


def test_clients_that_are_slower_than_the_broker_make_its_turns_small() -> None:
    traffic = Traffic(interests=Interests(2, 1.0), publishers=4, in_flight=400)
    slow = replace(COSTS, client=(6e-6, 0.0, 0.0, 0.0, 0.0))
    k = slow.turn(traffic)
    assert 1 < k < COSTS.turn(traffic) / 4
    assert slow.cost(traffic) == pytest.approx(6e-6, rel=1e-3)
    assert slow.fast_clients.cost(traffic) == COSTS.cost(traffic) < 3e-6
    slowest = replace(COSTS, client=(1e-3, 0.0, 0.0, 0.0, 0.0))
    assert slowest.turn(traffic) == 1
    heavy = replace(traffic, interests=Interests(200, 1.0), in_flight=4)
    assert slow.cost(heavy) == COSTS.cost(heavy)
