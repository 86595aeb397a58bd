"""Watching real brokers: what the console shows when one goes and comes back, or does not tell."""

import pytest

from tidings.broker.security import users
from tidings.broker.security.access import AccessRules
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.client import connect
from tidings.console import source
from tidings.console.source import BrokerLogin, BrokerSource
from tidings.console.view import BrokerState
from tidings.console.watch import BrokerWatch
from tidings.node.limits import BrokerLimits
from tidings.testing.local_broker import local_broker, run


def test_a_broker_that_goes_is_remembered_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "RETRY_SECONDS", 0.0)

    async def check() -> None:
        async with local_broker() as here:
            watch = BrokerWatch([BrokerSource(here.url, BrokerLogin())])
            await watch.look()
            (broker,) = watch.view.brokers.values()
            assert broker.state is BrokerState.UP
            async with connect(here.url) as client:
                await client.publish("t", wait=True)
            await watch.look()
            assert watch.view.rates.received > 0
            assert watch.history[-1].rates == watch.view.rates
        await watch.look()
        assert watch.view.brokers[broker.id].state is BrokerState.LOST
        assert watch.view.brokers[broker.id].error
        async with local_broker(port=here.port):
            await watch.look()
            assert watch.view.brokers[broker.id].state is BrokerState.UP
            await watch.stop()

    run(check())


def test_who_may_not_manage_is_told_so() -> None:
    async def check() -> None:
        known = users.add(Users({}), "guest", "a password", frozenset(), Cost(n=2, r=1, p=1))
        async with local_broker(guard=UserGuard(known, AccessRules(()), BrokerLimits())) as here:
            watch = BrokerWatch([BrokerSource(here.url, BrokerLogin("guest", "a password"))])
            await watch.look()
            (told,) = watch.view.unreached
            assert told.state is BrokerState.FORBIDDEN
            assert "guest may not inspect the broker" in told.error
            assert watch.refused is None, "the broker lets this user in"
            await watch.stop()

    run(check())


def test_a_wrong_password_is_not_tried_again() -> None:
    async def check() -> None:
        known = users.add(Users({}), "guest", "a password", frozenset(), Cost(n=2, r=1, p=1))
        async with local_broker(guard=UserGuard(known, AccessRules(()), BrokerLimits())) as here:
            watch = BrokerWatch([BrokerSource(here.url, BrokerLogin("guest", "wrong"))])
            for _ in range(3):
                await watch.look()
            assert watch.refused is not None
            assert here.broker.login.refused == {"E_LOGIN": 1}

    run(check())


def test_an_address_shows_no_password() -> None:
    assert BrokerSource("tidings://me:secret@example.org:1", BrokerLogin()).url == "tidings://example.org:1"
    assert "secret" not in repr(BrokerLogin("me", "secret"))
