"""Takes a broker out of its network in order: nothing that it was entrusted with is lost or forgotten without a count.

    no new clients ──► consumers finish what waits ──► clients are asked to move ──► interests are withdrawn
                                                          ──► messages in transit are passed on ──► the process ends

Each step but the last two ends early, when nothing is left for it to do, and at the latest when a third of the time is
over. What remains then is in the store and counted in `state`.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from tidings.broker.logs import note
from tidings.broker.server import Broker
from tidings.node.inputs import LeaveNetwork

log = logging.getLogger("tidings.process")
CODE = "E_MOVED"
LOOK_SECONDS = 0.05
SPREAD_SECONDS = 1.0  # until other brokers know that nothing is to be sent here
LINGER_SECONDS = 1.5  # with the last state, for whoever asks
SHOWN_MAX = 100  # mailboxes


class Phase(Enum):
    FINISHING = "consumers finish what waits"
    MOVING = "clients are asked to move"
    PASSING_ON = "messages in transit are passed on"
    LEFT = "left"


class Leaving:
    """Of one broker; `stop` ends its process."""

    def __init__(self, broker: Broker, stop: Callable[[], None]) -> None:
        self._broker, self._stop = broker, stop
        self._phase: Phase | None = None
        self._moved = 0

    def state(self) -> dict[str, Any]:
        view = self._broker.view()
        network = view.engine.network()
        boxes = view.engine.mailboxes
        waiting = {name: len(box.backlog) + box.unacknowledged for name, box in boxes.items() if box.durable}
        left = sorted(((count, name) for name, count in waiting.items() if count), reverse=True)
        return {
            "phase": "" if self._phase is None else self._phase.value,
            "left": self._phase is Phase.LEFT,
            "clients": len(view.clients.connections),
            "moved": self._moved,
            "in_transit": 0 if network is None else network.in_transit,
            "waiting": sum(count for count, _ in left),
            "mailboxes": [{"name": name, "waiting": count} for count, name in left[:SHOWN_MAX]],
        }

    def begin(self, seconds: float) -> None:
        """Once; a second call changes nothing."""
        if self._phase is None:
            self._phase = Phase.FINISHING
            self._broker.tasks.spawn(self._leave(seconds / 3))

    async def _leave(self, seconds_each: float) -> None:
        broker = self._broker
        note(log, logging.INFO, "leaving the network")
        broker.ready, broker.clients.closed = False, True
        for listening in broker.listening:
            listening.close()
        await self._until(lambda: not self._consumed(), seconds_each)
        self._phase = Phase.MOVING
        self._moved = broker.clients.end_all(CODE, "this broker leaves its network: connect to another one")
        broker.clients.after()
        await self._until(lambda: not broker.clients.connections, seconds_each)
        self._phase = Phase.PASSING_ON
        broker.step(LeaveNetwork())
        broker.clients.after()
        await asyncio.sleep(SPREAD_SECONDS)
        await self._until(lambda: not self.state()["in_transit"] and broker.engine.view.idle, seconds_each)
        self._phase = Phase.LEFT
        left, waiting = (self.state()[name] for name in ("in_transit", "waiting"))
        note(log, logging.INFO, "left the network", moved=self._moved, in_transit=left, waiting=waiting)
        await asyncio.sleep(LINGER_SECONDS)
        self._stop()

    def _consumed(self) -> int:
        """Messages that wait for a connected consumer."""
        boxes = self._broker.engine.view.mailboxes.values()
        return sum(len(box.backlog) + box.unacknowledged for box in boxes if box.consumers)

    async def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition() and time.monotonic() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
