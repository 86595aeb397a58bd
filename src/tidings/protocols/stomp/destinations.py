"""Names of destinations as STOMP clients write them; the kernel's twin for SEND is stomp/destination.hpp.

>>> canonical("/queue/orders", ""), canonical("/temp-queue/answers", temporary_names(3, 17))
('queue:orders', 'queue:tmp.3.17.answers')
"""

from tidings.errors import RemoteProtocolError
from tidings.model.destination import PREFIXES as NAMED

TEMPORARY = {"/temp-topic/": "topic:", "/temp-queue/": "queue:"}
PREFIXES = {prefix: ("queue:" if queue else "topic:", False) for prefix, queue in NAMED.items()}
PREFIXES |= {prefix: (kind, True) for prefix, kind in TEMPORARY.items()}


def temporary_names(broker: int, publisher: int) -> str:
    """The beginning of the names of a connection's temporary destinations."""
    return f"tmp.{broker}.{publisher}."


def is_temporary(destination: str) -> bool:
    return destination.startswith(tuple(TEMPORARY))


def canonical(destination: str, temporary: str) -> str:
    """A destination as the node writes it; `temporary`: see `temporary_names`."""
    for prefix, (kind, own) in PREFIXES.items():
        if destination.startswith(prefix):
            return kind + (temporary if own else "") + destination[len(prefix) :]
    raise RemoteProtocolError(
        "E_STOMP_DESTINATION", "a destination begins with /topic/, /queue/, /temp-topic/ or /temp-queue/"
    )
