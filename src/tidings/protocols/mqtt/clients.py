"""The MQTT clients of a broker by client id: at most one connection has an id [MQTT-3.1.4-3]."""

from typing import Protocol


class TakenOver(Protocol):
    """A connection that can be taken over."""

    def take_over(self) -> None: ...


class MqttClients:
    """Shared by all MQTT connections of a broker. An id is its user's: others cannot take a client over with it."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[str, str], TakenOver] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def enter(self, user: str, client_id: str, client: TakenOver) -> None:
        """Make this connection the client's, and end the one before."""
        before = self._by_id.get((user, client_id))
        self._by_id[user, client_id] = client
        if before is not None:
            before.take_over()

    def leave(self, user: str, client_id: str, client: TakenOver) -> None:
        if self._by_id.get((user, client_id)) is client:
            del self._by_id[user, client_id]
