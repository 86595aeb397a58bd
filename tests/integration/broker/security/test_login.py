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
    protocol: str = "native"

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
        desk = Desk(monkeypatch)
        assert await desk.answer(desk.come("alice", "alice's", "192.0.2.1")) == "alice"
        desk.strangers(60)
        again = desk.come("alice", "alice's", "192.0.2.1")
        assert desk.told[again.number] == "alice"
        elsewhere = desk.come("alice", "alice's", "198.51.100.1")
        assert desk.told[elsewhere.number] == "alice", "the password is known, wherever it comes from"
        assert desk.hashed.count("alice's") == 1
        await desk.close()

    run(check())


def test_a_proven_client_goes_ahead_of_strangers_if_its_password_must_be_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        desk = Desk(monkeypatch)
        assert await desk.answer(desk.come("bob", "bob's", "192.0.2.1")) == "bob"
        desk.guard.replace(desk.guard.users, desk.guard.rules)  # forgets passwords
        desk.hashed.clear()
        desk.strangers(60)
        bob = desk.come("bob", "bob's", "192.0.2.1")
        desk.gate.set()
        assert await desk.answer(bob) == "bob"
        await eventually(lambda: len(desk.told) == 62)
        assert "bob's" in desk.hashed[: LOGIN_THREADS + 2]
        await desk.close()

    run(check())


def test_too_many_are_turned_away_before_anything_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        desk = Desk(monkeypatch)
        strangers = desk.strangers(WAITING_MAX + LOGIN_THREADS + 5)
        await eventually(lambda: len(desk.hashed) == LOGIN_THREADS)
        refused = [desk.told[one.number] for one in strangers if one.number in desk.told]
        assert len(refused) == 5
        assert all("E_LOGIN_BUSY" in one and "try again in" in one for one in refused)
        assert desk.login.waiting == WAITING_MAX
        assert desk.login.refused["E_LOGIN_BUSY"] == 5
        await desk.close()

    run(check())


def test_nothing_is_hashed_for_who_has_left_or_whose_password_became_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        desk = Desk(monkeypatch)
        desk.strangers(LOGIN_THREADS)
        first, gone = (
            desk.come("bob", "bob's", "192.0.2.1"),
            desk.come("alice", "gone", "192.0.2.1"),
        )
        others = [desk.come("bob", "bob's", f"198.51.100.{number}") for number in range(20)]
        gone.number = -1
        await eventually(lambda: len(desk.hashed) == LOGIN_THREADS)
        desk.gate.set()
        answers = [await desk.answer(one) for one in (first, *others)]
        assert answers == ["bob"] * 21
        assert "gone" not in desk.hashed
        assert desk.hashed.count("bob's") <= LOGIN_THREADS
        await desk.close()

    run(check())


def test_a_wrong_password_is_hashed_and_counted_also_for_a_user_whose_password_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check() -> None:
        desk = Desk(monkeypatch)
        await desk.answer(desk.come("alice", "alice's", "192.0.2.1"))
        desk.guard.limit(BrokerLimits(login_failures_max=2))
        for _ in range(2):
            assert "E_LOGIN:" in await desk.answer(desk.come("alice", "wrong", "192.0.2.1"))
        assert desk.hashed == ["alice's", "wrong", "wrong"]
        throttled = desk.come("alice", "alice's", "192.0.2.1")
        assert "E_LOGIN_THROTTLED" in desk.told[throttled.number], "at once, and the right password helps nobody guess"
        await asyncio.sleep(0)
        assert len(desk.hashed) == 3
        await desk.close()

    run(check())
