"""Waiting times in a network, against queues that are known."""

import pytest

from tidings.capacity.forecast import CapacityScenario
from tidings.capacity.network_waiting import network_waiting
from tidings.capacity.processing import Fitted
from tidings.capacity.replication import Site, bdrp
from tidings.capacity.service import Binomial, Moments, service_moments, thinned
from tidings.capacity.thesis import FIORANO_PROPERTY as SERVER
from tidings.capacity.waiting import GammaWaiting, waiting_moments
from tidings.errors import UsageError

GRADES = Binomial(100, 0.05)


def test_one_broker_is_the_planners_server() -> None:
    sites = [Site(100, 0.9, 5.0)]
    found = network_waiting(SERVER, sites, [], bdrp(SERVER, sites, []), GRADES.moments(), 500.0)
    wanted = GammaWaiting.of(500.0, CapacityScenario(SERVER, 100, GRADES).service())
    assert found.quantile(0.9999) == pytest.approx(wanted.quantile(0.9999))


def test_waiting_times_of_a_way_add_up() -> None:
    """Everything goes to both, so a message is one service at each; half of them are published there and sent on."""
    sites, links = [Site(50, 1.0, 2.5), Site(50, 1.0, 2.5)], [(0, 1)]
    load = bdrp(SERVER, sites, links)
    found = network_waiting(SERVER, sites, links, load, GRADES.moments(), 300.0)
    fixed, local = SERVER.t_rcv + SERVER.filtering(sites[0].load), thinned(GRADES.moments(), 0.5)
    kinds = [service_moments(fixed + sent * SERVER.t_tx, SERVER.t_tx, local) for sent in (0, 1)]
    service = Moments(*(sum(getattr(one, name) for one in kinds) / 2 for name in ("first", "second", "third")))
    assert service.first == pytest.approx(load.work[0])
    first, _ = waiting_moments(300.0, service)
    assert found.mean == pytest.approx(2 * first)
    assert found.rho == pytest.approx(1 - (1 - 300.0 * load.work[0]) ** 2)


def test_the_mean_service_is_the_work_that_capacity_counts() -> None:
    """On a line of three most of what the middle has to do is to pass on; close to capacity all wait for long."""
    sites, links = [Site(20, 0.3, 1.0), Site(20, 0.1, 0.5), Site(20, 0.3, 1.0)], [(0, 1), (1, 2)]
    load = bdrp(SERVER, sites, links)
    limit = load.capacity(1.0)
    grades = Moments(2.5, 7.0, 23.0)
    near, far = (network_waiting(SERVER, sites, links, load, grades, share * limit) for share in (0.999, 0.5))
    assert near.mean > 100 * far.mean
    with pytest.raises(UsageError, match="E_LAB_OVERLOAD"):
        network_waiting(SERVER, sites, links, load, grades, 1.001 * limit)


def test_brokers_that_nobody_uses_make_nobody_wait() -> None:
    sites = [Site(5, 0.0, 1.0, entry=1), Site(0, 0.0, 0.0, entry=0)]
    server = Fitted.of("base", t_rcv=0.1, t_fltr=0.01, t_tx=0.1)
    found = network_waiting(server, sites, [(0, 1)], bdrp(server, sites, [(0, 1)]), Moments(1.0, 1.0, 1.0), 2.0)
    assert found.rho == pytest.approx(2 * 0.25)


@pytest.mark.parametrize("rate", [1e-6, 1e-12, 1e-30])
def test_who_waits_waits_the_same_however_rare_messages_are(rate: float) -> None:
    """1 − (1 − ρ)² is 0 in floats for tiny ρ; the waiting time of those who wait does not depend on it."""
    sites, links = [Site(50, 1.0, 2.5), Site(50, 1.0, 2.5)], [(0, 1)]
    load = bdrp(SERVER, sites, links)
    few, many = (network_waiting(SERVER, sites, links, load, GRADES.moments(), one) for one in (rate, 1e-3))
    assert few.rho == pytest.approx(2 * rate * load.work[0], rel=1e-5)
    assert few.alpha == pytest.approx(many.alpha, rel=1e-3)
    assert few.beta == pytest.approx(many.beta, rel=1e-3)


def test_a_fixed_grade_below_one_is_a_copy_now_and_then() -> None:
    grades, links = Moments(0.003, 0.003**2, 0.003**3), [(0, 1)]
    sites, server = [Site(1, 0.0015, 0.0015), Site(1, 0.0015, 0.0015)], Fitted.of("base", t_rcv=0, t_fltr=0, t_tx=2e-5)
    found = network_waiting(server, sites, links, bdrp(server, sites, links), grades, 10.0)
    assert found.alpha > 0
    assert found.quantile(0.99) == 0.0
