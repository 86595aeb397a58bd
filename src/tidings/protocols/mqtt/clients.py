"""The MQTT clients of a broker by client id: at most one connection has an id [MQTT-3.1.4-3]."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from tidings.protocols.mqtt.outgoing import Unfinished

AWAY_MAX = 10_000  # clients of which is remembered what they were sent


class TakenOver(Protocol):
    """A connection that can be taken over."""

    def take_over(self, then: Callable[[], None]) -> None:
        """End it, and call `then` when the broker has released what was its own."""


class MqttClients:
    """Shared by all MQTT connections of a broker. An id is its user's: others cannot take a client over with it."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[str, str], TakenOver] = {}
        self._away: OrderedDict[tuple[str, str], Unfinished] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def enter(self, user: str, client_id: str, client: TakenOver, then: Callable[[], None]) -> None:
        """Make this connection the client's, end the one before, and then go on."""
        before = self._by_id.get((user, client_id))
        self._by_id[user, client_id] = client
        if before is None:
            then()
        else:
            before.take_over(then)

    def leave(self, user: str, client_id: str, client: TakenOver, unfinished: Unfinished | None) -> None:
        key = user, client_id
        if unfinished is not None:
            self._away[key] = unfinished
            self._away.move_to_end(key)
            if len(self._away) > AWAY_MAX:
                self._away.popitem(last=False)
        if self._by_id.get(key) is client:
            del self._by_id[key]

    def take_unfinished(self, user: str, client_id: str) -> Unfinished:
        """Take out the unanswered messages of the client's last connection."""
        return self._away.pop((user, client_id), None) or Unfinished({}, [])
