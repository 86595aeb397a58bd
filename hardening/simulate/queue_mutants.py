"""Seeded defects in queues of the network: the simulation of them must notice each."""

from typing import Any

from hardening.simulate.planting import Method, Mutant
from tidings.node.network_queues.channel import QueueChannel, QueueFrame
from tidings.node.network_queues.forwarding import QueueForwarder
from tidings.node.network_queues.home_side import HomeSide
from tidings.node.network_queues.homes import QueueHomes
from tidings.node.network_queues.records import HomeDelivery

QUEUES = {"world": "queues"}


def _as_new(original: Method) -> Method:
    def put(self: QueueChannel, record: Any) -> None:
        if isinstance(record, HomeDelivery):
            record = HomeDelivery(record.attachment, record.tag, 0, record.message)
        original(self, record)

    return put


def _never_again(original: Method) -> Method:
    return lambda self, now: []


def _any_number(original: Method) -> Method:
    def arrived(self: QueueChannel, frame: QueueFrame, now: float) -> Any:
        self._received = max(frame.number - 1, 0) if frame.number else self._received
        return original(self, frame, now)

    return arrived


def _forgotten(original: Method) -> Method:
    def lose(self: HomeSide, peer: Any) -> None:
        del self._peers[peer.router]

    return lose


def _highest(original: Method) -> Method:
    return lambda self, name: self._router if name in self.claimed else original(self, name)


def _unmarked(original: Method) -> Method:
    def deliver(self: QueueForwarder, now_ms: int, attempts: list[int], tags: list[int], messages: list[bytes]) -> None:
        original(self, now_ms, [1] * len(attempts), tags, messages)

    return deliver


QUEUE_MUTANTS = (
    Mutant(
        "home-unmarked",
        "the home says of all deliveries that they are the first",
        QueueChannel,
        "put",
        _as_new,
        choices=QUEUES,
    ),
    Mutant(
        "frames-once",
        "frames that were lost are not sent again",
        QueueChannel,
        "tick",
        _never_again,
        seed=11,
        choices=QUEUES,
    ),
    Mutant("frames-twice", "repeated frames are taken again", QueueChannel, "arrived", _any_number, choices=QUEUES),
    Mutant(
        "broker-kept",
        "consumers of a lost broker keep what they have",
        HomeSide,
        "_lose",
        _forgotten,
        seed=8,
        choices=QUEUES,
    ),
    Mutant(
        "homes-apart", "a broker that has claimed a queue stays its home", QueueHomes, "home", _highest, choices=QUEUES
    ),
    Mutant(
        "merged-unmarked",
        "what a former home gave out moves as new",
        QueueForwarder,
        "deliver",
        _unmarked,
        choices=QUEUES,
    ),
)
