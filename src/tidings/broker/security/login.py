"""Authenticates clients and reports the result to the engine.

Certificates and recently verified passwords are checked at once. Other passwords wait in a queue (`login_queue`)
for one of a few threads, because each takes a memory-hard hash.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from tidings.broker.links.addresses import prefix_of
from tidings.broker.log_rate_limit import LogRateLimit
from tidings.broker.security.access import GroupMember
from tidings.broker.security.audit import Audit
from tidings.broker.security.guard import Guard
from tidings.broker.security.login_queue import LoginQueue
from tidings.errors import SecurityError
from tidings.node.clients.session import Principal
from tidings.node.inputs import EndClient, Input, LoggedIn, LoginRefused
from tidings.node.protocol_session import Hello

log = logging.getLogger("tidings.broker")

LOGIN_THREADS = 2  # checks at a time: a memory-hard hash takes tens of megabytes
CHECK_SECONDS = 0.2  # estimate for one check, until it was measured


class LoginClient(Protocol):
    """The part of a connection that its login uses."""

    number: int  # negative: it is gone
    address: str
    protocol: str

    def certificate_name(self) -> str: ...


@dataclass(slots=True, eq=False)
class _Waiting:
    connection: LoginClient
    number: int  # of the connection, as long as it is there
    hello: Hello
    certificate: str

    @property
    def gone(self) -> bool:
        return self.connection.number != self.number


class Login:
    """`step`: an input for the engine. `spawn`: work for the event loop."""

    def __init__(
        self,
        guard: Guard,
        step: Callable[[Input], None],
        spawn: Callable[[Coroutine[None, None, None]], None],
        lines: LogRateLimit,
    ) -> None:
        self.guard = guard
        self.refused: Counter[str] = Counter()  # by code
        self._step, self._spawn, self._lines = step, spawn, lines
        self.audit = Audit(lines)
        self._pool = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="login")
        self._queue = LoginQueue[_Waiting]()
        self._free = LOGIN_THREADS
        self._check_seconds = CHECK_SECONDS
        self._expiring: list[tuple[float, int, int, LoginClient]] = []  # a heap: logins by token
        self._logins = count()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Logins that wait for a password check."""
        return len(self._queue)

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def tick(self, now_s: float) -> None:
        """About once a second: end connections whose token has expired."""
        while self._expiring and self._expiring[0][0] <= now_s:
            _, _, number, connection = heappop(self._expiring)
            if connection.number == number:
                self._step(EndClient(number, "E_TOKEN_EXPIRED", "the token has expired; log in with a new one"))

    def log_in(self, connection: LoginClient, hello: Hello) -> None:
        """The answer is an input for the engine: at once, or when the password is checked."""
        certificate = "" if self.guard.open else connection.certificate_name()
        one = _Waiting(connection, connection.number, hello, certificate)
        if self._answered_at_once(one):
            return
        proven = self.guard.proven(hello, connection.address, certificate)
        shed = self._queue.put(one, prefix_of(connection.address), proven=proven)
        if shed is not None:
            seconds = max(1, round(len(self._queue) * self._check_seconds / LOGIN_THREADS))
            reason = f"too many logins wait for a password check; try again in {seconds} s"
            self._refuse(shed, SecurityError("E_LOGIN_BUSY", reason, fatal=True))
        self._check_next()

    def _answered_at_once(self, one: _Waiting) -> bool:
        try:
            principal = self.guard.log_in_at_once(one.hello, one.connection.address, one.certificate)
        except SecurityError as error:
            self._refuse(one, error)
            return True
        if principal is not None:
            self._accept(one, principal)
        return principal is not None

    def _check_next(self) -> None:
        """Give free threads work. Others may have logged in meanwhile, or failed, so each is first looked at again."""
        while self._free and not self._closed and (one := self._queue.take()) is not None:
            if not one.gone and not self._answered_at_once(one):
                self._free -= 1
                self._spawn(self._check(one))

    async def _check(self, one: _Waiting) -> None:
        loop, began = asyncio.get_running_loop(), time.perf_counter()
        given = one.hello, one.connection.address, one.certificate
        try:
            principal = await loop.run_in_executor(self._pool, self.guard.log_in, *given)
            self._queue.judged(prefix_of(one.connection.address), right=True)
            if not self.guard.still(principal):
                raise SecurityError("E_ACCESS_CHANGED", "the access rules have changed; log in again", fatal=True)
            self._accept(one, principal)
        except SecurityError as error:
            if error.code == "E_LOGIN":
                self._queue.judged(prefix_of(one.connection.address), right=False)
            self._refuse(one, error)
        finally:
            self._check_seconds += (time.perf_counter() - began - self._check_seconds) / 8
            self._free += 1
            self._check_next()

    def _accept(self, one: _Waiting, principal: Principal) -> None:
        if not one.gone:
            if isinstance(principal, GroupMember) and principal.expires_s:
                heappush(self._expiring, (principal.expires_s, next(self._logins), one.number, one.connection))
            self.audit.login(principal.name, one.connection.address, one.connection.protocol)
            self._step(LoggedIn(one.number, one.hello, principal, self.guard.token(principal)))

    def _refuse(self, one: _Waiting, error: SecurityError) -> None:
        self.refused[error.code] += 1
        user = (one.hello.user or one.certificate)[:100]
        self._lines.note(log, logging.WARNING, "login refused", one.connection.address, user=user, code=error.code)
        self.audit.login_refused(user, one.connection.address, one.connection.protocol, error.code)
        if not one.gone:
            self._step(LoginRefused(one.number, error))
