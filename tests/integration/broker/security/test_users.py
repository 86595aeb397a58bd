import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.security import users
from tidings.broker.security.passwords import Cost, verify
from tidings.broker.security.users import NAME, User, Users
from tidings.errors import ConfigError, UsageError

CHEAP = Cost(n=2, r=1, p=1)
NAMES = st.from_regex(NAME, fullmatch=True)
USERS = st.builds(
    User,
    NAMES,
    st.sampled_from(["", "scrypt$n=2,r=1,p=1$AAAA$AAAA"]),
    st.frozensets(NAMES, max_size=3),
)


@given(st.lists(USERS, max_size=5))
def test_what_is_saved_is_loaded(tmp_path_factory: pytest.TempPathFactory, some: list[User]) -> None:
    path = tmp_path_factory.getbasetemp() / "users" / "users.toml"
    wanted = Users({user.name: user for user in some})
    users.save(path, wanted)
    assert users.load(path) == wanted
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_what_is_saved_outlasts_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "users.toml", []
    monkeypatch.setattr(os, "fsync", lambda file: seen.append((stat.S_ISDIR(os.fstat(file).st_mode), path.exists())))
    users.save(path, Users({}))
    assert seen == [(False, False), (True, True)]  # the file, then its name


def test_add_change_remove() -> None:
    known = users.add(Users({}), "alice", "one", frozenset({"traders"}), CHEAP)
    assert verify("one", known.by_name["alice"].password)
    changed = users.change_password(known, "alice", "two", CHEAP)
    assert verify("two", changed.by_name["alice"].password)
    assert changed.by_name["alice"].groups == {"traders"}
    assert len(changed.without("alice")) == 0
    with pytest.raises(UsageError, match="E_USER_EXISTS"):
        users.add(known, "alice", "x", frozenset(), CHEAP)
    for name in ("", "a b", "a/b", "x" * 65, "ä", '"'):
        with pytest.raises(UsageError, match="E_USER_NAME"):
            users.add(known, name, "x", frozenset(), CHEAP)
    with pytest.raises(UsageError, match="E_USER_UNKNOWN"):
        users.change_password(known, "bob", "x", CHEAP)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1", "users.toml:1: a: not a table"),
        ("\n['a b']", "users.toml:2: a b: not a user's name"),
        ("[a]\npassword = 'secret'", "users.toml:1: a: password: not a hash"),
        ("[a]\npassword = 1", "users.toml:1: a: password: not a hash"),
        ("[a]\npasswort = ''", "users.toml:1: a: passwort: unknown key; known keys: password, groups"),
        ("[a]\ngroups = 'x'", "users.toml:1: a: groups: not a list of names"),
        ("[a]\ngroups = [['x']]", "users.toml:1: a: groups: not a list of names"),
        ("[a", "users.toml:1: not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_without_showing_secrets(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        users.load(path)
    assert problem in caught.value.problems[0]
    assert "secret" not in str(caught.value)


def test_a_missing_file_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tidings user add"):
        users.load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"Is a directory\); name a file"):
        users.load(tmp_path)


def test_a_users_file_may_begin_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text("[alice]\n", encoding="utf-8-sig")
    assert users.load(path).get("alice") is not None
