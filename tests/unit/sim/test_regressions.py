"""Seeds that failed once still fail if what mended them is taken out: otherwise they no longer guard anything."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from hardening.simulate.regressions import SEEDS
from hardening.simulate.run import run

from tidings.node.mailboxes.mailbox_service import MailboxService
from tidings.node.network.relay_dedup import RelayDedup
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.tracing.recording import Tracking
from tidings.overlay.link.links import Links
from tidings.overlay.pan.machine import Pan
from tidings.routing.hermes.event_custody import Item

Break = Callable[[pytest.MonkeyPatch], None]


def without(owner: type, method: str, mended: str, before: str) -> Break:
    """A method as it was before: its source says `before` where now it says `mended`."""

    def act(monkeypatch: pytest.MonkeyPatch) -> None:
        function: Any = getattr(owner, method)
        source = textwrap.dedent(inspect.getsource(function))
        assert mended in source, f"{method} is mended otherwise now"
        made: dict[str, Any] = {}
        exec(source.replace(mended, before), function.__globals__, made)
        monkeypatch.setattr(owner, method, made[method])

    return act


def by_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for one router is sent before what waits for the next."""

    def pump(self: StoreAndForward, now_ms: int) -> None:
        for router in list(self._todo):
            hop = self._next_hops.get(router)
            link = None if hop is None else self._links.get(hop)
            while hop is not None and link is not None and (waiting := self._todo.get(router)):
                room = link.bytes < self._window_bytes
                if not room or not self._send(now_ms, hop, link, self._items[next(iter(waiting))]):
                    break

    monkeypatch.setattr(StoreAndForward, "pump", pump)


BROKEN: dict[str, Break] = {
    "publishers waited for a consumer to take one large message that only memory had": without(
        MailboxService,
        "prepare",
        "self.message_cache.pinned_bytes + len(message) >",
        "self.message_cache.pinned_bytes >",
    ),
    "messages for several routers overtook earlier ones for one of them": by_router,
    "messages overtook older ones that were still being read from the store": without(
        StoreAndForward, "forward", "if self._unread:", "if False:"
    ),
    "what was published first came unmarked after what was published again": without(
        RelayDedup, "is_new", "return self._repeats.prove_new(message_id)", "return True"
    ),
    "covering took messages by without a record of them": without(
        Tracking, "_record", "for id, to in passed:", "for id, to in []:"
    ),
    "a message sent again while the first copy was on its way to disk was kept twice": without(
        MailboxService, "accept", "message_id in dedup.under_way", "False"
    ),
    "two brokers that came back before they were missed waited for each other to join": without(
        Pan, "hear", "if self.joined or any(True for _ in self.leaves):", "if self.joined:"
    ),
    "a link was let go that only the other end needed": without(
        Links, "peer_at", "return link.peer.router if", "return None if"
    ),
    "a newcomer waited for answers to what it had asked over links that were lost": without(
        Pan, "join", "self._probed.clear()", "pass"
    ),
    "brokers waited for each other to confirm events, and their publisher's broker for all of them": without(
        Item,
        "relieves",
        "before, orphan =",
        "return [source] * (source != self.source and isinstance(source, int)); before, orphan =",
    ),
}


def test_all_are_here() -> None:
    assert BROKEN.keys() == SEEDS.keys()


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_that_failed_once_fails_without_what_mended_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BROKEN[name](monkeypatch)
    seed, forced = SEEDS[name]
    with pytest.raises(AssertionError):
        run(seed, **forced)
