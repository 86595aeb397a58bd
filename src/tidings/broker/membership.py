"""Changes of a running broker's place in its network: peers, brokers that are forgotten, and leaving."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tidings.broker.config import peer_changes
from tidings.broker.config.network import PeerTable
from tidings.broker.leaving import Leaving
from tidings.broker.server import Broker
from tidings.broker.startup import Startup
from tidings.errors import StoreError, TidingsError, UsageError
from tidings.model.destination import Destination
from tidings.node.inputs import ForgetBroker, ReleaseHeld
from tidings.node.view import NetworkView


class Membership:
    """`startup`: the files as they are in force; `apply`: read them again and let their peers, with the changes made
    here, take effect; `stop`: end the process."""

    def __init__(
        self,
        broker: Broker,
        startup: Callable[[], Startup],
        apply: Callable[[], Awaitable[None]],
        stop: Callable[[], None],
    ) -> None:
        self._broker, self._startup, self._apply = broker, startup, apply
        self._leaving = Leaving(broker, stop)

    def network(self) -> NetworkView:
        found = self._broker.view().engine.network()
        if found is None:
            raise UsageError("E_NO_NETWORK", "this broker has no network; configure [network] and restart it")
        return found

    def peers(self) -> list[dict[str, Any]]:
        """Those that are dialled or described, and those that are linked all the same."""
        links = self.network().links
        found = [
            {
                "address": peer.address,
                "router": peer.router,
                "cost": peer.cost,
                "linked": peer.router in links,
                "dials": not peer.address,
            }
            for peer in self._startup().configuration.network.peers
        ]
        named = {one["router"] for one in found}
        others = (router for router in links if router not in named)
        return found + [{"address": "", "router": one, "cost": 0, "linked": True, "dials": True} for one in others]

    async def add_peer(self, peer: PeerTable) -> None:
        if peer.router == self.network().router:
            raise UsageError("E_PEER_SELF", f"{peer.router} is this broker's own id")
        await self._change(lambda changes, configured: changes.with_added(peer, configured))

    async def remove_peer(self, text: str) -> None:
        self.network()
        await self._change(lambda changes, configured: changes.with_removed(text, configured))

    async def _change(
        self, change: Callable[[peer_changes.PeerChanges, peer_changes.Peers], peer_changes.PeerChanges]
    ) -> None:
        """All or nothing: what cannot be written or applied is taken back."""
        startup = self._startup()
        data = Path(startup.configuration.broker.data)
        if startup.configuration.network.overlay == "pan":
            raise UsageError("E_PEER_OVERLAY", "under overlay pan brokers choose their peers themselves")
        before = peer_changes.load(data)
        after = change(before, startup.file_peers)
        try:
            peer_changes.save(data, after)
        except OSError as error:
            raise StoreError("E_PEERS_WRITE", f"{data / peer_changes.FILE} cannot be written ({error})") from None
        try:
            await self._apply()
        except TidingsError:
            peer_changes.save(data, before)
            raise

    def forget(self, router: int, queue: str) -> dict[str, Any]:
        """Answers how many messages were dropped, or are being moved to the queue."""
        before = self.network()
        if router not in before.interests and router not in before.awaited:
            raise UsageError("E_BROKER_UNKNOWN", f"this broker remembers nothing of broker {router}")
        if router in before.routes:
            raise UsageError("E_BROKER_REACHABLE", f"broker {router} can be reached: stop it first")
        target = Destination.parse(queue if queue.startswith("queue:") else f"queue:{queue}") if queue else None
        self._broker.step(ForgetBroker(router, target))
        self._broker.clients.after()
        after = self.network()
        dropped = after.copies_abandoned - before.copies_abandoned
        moved = 0 if target is None else before.awaited.get(router, 0)
        return {"forgotten": router, "dropped": dropped, "moved": moved}

    def release_held(self) -> dict[str, Any]:
        """Give what is held since the store was replaced to the subscribers there are now."""
        held = self.network().copies_held
        if not held:
            raise UsageError("E_NOTHING_HELD", "this broker holds no messages since its store was replaced")
        self._broker.step(ReleaseHeld())
        self._broker.clients.after()
        return {"released": held}

    def leave(self, seconds: float) -> dict[str, Any]:
        self.network()
        self._leaving.begin(seconds)
        return self._leaving.state()

    def leaving(self) -> dict[str, Any]:
        self.network()
        return self._leaving.state()
