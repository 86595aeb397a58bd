"""Messages for a broker that was forgotten, moved to a queue of this broker.

    waiting for the router ──load──► copy for the queue ──on disk──► in the queue, and gone from where it waited

A message is moved once it is in memory; others are read from the store meanwhile. Its end and its place in the queue
are in different batches: after a crash between them it waits again, and stays in the queue too. A router that can be
reached again gets its messages as before.
"""

from collections.abc import Container

from tidings.errors import TidingsError
from tidings.kernel.codec import altered, decode_message, encode_message
from tidings.model.destination import Destination
from tidings.node.completions import MoveWaiting
from tidings.node.mailboxes.dead_letters import marked
from tidings.node.mailboxes.journal import Journal
from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.overlay.effects import Router

FORGOTTEN = "its broker was forgotten"
MOVE_MAX = 256  # in one turn


class Diversions:
    def __init__(self, store_and_forward: StoreAndForward, service: MailboxService, journal: Journal) -> None:
        self.moved = 0
        self._store_and_forward, self._service, self._journal = store_and_forward, service, journal
        self._queues: dict[Router, Destination] = {}
        self._refused = False  # since the last tick

    def __contains__(self, router: Router) -> bool:
        return router in self._queues

    def divert(self, router: Router, queue: Destination) -> None:
        """Move what waits for the router, or still comes from the store, to the queue, which is made if needed."""
        self._service.mailboxes.queue(queue, may_make=True)
        self._queues[router] = queue

    def reachable(self, routers: Container[Router]) -> None:
        for router in [router for router in self._queues if router in routers]:
            del self._queues[router]

    def tick(self) -> None:
        """About once a second: what the store refused is tried again."""
        self._refused = False

    def settle(self) -> None:
        """Once a turn: move what is in memory."""
        if self._refused:
            return
        for router, queue in self._queues.items():
            for seq, message, expires_ms in self._store_and_forward.take_waiting(router, MOVE_MAX):
                try:
                    moved = encode_message(altered(marked(decode_message(message), FORGOTTEN), destination=queue))
                    mailbox = self._service.mailboxes.queue(queue, may_make=True)
                except TidingsError:  # no more mailboxes: it waits as before
                    self._refused = True
                    self._store_and_forward.wait_again(seq, router)
                    return
                offer = self._service.prepare(moved, [mailbox], expires_ms)
                self._journal.then(MoveWaiting(seq, router, offer))

    def finish(self, move: MoveWaiting, error: TidingsError | None) -> None:
        if error is not None:
            self._refused = True
            self._service.abandon(move.offer)
            self._store_and_forward.wait_again(move.seq, move.router)
            return
        self._service.offer(*move.offer)
        self._store_and_forward.arrived_elsewhere(move.seq, move.router)
        self.moved += 1
