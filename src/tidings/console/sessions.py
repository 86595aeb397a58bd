"""Sessions of the console. The brokers authenticate: the console logs in to them as the user, and keeps no users.

Brokers without users require no login: then everybody who reaches the console shares one session. Which case applies
shows when the console first connects, and once more whenever a broker turns that session away.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tidings.broker.security.login_throttle import Throttle
from tidings.console.source import BrokerLogin, Source
from tidings.console.watch import BrokerWatch
from tidings.errors import ConnectionLostError, SecurityError, TidingsError

IDLE_SECONDS = 30 * 60.0
SESSIONS_MAX = 200
MakeSources = Callable[[BrokerLogin], Sequence[Source]]


@dataclass(eq=False, slots=True)
class ConsoleSession:
    """One user of the console. What a pane was last set to is remembered in `chosen`."""

    user: str
    watch: BrokerWatch
    used_at: float = field(default_factory=time.monotonic)
    ended: bool = False
    chosen: dict[str, object] = field(default_factory=dict)


class Sessions:
    def __init__(self, make_sources: MakeSources, login: BrokerLogin) -> None:
        self._make_sources = make_sources
        self._login = login  # TLS, and perhaps a user for everybody
        self._by_token: dict[str, ConsoleSession] = {}
        self._shared: ConsoleSession | None = None
        self._closed = False  # the brokers require a login
        self._opening = asyncio.Lock()
        self._throttle = Throttle(failures_max=4)
        self._tasks: set[asyncio.Task[None]] = set()

    async def find(self, token: str) -> ConsoleSession | None:
        """The session of a cookie; without one, the one that is everybody's if the brokers have no users."""
        session = self._by_token.get(token) or await self._everybodys()
        if session is not None:
            now = time.monotonic()
            idle = session is not self._shared and now - session.used_at > IDLE_SECONDS
            if idle or session.watch.refused is not None:
                self._end(session)
                return None
            session.used_at = now
        return session

    async def _everybodys(self) -> ConsoleSession | None:
        async with self._opening:
            if self._shared is None and not self._closed:
                session = ConsoleSession(self._login.user, BrokerWatch(self._make_sources(self._login)))
                await session.watch.look()
                if session.watch.refused is not None:
                    self._closed = True
                    await session.watch.stop()
                else:
                    session.watch.start()
                    self._shared = session
            return self._shared

    async def log_in(self, user: str, password: str, address: str) -> str:
        """The token of a new session; an error says why not."""
        now = time.monotonic()
        wait = self._throttle.wait_seconds(now, user, address)
        if wait > 0:
            raise SecurityError("E_LOGIN_THROTTLED", f"too many failed logins; try again in {max(1, round(wait))} s")
        self._forget_idle(now)
        watch = BrokerWatch(self._make_sources(BrokerLogin(user, password, self._login.tls)))
        await watch.look()
        if watch.refused is not None or not user:
            self._throttle.failed(now, user, address)
            await watch.stop()
            raise watch.refused or SecurityError("E_LOGIN", "user and password do not fit, or are missing")
        if not any([await _lets_in(source) for source in watch.sources]):
            await watch.stop()
            raise ConnectionLostError("E_CONNECTION_LOST", "no broker can be reached; try again once one is running")
        self._throttle.succeeded(user, address)
        watch.start()
        token = secrets.token_urlsafe(32)
        self._by_token[token] = ConsoleSession(user, watch)
        return token

    def shares(self, session: ConsoleSession) -> bool:
        """True if the session is shared by everybody, so that nobody can log out of it."""
        return session is self._shared

    def log_out(self, token: str) -> None:
        if (session := self._by_token.get(token)) is not None:
            self._end(session)

    async def close(self) -> None:
        sessions = [*self._by_token.values(), *([] if self._shared is None else [self._shared])]
        self._by_token.clear()
        await asyncio.gather(*(session.watch.stop() for session in sessions))

    def _end(self, session: ConsoleSession) -> None:
        session.ended = True
        if session is self._shared:
            self._shared, self._closed = None, True
        self._by_token = {token: one for token, one in self._by_token.items() if one is not session}
        task = asyncio.get_running_loop().create_task(session.watch.stop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _forget_idle(self, now: float) -> None:
        by_age = sorted(self._by_token.values(), key=lambda session: session.used_at)
        too_many = len(by_age) - SESSIONS_MAX + 1
        for number, session in enumerate(by_age):
            if number < too_many or now - session.used_at > IDLE_SECONDS:
                self._end(session)


async def _lets_in(source: Source) -> bool:
    try:
        return (await source.client()).connected
    except (OSError, TidingsError):
        return False
