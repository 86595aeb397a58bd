"""The simulated side of a pair: a lone broker of the simulator."""

import time
from random import Random
from typing import Any

from hardening.differential.paired import PING, FrameLog
from tidings.node.settings import NodeSettings
from tidings.node.view import View
from tidings.overlay import effects as fx
from tidings.protocols.native.frames import RawFrame
from tidings.sim.broker import SimBroker, Sizes
from tidings.sim.client import SimClient
from tidings.sim.host import Host

DISK_ORDER = ("resolve", "read", "write", "written")  # in which what is under way comes to an end


class _LoggedClient(SimClient):
    """A simulated client that keeps the frames it is sent, whatever they are."""

    def __init__(self, number: int, life: int) -> None:
        super().__init__(number, life)
        self.log = FrameLog()

    def receive(self, data: bytes, now: float) -> None:
        self.log.receive(data)


class SimulatedBroker:
    """A lone broker of the simulator. The disk's timers ring when it settles; no other time passes."""

    def __init__(self, settings: NodeSettings | None = None, sizes: Sizes | None = None) -> None:
        self._now = time.time() * 1000
        self._settings, self._sizes, self._host = settings or NodeSettings(), sizes, Host()
        self._timers: list[fx.SetTimer] = []
        self._clients: list[_LoggedClient] = []
        self._broker = self._start()

    @property
    def view(self) -> View:
        return self._broker.engine.view

    def open(self) -> int:
        client = self._broker.open(self._now, _LoggedClient)
        assert isinstance(client, _LoggedClient)
        self._clients.append(client)
        return len(self._clients) - 1

    def send(self, connection: int, data: bytes) -> None:
        if self.is_open(connection):
            self._carry_out(self._broker.send(self._now, self._clients[connection], data))

    def settle(self) -> None:
        self._ring_disk()
        for _ in range(2):
            for number, client in enumerate(self._clients):
                if client.log.welcome:
                    self.send(number, PING)
            self._ring_disk()

    def frames(self, connection: int) -> list[RawFrame]:
        return self._clients[connection].log.take()

    def is_open(self, connection: int) -> bool:
        client = self._clients[connection]
        return self._broker.clients.get(client.number) is client

    def disconnect(self, connection: int) -> None:
        self._carry_out(self._broker.disconnect(self._now, self._clients[connection]))

    def tick(self) -> None:
        self._carry_out(self._broker.step(self._now, fx.Timer("tick")))

    def restart(self) -> None:
        self._broker = self._start()

    def stop(self) -> None:
        """There is nothing to stop."""

    def _start(self) -> SimBroker:
        broker = SimBroker(None, self._host, 1, Random(1), self._sizes, self._settings)
        self._carry_out(broker.start(self._now))
        return broker

    def _ring_disk(self) -> None:
        while self._timers:
            self._timers.sort(key=lambda one: (DISK_ORDER.index(one.name), one.at))
            timer = self._timers.pop(0)
            self._now = max(self._now, timer.at)
            self._carry_out(self._broker.step(self._now, fx.Timer(timer.name)))

    def _carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            assert isinstance(effect, fx.SetTimer), f"a lone broker has no use for {effect}"
            if effect.name != "tick":
                self._timers.append(effect)
