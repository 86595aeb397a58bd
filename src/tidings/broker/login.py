"""Log-in of clients: proves who they are, on threads of its own where that takes a hash, and tells the engine."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tidings.broker.connection import ClientConnection
from tidings.broker.guard import Guard
from tidings.broker.logs import note
from tidings.errors import SecurityError
from tidings.node.inputs import Input, LoggedIn, LoginRefused
from tidings.node.protocol_session import Hello
from tidings.node.session import Principal

log = logging.getLogger("tidings.broker")

LOGIN_THREADS = 2  # a memory-hard hash takes tens of megabytes: so many at a time


class Login:
    """`step`: an input for the engine."""

    def __init__(self, guard: Guard, step: Callable[[Input], None]) -> None:
        self.guard = guard
        self.refused: Counter[str] = Counter()  # by code
        self._step = step
        self._pool = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="log-in")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def log_in_at_once(self, connection: ClientConnection, hello: Hello) -> None:
        """Where no users are configured."""
        principal = self.guard.log_in(hello, connection.address, "")
        self._step(LoggedIn(connection.number, hello, principal))

    async def log_in(self, connection: ClientConnection, hello: Hello) -> None:
        number, guard, shown = connection.number, self.guard, connection.certificate_name()
        try:
            work = asyncio.get_running_loop().run_in_executor(self._pool, self._prove, guard, connection, hello, shown)
            principal = await work
            if not self.guard.still(principal):
                raise SecurityError("E_ACCESS_CHANGED", "what you may do has changed; log in again", fatal=True)
        except SecurityError as error:
            self.refused[error.code] += 1
            fields = {"user": (hello.user or shown)[:100], "address": connection.address, "code": error.code}
            note(log, logging.WARNING, "log-in refused", **fields)
            if connection.number == number:
                self._step(LoginRefused(number, error))
            return
        if connection.number == number:
            self._step(LoggedIn(number, hello, principal))

    def _prove(self, guard: Guard, connection: ClientConnection, hello: Hello, certificate: str) -> Principal:
        """On a thread of the pool."""
        if connection.number < 0:  # it has gone while it waited for its turn: no need to work for it
            raise SecurityError("E_LOGIN_GONE", "the client left before it was its turn", fatal=True)
        return guard.log_in(hello, connection.address, certificate)
