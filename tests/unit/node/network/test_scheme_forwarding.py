"""Events that a scheme brought: handed over, or refused by the store."""

from typing import Any

from tidings.errors import StoreError, TidingsError
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.node.completions import ConfirmHandOver
from tidings.node.network.link_channels import LinkClock
from tidings.node.network.pan_links import PanSettings
from tidings.node.network.scheme_forwarding import SchemeForwarding
from tidings.node.network.settings import NetworkSettings
from tidings.routing.effects import Effect, HandOver, Report

MESSAGE = encode_message(Message(Destination("ticks"), {}, persistent=True))
FULL = StoreError("E_STORE_FULL", "no space")


class _Scheme:
    def handed(self, now: float, name: str, tag: bytes) -> list[Effect]:
        return []

    refused = handed


class _NoEvents:
    def take(self, now_ms: int) -> list[bytes]:
        return []


class _Transit:
    """Stores nothing until it is asked how that went."""

    def __init__(self) -> None:
        self.completions: list[ConfirmHandOver] = []

    def relayed(self, *given: Any) -> None:
        self.completions.append(given[-1])


def test_events_that_a_full_store_refuses_are_one_line_of_the_log() -> None:
    store_and_forward: Any = _Transit()
    scheme: Any = _Scheme()
    post: Any = _NoEvents()
    unused: Any = None
    settings, told = NetworkSettings(1, scheme="hermes", pan=PanSettings("")), list[Effect]()
    scheme_forwarding = SchemeForwarding(
        scheme, settings, LinkClock(), unused, unused, store_and_forward, post, told.extend
    )

    def hand_over(tag: bytes, error: TidingsError | None) -> None:
        scheme_forwarding.handed.append(HandOver(MESSAGE, tag, "tick"))
        scheme_forwarding.settle(0)
        scheme_forwarding.complete(store_and_forward.completions.pop(), error)

    for _ in range(3):
        hand_over(b"1", FULL)
        hand_over(b"2", FULL)
        hand_over(b"3", None)  # for nobody who needs a disk
    hand_over(b"2", StoreError("E_STORE_IO", "broken"))
    hand_over(b"1", None)
    hand_over(b"2", None)
    hand_over(b"4", FULL)
    codes = [one.code for one in told if isinstance(one, Report)]
    assert codes == ["E_STORE_FULL", "E_STORE_IO", "STORED", "E_STORE_FULL"]
