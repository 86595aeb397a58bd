"""Confirms that every broker that can be reached has the interests of this one in its tables: `wait="network"`.

    wait ──► own interests are advertised ──► InterestQuestion to each broker that can be reached
                                                   │ answered once that broker's tables have them
                                                   ▼
                                              all have answered: confirmed

Interests are advertised by the reliable flood, so a question names versions, and every later version is an answer too.
Datagrams may be lost with a link: what is not answered is asked again every second. A broker that cannot be reached any
more is not waited for; one that can be reached meanwhile is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.errors import CodecError, TidingsError, UsageError
from tidings.model.destination import MORE_LEVELS, DestinationPattern
from tidings.model.event_type_topics import ROOT
from tidings.model.reader import Reader, put_varint
from tidings.node.network.datagrams import INTEREST_KINDS
from tidings.node.network.network import Network
from tidings.overlay.effects import Router
from tidings.routing.bdrp.parts import part_of
from tidings.routing.control.messages import Version

INTEREST_QUESTION, INTEREST_ANSWER = INTEREST_KINDS
PATIENCE_MS = 30_000.0
QUESTIONS_MAX = 4096  # of other brokers, that are not answered yet
_U64 = 2**64 - 1

Versions: TypeAlias = Mapping[int, Version]  # of advertisements, by topic of the flood
Confirm: TypeAlias = Callable[[TidingsError | None], None]


@dataclass(slots=True)
class _Round:
    versions: Versions
    waiting: list[Confirm]
    deadline: float
    asked: set[Router] = field(default_factory=set)
    answered: set[Router] = field(default_factory=set)


class InterestSpread:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._fresh: list[tuple[float, Confirm]] = []  # not advertised yet
        self._rounds: dict[int, _Round] = {}
        self._questions: dict[tuple[Router, int], Versions] = {}  # of other brokers
        self._next = 1

    def check(self, destination: str) -> None:
        """Raises UsageError if interests in a destination are not such that other brokers could confirm them."""
        settings = self._network.settings
        pattern = DestinationPattern.parse(destination)
        if pattern.queue:
            raise UsageError("E_WAIT_NETWORK", "wait=network is for topics: other brokers need not know of a consumer")
        if settings.kind.carries:
            reason = f"under {settings.scheme} brokers know interests of neighbours only, so none can confirm for all"
            raise UsageError("E_WAIT_NETWORK", reason)
        first = pattern.name.partition(".")[0]
        if settings.kind.typed and first in (MORE_LEVELS, "*", ROOT.rstrip(".")):
            reason = f"under {settings.scheme} trees of event types are not confirmed by every broker: name a topic"
            raise UsageError("E_WAIT_NETWORK", reason)

    def wait(self, then: Confirm) -> None:
        """`then`: once all interests that there are now are known everywhere, or (an error) were not in time."""
        self._fresh.append((self._network.clock.now + PATIENCE_MS, then))

    def settle(self) -> None:
        """The end of a turn, after interests were passed to the routing scheme."""
        letters = self._network.datagrams.take(INTEREST_KINDS)
        for source, payload in letters:
            self._heard(source, payload)
        if self._fresh and self._network.scheme.announced:
            self._begin()
        if self._questions:
            self._answer()

    def tick(self) -> None:
        """About once a second."""
        now = self._network.clock.now
        for number, one in list(self._rounds.items()):
            one.asked.clear()  # ask again
            self._ask(number, one)
            if number in self._rounds and one.deadline <= now:
                del self._rounds[number]
                self._give_up(one)

    # --- this broker's interests ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        flood = self._network.flood
        versions = {
            topic: flood.version(topic, flood.router) for topic in flood.published if part_of(topic) is not None
        }
        fresh, self._fresh = self._fresh, []
        number, self._next = self._next, self._next + 1
        one = _Round(versions, [then for _, then in fresh], max(deadline for deadline, _ in fresh))
        self._rounds[number] = one
        self._ask(number, one)

    def _ask(self, number: int, one: _Round) -> None:
        """Ask whoever is missing; end the round if nobody is."""
        missing = set(self._network.unicast.reachable()) - one.answered
        if not missing:
            del self._rounds[number]
            for then in one.waiting:
                then(None)
            return
        for router in missing - one.asked:
            if self._network.datagrams.post(router, _encode(INTEREST_QUESTION, number, one.versions)):
                one.asked.add(router)

    def _give_up(self, one: _Round) -> None:
        missing = ", ".join(map(str, sorted(set(self._network.unicast.reachable()) - one.answered)))
        reason = f"not confirmed within {PATIENCE_MS / 1000:g} s by broker {missing}; the subscription was ended"
        for then in one.waiting:
            then(TidingsError("E_WAIT_NETWORK_TIMEOUT", reason))

    # --- letters ----------------------------------------------------------------------------------------------------

    def _heard(self, source: Router, payload: bytes) -> None:
        """From another broker; what cannot be read is as good as lost."""
        try:
            kind, number, versions = _decode(payload)
        except CodecError:
            return
        if kind == INTEREST_QUESTION:
            self._questions[source, number] = versions
            while len(self._questions) > QUESTIONS_MAX:
                del self._questions[next(iter(self._questions))]
        elif (one := self._rounds.get(number)) is not None:
            one.answered.add(source)
            self._ask(number, one)

    def _answer(self) -> None:
        """Answer questions about interests that the tables have by now."""
        network = self._network
        if not network.scheme.applied:
            return
        for (source, number), versions in list(self._questions.items()):
            known = all(network.flood.version(topic, source) >= version for topic, version in versions.items())
            if known and network.datagrams.post(source, _encode(INTEREST_ANSWER, number, {})):
                del self._questions[source, number]


def _encode(kind: int, number: int, versions: Versions) -> bytes:
    """
    >>> _decode(_encode(INTEREST_QUESTION, 7, {2: Version(1000, 5)}))
    (3, 7, {2: Version(incarnation=1000, sequence=5)})
    """
    out = bytearray((kind,))
    put_varint(out, number)
    put_varint(out, len(versions))
    for topic, version in versions.items():
        for one in (topic, *version):
            put_varint(out, one)
    return bytes(out)


def _decode(data: bytes) -> tuple[int, int, dict[int, Version]]:
    reader = Reader(data, family="CONTROL")
    kind, number = reader.byte(), reader.varint(_U64)
    versions = {}
    for _ in range(reader.count()):
        topic = reader.varint(_U64)
        versions[topic] = Version(reader.varint(_U64), reader.varint(_U64))
    reader.finish("the message")
    return kind, number, versions
