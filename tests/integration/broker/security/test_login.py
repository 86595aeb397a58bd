"""Log-ins beside strangers who try passwords: hashes wait at a gate here, so nothing depends on how long they take."""

import asyncio
import threading
from dataclasses import dataclass

import pytest
from hardening.support.links import eventually

from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.security import passwords, users
from tidings.broker.security.access import AccessRules
from tidings.broker.security.login import LOGIN_THREADS, Login
from tidings.broker.security.login_queue import WAITING_MAX
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.broker.tasks import Tasks
from tidings.node.inputs import Input, LoggedIn, LoginRefused
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import Hello
from tidings.testing.local_broker import run

CHEAP = Cost(n=2, r=1, p=1)


@dataclass(slots=True)
class FakeClient:
    number: int
    address: str

    def certificate_name(self) -> str:
        return ""


class Desk:
    """Log-ins by address; `hashed`: passwords of which a hash was begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hashed: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        derive = passwords._derive

        def slow(password: str, cost: Cost, salt: bytes, size: int) -> bytes:
            self.hashed.append(password)
            assert self.gate.wait(60)
            return derive(password, cost, salt, size)

        known = Users({})
        for name in ("alice", "bob"):
            known = users.add(known, name, f"{name}'s", frozenset(), CHEAP)
        monkeypatch.setattr(passwords, "_derive", slow)
        self.guard = UserGuard(known, AccessRules(()), BrokerLimits(login_failures_max=1000))
        self.told: dict[int, str] = {}
        self._tasks = Tasks()
        self.login = Login(self.guard, self._tell, self._tasks.spawn, LogRateLimit())
        self._clients = 0

    def _tell(self, told: Input) -> None:
        assert isinstance(told, LoggedIn | LoginRefused)
        self.told[told.connection] = told.principal.name if isinstance(told, LoggedIn) else str(told.error)

    def come(self, user: str, password: str, address: str) -> FakeClient:
        self._clients += 1
        client = FakeClient(self._clients, address)
        self.login.log_in(client, Hello(user, password, "", 0))
        return client

    async def answer(self, client: FakeClient) -> str:
        await eventually(lambda: client.number in self.told)
        return self.told[client.number]

    def strangers(self, count: int) -> list[FakeClient]:
        """One each from as many networks; the first of them keep the threads busy."""
        self.gate.clear()
        return [
            self.come("alice", f"guess {number}", f"10.{number // 250}.{number % 250}.1") for number in range(count)
        ]

    async def close(self) -> None:
        self.gate.set()
        self.login.close()
        await self._tasks.cancel()


def test_who_has_logged_in_before_comes_in_at_once_whatever_strangers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        request_handler = Desk(monkeypatch)
        assert await request_handler.answer(request_handler.come("alice", "alice's", "192.0.2.1")) == "alice"
        request_handler.strangers(60)
        again = request_handler.come("alice", "alice's", "192.0.2.1")
        assert request_handler.told[again.number] == "alice"
        elsewhere = request_handler.come("alice", "alice's", "198.51.100.1")
        assert request_handler.told[elsewhere.number] == "alice", "the password is known, wherever it comes from"
        assert request_handler.hashed.count("alice's") == 1
        await request_handler.close()

    run(check())


def test_a_proven_client_goes_ahead_of_strangers_if_its_password_must_be_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        request_handler = Desk(monkeypatch)
        assert await request_handler.answer(request_handler.come("bob", "bob's", "192.0.2.1")) == "bob"
        request_handler.guard.replace(request_handler.guard.users, request_handler.guard.rules)  # forgets passwords
        request_handler.hashed.clear()
        request_handler.strangers(60)
        bob = request_handler.come("bob", "bob's", "192.0.2.1")
        request_handler.gate.set()
        assert await request_handler.answer(bob) == "bob"
        await eventually(lambda: len(request_handler.told) == 62)
        assert "bob's" in request_handler.hashed[: LOGIN_THREADS + 2]
        await request_handler.close()

    run(check())


def test_too_many_are_turned_away_before_anything_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        request_handler = Desk(monkeypatch)
        strangers = request_handler.strangers(WAITING_MAX + LOGIN_THREADS + 5)
        await eventually(lambda: len(request_handler.hashed) == LOGIN_THREADS)
        refused = [request_handler.told[one.number] for one in strangers if one.number in request_handler.told]
        assert len(refused) == 5
        assert all("E_LOGIN_BUSY" in one and "try again in" in one for one in refused)
        assert request_handler.login.waiting == WAITING_MAX
        assert request_handler.login.refused["E_LOGIN_BUSY"] == 5
        await request_handler.close()

    run(check())


def test_nothing_is_hashed_for_who_has_left_or_whose_password_became_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        request_handler = Desk(monkeypatch)
        request_handler.strangers(LOGIN_THREADS)
        first, gone = (
            request_handler.come("bob", "bob's", "192.0.2.1"),
            request_handler.come("alice", "gone", "192.0.2.1"),
        )
        others = [request_handler.come("bob", "bob's", f"198.51.100.{number}") for number in range(20)]
        gone.number = -1
        await eventually(lambda: len(request_handler.hashed) == LOGIN_THREADS)
        request_handler.gate.set()
        answers = [await request_handler.answer(one) for one in (first, *others)]
        assert answers == ["bob"] * 21
        assert "gone" not in request_handler.hashed
        assert request_handler.hashed.count("bob's") <= LOGIN_THREADS
        await request_handler.close()

    run(check())


def test_a_wrong_password_is_hashed_and_counted_also_for_a_user_whose_password_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        request_handler = Desk(monkeypatch)
        await request_handler.answer(request_handler.come("alice", "alice's", "192.0.2.1"))
        request_handler.guard.limit(BrokerLimits(login_failures_max=2))
        for _ in range(2):
            assert "E_LOGIN:" in await request_handler.answer(request_handler.come("alice", "wrong", "192.0.2.1"))
        assert request_handler.hashed == ["alice's", "wrong", "wrong"]
        throttled = request_handler.come("alice", "alice's", "192.0.2.1")
        assert "E_LOGIN_THROTTLED" in request_handler.told[throttled.number], (
            "at once, and the right password helps nobody guess"
        )
        await asyncio.sleep(0)
        assert len(request_handler.hashed) == 3
        await request_handler.close()

    run(check())
