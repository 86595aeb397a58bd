"""Who may come in and what they may do: the interface, and the one for a broker without users."""

from dataclasses import dataclass
from typing import Protocol

from tidings.node.clients.session import Principal
from tidings.node.protocol_session import Hello


class Guard(Protocol):
    """`log_in` may take long (a memory-hard hash): it runs on another thread."""

    @property
    def open(self) -> bool:
        """Everybody may come in and do everything: no need to ask."""

    def log_in(self, hello: Hello, address: str, certificate: str) -> Principal:
        """Who this is; a SecurityError if that is not proven."""

    def log_in_at_once(self, hello: Hello, address: str, certificate: str) -> Principal | None:
        """The same as far as it takes no time; None: `log_in` must say. A SecurityError if that need not be asked."""

    def proven(self, hello: Hello, address: str, certificate: str) -> bool:
        """Whether this user has logged in from this address before."""

    def still(self, principal: Principal) -> bool:
        """Whether what was so when `log_in` began is so now; asked by the thread that changes it."""


@dataclass(frozen=True, slots=True)
class Anybody:
    name: str = "anonymous"

    def may(self, operation: str, destination: str) -> bool:
        return True

    def restriction(self, destination: str, operation: str = "subscribe") -> str:
        return ""


class OpenGuard:
    """A broker without users: everybody on its listeners, which are on loopback unless told otherwise."""

    open = True

    def log_in(self, hello: Hello, address: str, certificate: str) -> Principal:
        return Anybody(hello.user or "anonymous")

    def log_in_at_once(self, hello: Hello, address: str, certificate: str) -> Principal:
        return self.log_in(hello, address, certificate)

    def proven(self, hello: Hello, address: str, certificate: str) -> bool:
        return True

    def still(self, principal: Principal) -> bool:
        return True
