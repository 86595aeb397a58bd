"""The guard of a broker with users: passwords, client certificates, throttling, access rules."""

import os
import time
from collections.abc import Callable
from threading import Lock

from tidings.broker.security.access import AccessRules, GroupMember
from tidings.broker.security.jwt_login import JwtVerifier, TokenUser, is_token, refused
from tidings.broker.security.known_passwords import KnownPasswords
from tidings.broker.security.login_throttle import Throttle
from tidings.broker.security.login_tokens import LoginTokens
from tidings.broker.security.passwords import HASH_BYTES, SALT_BYTES, Cost, PasswordHash
from tidings.broker.security.users import User, Users
from tidings.errors import SecurityError
from tidings.node.clients.session import Principal
from tidings.node.limits import BrokerLimits
from tidings.node.protocol_session import Hello


class UserGuard:
    """`log_in` runs on other threads; what the tables hold is replaced as a whole by `replace`."""

    open = False

    def __init__(
        self,
        users: Users,
        rules: AccessRules,
        limits: BrokerLimits,
        *,
        tokens: LoginTokens | None = None,
        jwt: JwtVerifier | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.users = users
        self.rules = rules
        self.jwt = jwt
        self.throttled = 0
        self._clock, self._wall = clock, wall
        self._tokens = tokens or LoginTokens()
        self._lock = Lock()
        self._throttle = Throttle()
        self._known = KnownPasswords()
        self._nobody = _nobodys(users)
        self.limit(limits)

    def limit(self, limits: BrokerLimits) -> None:
        throttle = self._throttle
        throttle.failures_max = limits.login_failures_max
        throttle.lock_seconds = limits.login_lock_seconds
        throttle.lock_seconds_max = limits.login_lock_seconds_max

    def replace(self, users: Users, rules: AccessRules) -> frozenset[str]:
        """Replace users and rules; returns the users whose entry or rules have changed."""
        old, old_rules = self.users, self.rules
        self.users, self.rules, self._nobody = users, rules, _nobodys(users)
        with self._lock:
            self._known.forget()
        return frozenset(
            name
            for name in old.by_name.keys() | users.by_name.keys()
            if old.get(name) != users.get(name)
            or _concerning(old_rules, old.get(name)) != _concerning(rules, users.get(name))
        )

    def log_in(self, hello: Hello, address: str, certificate: str) -> Principal:
        """The authenticated user. A wrong password and an unknown user get the same error after the same work."""
        name = hello.user or certificate
        with self._lock:
            self._check_throttle(name, address)
        if self.jwt is not None and is_token(hello.password):
            return self._bearer(self.jwt, hello, address)
        user = self._proven(name, hello, certificate)
        with self._lock:
            if user is None:
                self._throttle.failed(self._clock(), name, address)
            else:
                self._throttle.succeeded(name, address)
                self._known.remember(self._clock(), user, hello.password)
        if user is None:
            raise SecurityError("E_LOGIN", "unknown user or wrong password", fatal=True)
        return self._member(user)

    def _bearer(self, jwt: JwtVerifier, hello: Hello, address: str) -> Principal:
        """The user of a token. A name beside it must be the same; a token that was forged counts as a failed login."""
        try:
            user = jwt.verify(hello.password)
            if hello.user not in ("", user.name):
                raise refused("it belongs to a different user than the name given with it")
        except SecurityError:
            with self._lock:
                self._throttle.failed(self._clock(), hello.user, address)
            raise
        with self._lock:
            self._throttle.succeeded(hello.user, address)
        return self._holder(user)

    def _holder(self, user: TokenUser) -> GroupMember:
        return GroupMember(user.name, self.rules.concerning(user.name, user.groups), user, user.expires_s)

    def log_in_at_once(self, hello: Hello, address: str, certificate: str) -> Principal | None:
        """Authenticate without a hash: by certificate, token or recently verified password. `log_in` judges all
        others."""
        name = hello.user or certificate
        user = self.users.get(name)
        with self._lock:
            self._check_throttle(name, address)
            known = self._known.fits(self._clock(), name, user, hello.password)
            if user is None or not (known or _is_certified(name, hello, certificate) or self._has_token(user, hello)):
                return None
            self._throttle.succeeded(name, address)
        return self._member(user)

    def _has_token(self, user: User, hello: Hello) -> bool:
        return bool(hello.token) and self._tokens.fits(self._wall(), user, hello.token)

    def token(self, principal: Principal) -> str:
        user = self.users.get(principal.name)
        by_password = isinstance(principal, GroupMember) and isinstance(principal.entry, User)
        return self._tokens.make(self._wall(), user) if user is not None and by_password else ""

    def proven(self, hello: Hello, address: str, certificate: str) -> bool:
        with self._lock:
            return self._throttle.is_proven(hello.user or certificate, address)

    def _check_throttle(self, name: str, address: str) -> None:
        wait = self._throttle.wait_seconds(self._clock(), name, address)
        if wait > 0:
            self.throttled += 1
            reason = f"too many failed logins; try again in {max(1, round(wait))} s"
            raise SecurityError("E_LOGIN_THROTTLED", reason, fatal=True)

    def _member(self, user: User) -> GroupMember:
        return GroupMember(user.name, self.rules.concerning(user.name, user.groups), user)

    def still(self, principal: Principal) -> bool:
        """True if the user's entry and rules have not changed during its login, which takes a while."""
        user = self.users.get(principal.name)
        if isinstance(principal, GroupMember) and isinstance(entry := principal.entry, TokenUser):
            return self.jwt is not None and principal.rules == self.rules.concerning(entry.name, entry.groups)
        if user is None or not isinstance(principal, GroupMember):
            return False
        return principal.entry == user and principal.rules == _concerning(self.rules, user)

    def _proven(self, name: str, hello: Hello, certificate: str) -> User | None:
        user = self.users.get(name)
        if _is_certified(name, hello, certificate):
            return user
        stored = PasswordHash.parse(user.password) if user is not None and user.password else None
        try:
            fits = (stored or self._nobody).fits(hello.password)
        except (MemoryError, ValueError):  # OpenSSL's way to say that there is no memory
            raise SecurityError(
                "E_LOGIN_BUSY", "not enough memory to check the password; try again later", fatal=True
            ) from None
        return user if stored is not None and fits else None


def _is_certified(name: str, hello: Hello, certificate: str) -> bool:
    """True if the user is authenticated by certificate alone."""
    return bool(certificate) and certificate == name and not hello.password


def _concerning(rules: AccessRules, user: User | None) -> AccessRules | None:
    return None if user is None else rules.concerning(user.name, user.groups)


def _nobodys(users: Users) -> PasswordHash:
    """The hash that passwords of unknown users are checked against: it matches none, and costs as much as others."""
    costs = [PasswordHash.parse(user.password).cost for user in users.by_name.values() if user.password]
    cost = max(costs, key=lambda cost: cost.n * cost.r * cost.p, default=Cost())
    return PasswordHash(cost, os.urandom(SALT_BYTES), os.urandom(HASH_BYTES))
