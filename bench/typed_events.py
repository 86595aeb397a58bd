"""CPU time of an event of a type and of a message to a topic with the same selectors: `python -m bench.typed_events`.

A kernel forwarder gets PUBLISH frames in blocks and its output is taken: r subscribers want every message, and others
have filters that let none through. Alone they are at the same broker; in a network at ten neighbours, and every message
leaves by one link too. Types and topics take turns. It takes about a minute and writes results/typed_events.json.
"""

import json
import sys
import time

from bench.harness import save, table
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import DirectSink, Forwarder, NetworkShape
from tidings.model.codec import encode_frame, encode_predicate
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.model.predicate import Predicate
from tidings.protocols.native.frames import FrameType
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.hermes.event_tables import PlaneTrees

BLOCK, BLOCKS, TURNS, NEIGHBOURS = 100, 40, 5, 10
TOPIC, EVENTS, PATTERN = "trade.sale", "@type.Trade.Sale.event", "@type.Trade.Sale.>"
WANTED = Predicate.of(Constraint("price", Op.GT, 10))


def other(number: int) -> Predicate:
    low = 1000 + 2 * number  # no filter covers another
    return Predicate.of(Constraint("price", Op.GT, low), Constraint("price", Op.LT, low + 2))


class Setting:
    """One forwarder, its publisher and its subscribers."""

    def __init__(self, typed: bool, receivers: int, others: int, network: bool, types: int) -> None:
        self.forwarder = forwarder = Forwarder()
        self.topic, pattern = (EVENTS, PATTERN) if typed else (TOPIC, TOPIC)
        place = DestinationPattern.parse(pattern).constraint
        self.links: list[int] = []
        self.publisher = forwarder.open()
        forwarder.log_in(self.publisher, 1 << 20, False)
        self.readers = [self._client() for _ in range(receivers)]
        if network:
            self._join(typed, types, others)
        else:
            for number in range(others):
                self._subscribe(self.publisher, other(number).within(place))
        for reader in self.readers:
            self._subscribe(reader, WANTED.within(place))
        if typed:
            form = [("price", 1, False), ("buyer", 3, False)]
            forwarder.advertise_event(self.publisher, EVENTS, "Sale", form)
        self.count = 0

    def _client(self) -> int:
        number = self.forwarder.open()
        self.forwarder.log_in(number, 1 << 20, False)
        return number

    def _subscribe(self, connection: int, predicate: Predicate) -> None:
        number = getattr(self, "_subscriptions", 0) + 1
        self._subscriptions = number
        self.forwarder.subscribe(DirectSink(connection, number, encode_predicate(predicate)))

    def _join(self, typed: bool, types: int, others: int) -> None:
        """Each neighbour has its share of the other filters; the first also wants every message."""
        forwarder, encoding = self.forwarder, InterestEncoding()
        forwarder.join(NetworkShape(1, vectors=encoding.vectors, graded=encoding.graded))
        for neighbour in range(2, 2 + NEIGHBOURS):
            self.links.append(forwarder.open())
            forwarder.link(self.links[-1], neighbour)
        forwarder.routes({neighbour: neighbour for neighbour in range(2, 2 + NEIGHBOURS)})
        wanted = [(2, WANTED), *((2 + number % NEIGHBOURS, other(number)) for number in range(others))]
        if typed:
            trees = PlaneTrees(forwarder)
            for number in range(types):
                forwarder.event_tree(f"Type{number}", 2 + number % NEIGHBOURS, False, [], [])
            forwarder.event_tree("Sale", 0, False, [], [])
            for neighbour, filter in wanted:
                trees.wanted("Sale", neighbour, filter, on=True)
            return
        place = DestinationPattern.parse(TOPIC).constraint
        for neighbour, filter in wanted:
            forwarder.interest(neighbour, list(encoding.rows(encode_predicate(filter.within(place)))), [])

    def block(self) -> bytes:
        frames = []
        for _ in range(BLOCK):
            self.count += 1
            message = Message(
                Destination(self.topic),
                {"price": 20 + self.count % 7, "buyer": "somebody"},
                id=MessageId(1, 1, 5, self.count),
                type="Sale",
            )
            frames.append(encode_frame(FrameType.PUBLISH, bytes(4) + encode_message(message)))
        return b"".join(frames)

    def seconds(self, blocks: list[bytes]) -> float:
        """CPU time for these, and to take what comes of them."""
        forwarder, outputs = self.forwarder, [*self.readers, *self.links[:1]]
        started = time.process_time()
        for block in blocks:
            forwarder.feed_bytes(self.publisher, block, 0)
            for number in outputs:
                while forwarder.take(number, 1 << 20, 0):
                    pass
        return time.process_time() - started


def microseconds(settings: list[Setting]) -> list[float]:
    best = [float("inf")] * len(settings)
    for _ in range(TURNS):
        for number, setting in enumerate(settings):
            blocks = [setting.block() for _ in range(BLOCKS)]
            best[number] = min(best[number], setting.seconds(blocks) / (BLOCK * BLOCKS) * 1e6)
            assert setting.forwarder.events() == []
    return best


def main() -> None:
    rows = []
    for network in (False, True):
        for receivers in (1, 10):
            for others in (0, 1000, 10_000):
                types = 10_000 if network else 0
                topics, events = microseconds(
                    [Setting(typed, receivers, others, network, types) for typed in (False, True)]
                )
                rows.append(
                    {
                        "network": network,
                        "receivers": receivers,
                        "others": others,
                        "types": types,
                        "topic_us": round(topics, 3),
                        "event_us": round(events, 3),
                        "throughput": round(topics / events, 2),
                    }
                )
                print(json.dumps(rows[-1]), file=sys.stderr)
    columns = list(rows[0])
    table("microseconds of CPU time", columns, [list(row.values()) for row in rows])
    save("typed_events", {"rows": rows})


if __name__ == "__main__":
    main()
