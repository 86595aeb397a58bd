"""Messages that a routing scheme carries itself (`routing.scheme.Carrier`): they enter here, or it brings them.

Under a scheme that knows types these are the persistent events. All others go by the plane's tables.
"""

from collections.abc import Callable
from typing import cast

from tidings.errors import TidingsError
from tidings.model.predicate import Predicate
from tidings.node.completions import ConfirmHandOver
from tidings.node.encoded_message import expires_ms_of
from tidings.node.network.copy_numbers import CopyNumbers
from tidings.node.network.event_custody import EventCustody
from tidings.node.network.link_channels import LinkChannels, LinkClock
from tidings.node.network.settings import NetworkSettings
from tidings.node.network.store_and_forward import StoreAndForward
from tidings.node.plane import NetworkPlane
from tidings.overlay.effects import Router
from tidings.routing.effects import Effect, HandOver, Report
from tidings.routing.scheme import Carrier, EventCarrier, Scheme


class SchemeForwarding:
    """`carry_out`: what the scheme asks for."""

    def __init__(
        self,
        scheme: Scheme,
        settings: NetworkSettings,
        clock: LinkClock,
        plane: NetworkPlane,
        wires: LinkChannels,
        store_and_forward: StoreAndForward,
        event_custody: EventCustody,
        carry_out: Callable[[list[Effect]], None],
    ) -> None:
        self.events = cast("EventCarrier", scheme) if settings.kind.typed else None
        self.carrier = cast("Carrier", scheme) if settings.kind.carries else None
        self.linked = self.events or self.carrier  # whoever wants to hear of links
        self.handed: list[HandOver] = []  # messages that it brought for subscribers here
        self.passed: list[tuple[bytes, Router | None]] = []  # ids of messages: came, or went to a neighbour
        self._settings, self._clock, self._plane, self._channels = settings, clock, plane, wires
        self._store_and_forward, self._event_custody, self._carry_out = store_and_forward, event_custody, carry_out
        self._refused = "", b""  # with which code events are refused by the store, and the tag of the last one

    def enter(self, now_ms: int, message: bytes, connection: int | None) -> None:
        """A message enters here that is not persistent."""
        if self.carrier is None:
            self._plane.enter(message, now_ms, connection)
        else:
            self._carry_out(self.carrier.publish(self._clock.now, message))

    def congested(self, share: float) -> bool:
        """True if a link that a Carrier fills has more waiting for it than this share of what may wait."""
        limit = self._settings.backlog_bytes_max * share
        return self.carrier is not None and any(
            self._plane.link_waiting(peer) >= limit for peer in self._channels.peers
        )

    def advertise(self, made: bool, predicate: Predicate) -> bool:
        """A client here will publish such messages, or will no longer; whether the scheme uses that."""
        if self.carrier is None:
            return False
        change = self.carrier.advertise if made else self.carrier.unadvertise
        self._carry_out(change(self._clock.now, predicate))
        return True

    def typed(self, ask: Callable[["EventCarrier", float], list[Effect]]) -> None:
        """Ask something of a scheme that knows types."""
        assert self.events is not None
        self._carry_out(ask(self.events, self._clock.now))

    def settle(self, now_ms: int) -> None:
        """The end of a turn: persistent events go, and what came is handed over, by the wall clock."""
        if self.events is not None:
            for message in self._event_custody.take(now_ms):
                self._carry_out(self.events.post(self._clock.now, message))
        handed, self.handed = self.handed, []
        for one in handed:
            self._hand_over(now_ms, one)

    def take_passed(self) -> list[tuple[bytes, Router | None]]:
        passed, self.passed = self.passed, []
        return passed

    def _hand_over(self, now_ms: int, one: HandOver) -> None:
        """To subscribers here. If a persistent event cannot be stored, the broker it came from keeps it."""
        if one.tag:
            here, until_ms = CopyNumbers(0, 0, True, {self._settings.router: 0}), expires_ms_of(one.message)
            self._store_and_forward.relayed(now_ms, 0, here, until_ms, one.message, ConfirmHandOver(one.type, one.tag))
        else:
            self._store_and_forward.deliver(now_ms, one.message)

    def complete(self, handed: ConfirmHandOver, error: TidingsError | None) -> None:
        """A persistent event is safe here, or (`error`) could not be stored."""
        type, tag = handed
        if error is None:
            self.typed(lambda events, now: events.handed(now, type, tag))
            if self._refused[0] and self._refused[1] == tag:
                self._refused = "", b""
                self._carry_out([Report("STORED", "events are stored again")])
            return
        self.typed(lambda events, now: events.refused(now, type, tag))
        if error.code != self._refused[0]:  # once, however many they are and however often they are tried
            told = f"an event of type {type!r} could not be stored, others may follow: {error.reason}"
            self._carry_out([Report(error.code, told)])
        self._refused = error.code, tag
