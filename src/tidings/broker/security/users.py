"""Reads and writes the users file: names, password hashes and groups of the users that may log in.

    [alice]
    password = "scrypt$n=32768,r=8,p=3$…$…"     # absent: alice logs in by certificate only
    groups = ["traders"]

The file is written as a whole to another name and renamed, so a reader sees the old one or the new one; only its owner
may read it. Once it exists, only users in it may log in, even if it is empty: removing the last user must not open the
broker to everyone.
"""

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tidings.broker.config.load import parse_toml
from tidings.broker.config.toml_positions import lines_of
from tidings.broker.security.passwords import Cost, PasswordHash, hash_password
from tidings.errors import ConfigError, UsageError
from tidings.segments.durable import sync_directory

FILE_BYTES_MAX = 16 << 20
NAME = re.compile(r"[A-Za-z0-9_@.+-]{1,64}")
_HEADER = "# Written by `tidings user`; a running broker reads it again on SIGHUP.\n"


@dataclass(frozen=True, slots=True, repr=False)
class User:
    name: str
    password: str = ""  # its hash; empty: none fits
    groups: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"User({self.name!r})"


@dataclass(frozen=True, slots=True)
class Users:
    by_name: Mapping[str, User]

    def get(self, name: str) -> User | None:
        return self.by_name.get(name)

    def __len__(self) -> int:
        return len(self.by_name)

    def with_user(self, user: User) -> "Users":
        return Users({**self.by_name, user.name: user})

    def without(self, name: str) -> "Users":
        return Users({one: user for one, user in self.by_name.items() if one != name})


def check_name(name: str, what: str = "a user's name") -> str:
    if not NAME.fullmatch(name):
        raise UsageError("E_USER_NAME", f"{what} has 1 to 64 letters, digits or _ @ . + -, unlike {name[:70]!r}")
    return name


def load(path: Path) -> Users:
    """The users in the file; a ConfigError lists its problems, without password hashes."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        directory = isinstance(error, IsADirectoryError)
        remedy = "name a file" if directory else "add a user with `tidings user add`"
        raise ConfigError([f"{path}: cannot be read ({error.strerror}); {remedy}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{path}: not UTF-8; write it with `tidings user`"]) from None
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError([f"{path}: longer than {FILE_BYTES_MAX} bytes; this is not a users file"])
    document = parse_toml(text, str(path))
    problems: list[tuple[str, str]] = []
    users = {name: _user(name, table, problems) for name, table in document.items()}
    if problems:
        lines = lines_of(text)
        raise ConfigError([f"{path}:{lines[(name,)]}: {name[:70]}: {problem}" for name, problem in problems])
    return Users(users)


def _user(name: str, table: object, problems: list[tuple[str, str]]) -> User:
    def wrong(problem: str) -> None:
        problems.append((name, problem))

    if not NAME.fullmatch(name):
        wrong("not a user's name; use letters, digits and _ @ . + -")
    if not isinstance(table, dict):
        wrong(f"not a table; write [{name[:70]}]")
        return User(name)
    for key in table:
        if key not in ("password", "groups"):
            wrong(f"{key[:70]}: unknown key; known keys: password, groups")
    password, groups = table.get("password", ""), table.get("groups", [])
    try:
        if password != "":
            PasswordHash.parse(password if isinstance(password, str) else "")
    except UsageError as error:
        wrong(f"password: {error.reason}; set it with `tidings user passwd {name[:70]}`")
    if not isinstance(groups, list) or not all(isinstance(group, str) and NAME.fullmatch(group) for group in groups):
        wrong('groups: not a list of names; write groups = ["name"]')
        groups = []
    return User(name, password if isinstance(password, str) else "", frozenset(groups))


def edit(path: Path, change: Callable[[Users], Users]) -> None:
    """Change the file's current content; concurrent edits wait for each other, so that none is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems of other machines lock no directories
            fcntl.flock(directory, fcntl.LOCK_EX)
        save(path, change(load(path) if path.exists() else Users({})))
    finally:
        os.close(directory)


def save(path: Path, users: Users) -> None:
    """Replace the file, durably and as a whole; mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=path.name, suffix=".new", dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(_HEADER + "".join(_table(user) for _, user in sorted(users.by_name.items())))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def _table(user: User) -> str:
    # Names and hashes are of characters that need no escape.
    lines = [f'\n["{user.name}"]']
    if user.password:
        lines.append(f'password = "{user.password}"')
    if user.groups:
        lines.append("groups = [" + ", ".join(f'"{group}"' for group in sorted(user.groups)) + "]")
    return "\n".join(lines) + "\n"


def add(users: Users, name: str, password: str | None, groups: frozenset[str], cost: Cost | None = None) -> Users:
    """The users with a new one, who without a password logs in by certificate only."""
    check_name(name)
    for group in groups:
        check_name(group, "a group's name")
    if users.get(name) is not None:
        raise UsageError("E_USER_EXISTS", f"user {name} exists already; change the password with `tidings user passwd`")
    return users.with_user(User(name, "" if password is None else hash_password(password, cost), groups))


def change_password(users: Users, name: str, password: str, cost: Cost | None = None) -> Users:
    return users.with_user(replace(known(users, name), password=hash_password(password, cost)))


def change_groups(users: Users, name: str, groups: frozenset[str]) -> Users:
    for group in groups:
        check_name(group, "a group's name")
    return users.with_user(replace(known(users, name), groups=groups))


def known(users: Users, name: str) -> User:
    user = users.get(name)
    if user is None:
        raise UsageError("E_USER_UNKNOWN", f"there is no user {name[:70]!r}; add one with `tidings user add`")
    return user
