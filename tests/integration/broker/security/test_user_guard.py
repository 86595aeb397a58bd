import stat
from pathlib import Path

import pytest

from tidings.broker.security import passwords, users
from tidings.broker.security.access import AccessRules, Rule
from tidings.broker.security.login_tokens import FILE, TOKEN_SECONDS, LoginTokens
from tidings.broker.security.passwords import Cost
from tidings.broker.security.user_guard import UserGuard
from tidings.broker.security.users import Users
from tidings.errors import SecurityError
from tidings.model.destination import DestinationPattern
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import Hello

CHEAP = Cost(n=2, r=1, p=1)
ALICE = users.add(Users({}), "alice", "right", frozenset({"traders"}), CHEAP)
BOTH = users.add(ALICE, "robot", None, frozenset())
RULES = AccessRules((Rule("", DestinationPattern.parse("a.>"), frozenset({"publish"}), group="traders"),))


def hello(user: str = "", password: str = "") -> Hello:
    return Hello(user, password, "", 0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guard(clock: Clock) -> UserGuard:
    return UserGuard(BOTH, RULES, BrokerLimits(login_failures_max=2, login_lock_seconds=10), clock=clock)


def test_the_right_password_gives_the_rights_of_the_groups(guard: UserGuard) -> None:
    alice = guard.log_in(hello("alice", "right"), "1.1.1.1", "")
    assert (alice.name, alice.may("publish", "a.b"), alice.may("publish", "b")) == ("alice", True, False)


@pytest.mark.parametrize(
    ("user", "password", "certificate"),
    [("alice", "wrong", ""), ("alice", "", ""), ("nobody", "right", ""), ("", "", ""), ("robot", "", ""),
     ("robot", "x", "robot"), ("alice", "", "robot"), ("", "", "stranger")],
)  # fmt: skip
def test_everything_else_is_refused_with_one_answer(
    guard: UserGuard, monkeypatch: pytest.MonkeyPatch, user: str, password: str, certificate: str
) -> None:
    derived: list[Cost] = []
    derive = passwords._derive

    def noted(password: str, cost: Cost, salt: bytes, size: int) -> bytes:
        derived.append(cost)
        return derive(password, cost, salt, size)

    monkeypatch.setattr(passwords, "_derive", noted)
    with pytest.raises(SecurityError) as caught:
        guard.log_in(hello(user, password), "1.1.1.1", certificate)
    assert str(caught.value) == "E_LOGIN: unknown user or wrong password"
    # The same work, whoever asked; only an unknown certificate is known to be wrong without it.
    assert derived == ([] if certificate == "stranger" else [CHEAP])


def test_a_certificate_is_enough_for_a_known_user(guard: UserGuard) -> None:
    assert guard.log_in(hello(), "1.1.1.1", "robot").name == "robot"
    assert guard.log_in(hello("robot"), "1.1.1.1", "robot").name == "robot"
    assert guard.log_in(hello("alice", "right"), "1.1.1.1", "robot").name == "alice"


def test_failures_are_throttled_until_time_has_passed(guard: UserGuard, clock: Clock) -> None:
    for _ in range(2):
        with pytest.raises(SecurityError, match="E_LOGIN:"):
            guard.log_in(hello("alice", "wrong"), "1.1.1.1", "")
    with pytest.raises(SecurityError, match=r"E_LOGIN_THROTTLED: .* try again in 10 s"):
        guard.log_in(hello("alice", "right"), "1.1.1.1", "")
    clock.now = 10.0
    assert guard.log_in(hello("alice", "right"), "1.1.1.1", "").name == "alice"
    assert guard.throttled == 1


def test_without_memory_for_the_hash_the_log_in_is_refused(guard: UserGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(passwords, "_derive", exhausted)
    with pytest.raises(SecurityError, match="E_LOGIN_BUSY"):
        guard.log_in(hello("alice", "right"), "1.1.1.1", "")


def test_replacing_tells_whom_it_concerns(guard: UserGuard) -> None:
    assert guard.replace(BOTH, RULES) == frozenset()
    assert guard.replace(BOTH, AccessRules()) == {"alice"}
    assert guard.replace(ALICE, AccessRules()) == {"robot"}
    assert guard.replace(users.change_password(ALICE, "alice", "new", CHEAP), AccessRules()) == {"alice"}
    assert guard.log_in(hello("alice", "new"), "1.1.1.1", "").name == "alice"


def test_what_changed_while_a_password_was_checked_is_noticed(guard: UserGuard) -> None:
    alice = guard.log_in(hello("alice", "right"), "1.1.1.1", "")
    assert guard.still(alice)
    guard.replace(users.change_password(BOTH, "robot", "new", CHEAP), RULES)
    assert guard.still(alice)  # that was somebody else
    for known, rules in (
        (BOTH.without("alice"), RULES),
        (users.change_password(BOTH, "alice", "new", CHEAP), RULES),
        (BOTH, AccessRules()),
    ):
        guard.replace(known, rules)
        assert not guard.still(alice)
    guard.replace(BOTH, RULES)
    assert guard.still(alice)


def test_a_token_logs_in_again_also_after_a_restart_until_the_user_changes(
    tmp_path: Path,
) -> None:
    now = [1_000_000.0]

    def made(known: Users = BOTH) -> UserGuard:
        tokens = LoginTokens.kept_in(tmp_path / "data")
        return UserGuard(known, RULES, BrokerLimits(), tokens=tokens, wall=lambda: now[0])

    first = made()
    token = first.token(first.log_in(hello("alice", "right"), "10.0.0.1", ""))
    assert stat.S_IMODE((tmp_path / "data" / FILE).stat().st_mode) == 0o600

    def again(guard: UserGuard, user: str, token: str) -> bool:
        return guard.log_in_at_once(Hello(user, "", "", 0, token=token), "10.0.0.2", "") is not None

    restarted = made()
    assert again(restarted, "alice", token)
    assert not again(restarted, "robot", token), "it is of another user"
    assert not again(restarted, "alice", token[:-1] + ("0" if token[-1] != "0" else "1"))
    assert not again(restarted, "alice", f"{int(token.partition('.')[0], 16) + 1:x}.{token.partition('.')[2]}")
    assert not again(restarted, "alice", "no.token")
    changed = users.change_password(BOTH, "alice", "another password", CHEAP)
    assert not again(made(changed), "alice", token)
    assert not again(made(BOTH.without("alice")), "alice", token)
    now[0] += TOKEN_SECONDS
    assert not again(restarted, "alice", token), "it has ended"
    (tmp_path / "data" / FILE).unlink()
    now[0] -= TOKEN_SECONDS
    assert not again(made(), "alice", token), "its key is gone"
