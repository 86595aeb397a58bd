"""Authentication and authorization interface, and the open guard used when no users are configured."""

from dataclasses import dataclass
from typing import Protocol

from tidings.node.clients.session import Principal
from tidings.node.protocol_session import Hello


class Guard(Protocol):
    """`log_in` may take long (a memory-hard hash): it runs on another thread."""

    @property
    def open(self) -> bool:
        """True if every client has full access."""

    def log_in(self, hello: Hello, address: str, certificate: str) -> Principal:
        """The authenticated user; a SecurityError if authentication fails."""

    def log_in_at_once(self, hello: Hello, address: str, certificate: str) -> Principal | None:
        """The same without expensive work; None: `log_in` must decide. A SecurityError if it would refuse anyway."""

    def proven(self, hello: Hello, address: str, certificate: str) -> bool:
        """True if this user has logged in from this address before."""

    def token(self, principal: Principal) -> str:
        """With which this user can log in again without expensive work; empty: none is needed."""

    def still(self, principal: Principal) -> bool:
        """True if entry and rules of the user are unchanged since `log_in` began; called by the thread that changes
        them."""


@dataclass(frozen=True, slots=True)
class Anybody:
    name: str = "anonymous"

    def may(self, operation: str, destination: str) -> bool:
        return True

    def restriction(self, destination: str, operation: str = "subscribe") -> str:
        return ""


class OpenGuard:
    """The guard of a broker without users: every client has full access. Its listeners are on loopback by default."""

    open = True

    def log_in(self, hello: Hello, address: str, certificate: str) -> Principal:
        return Anybody(hello.user or "anonymous")

    def log_in_at_once(self, hello: Hello, address: str, certificate: str) -> Principal:
        return self.log_in(hello, address, certificate)

    def proven(self, hello: Hello, address: str, certificate: str) -> bool:
        return True

    def token(self, principal: Principal) -> str:
        return ""

    def still(self, principal: Principal) -> bool:
        return True
