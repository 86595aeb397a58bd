"""Records real traffic between brokers in short runs of simulated networks, as the starting point of mutations."""

from collections import defaultdict
from typing import assert_never

from hardening.simulate.choices import draw
from hardening.simulate.world import START_MS, World
from tidings.kernel.codec import encode_message
from tidings.kernel.forwarder import FRAME_HEADER_BYTES
from tidings.model.constraint import Constraint, Op
from tidings.model.destination import Destination
from tidings.model.event_type import AttributeType, EventType
from tidings.model.event_type_topics import topic_of
from tidings.model.message import Message
from tidings.model.predicate import Predicate
from tidings.node.network.link_channels import CONTROL_FRAME
from tidings.overlay import effects as fx
from tidings.overlay.link.greeting import Goodbye, Greeting, LinkPing, Pong, Refuse, Welcome
from tidings.routing.control.codec import decode
from tidings.routing.control.messages import (
    Datagram,
    FloodAck,
    FloodItem,
    FloodSummary,
    SchemeMessage,
    StoreMarks,
    Taken,
    Topic,
    VectorRequest,
    VectorUpdate,
)
from tidings.routing.hermes import codec as hermes
from tidings.routing.hermes.messages import (
    EchoEvent,
    HermesPublication,
    InterestKind,
    Settled,
    Tell,
    TypeAnswer,
    TypeRequest,
    Untell,
    Verb,
)

SHORT = 2  # a seed whose networks are small
NETWORKS: tuple[dict[str, str], ...] = (
    {"scheme": "bdrp", "overlay": "ring", "unicast": "link-state", "tracking": "bloom"},
    {"scheme": "covering-selective", "overlay": "tree", "unicast": "distance-vector", "tracking": "none"},
    {"scheme": "bdrp", "overlay": "pan", "unicast": "link-state", "tracking": "none"},
)
TOPICS = {Topic.LINKS: "links", Topic.PREDICATES: "interests"}
SCHEMES = {2: "covering", 3: "hermes", 16: "pan"}


def frames(data: bytes) -> list[tuple[int, bytes]]:
    """Type and payload of each whole frame."""
    found, at = [], 0
    while len(data) - at >= FRAME_HEADER_BYTES:
        end = at + FRAME_HEADER_BYTES + int.from_bytes(data[at : at + 4], "little")
        found.append((data[at + 4], data[at + FRAME_HEADER_BYTES : end]))
        at = end
    return found


class Heard:
    """Payloads by the name of their decoder, each once."""

    def __init__(self) -> None:
        self.payloads: dict[str, dict[bytes, None]] = defaultdict(dict)

    def trace(self, now: float, who: str, what: object) -> None:
        if isinstance(what, fx.Received) and isinstance(what.message, bytes):
            for type, payload in frames(what.message):
                if type == CONTROL_FRAME:
                    self._control(payload)

    def _control(self, payload: bytes) -> None:
        self.payloads["control"][payload] = None
        message = decode(payload)
        match message:
            case FloodItem(topic=topic, payload=inner):
                if topic in TOPICS:
                    self.payloads[TOPICS[Topic(topic)]][inner] = None
            case SchemeMessage(scheme=number, payload=inner):
                self.payloads[SCHEMES[number]][inner] = None
            case Datagram(payload=inner):
                self.payloads["tracing"][inner] = None
            case Greeting() | Welcome() | Refuse() | Goodbye() | LinkPing() | Pong() | Taken() | StoreMarks():
                pass  # of links: no payload inside
            case FloodAck() | FloodSummary() | VectorUpdate() | VectorRequest():
                pass  # of routes: no payload inside
            case _:
                assert_never(message)


def typed() -> dict[str, list[bytes]]:
    """Payloads of Hermes brokers: one of each kind."""
    chain = (
        EventType("Trade", None, {"x": AttributeType.INT}),
        EventType("Sale", "Trade", {"s": AttributeType.STRING}),
    )
    filter = Predicate.of(Constraint("x", Op.GT, 3), Constraint("s", Op.PREFIX, "ab"))
    event = encode_message(
        Message(Destination(topic_of(("Trade", "Sale"))), {"x": 5, "s": "abc"}, persistent=True, type="Sale")
    )
    said = (
        Tell("Sale", InterestKind.FILTER, filter, 18_000),
        Untell("Sale", InterestKind.TYPE, Predicate.always(), True),
        HermesPublication("Trade", True, False, True, event[4:20], event),
        Settled("Trade", event[4:20]),
        EchoEvent("Sale", 7, True),
    )
    requests = (TypeRequest(Verb.ADD, "Sale", chain), TypeRequest(Verb.USE, "Trade", (), 3))
    answers = (TypeAnswer(chain), TypeAnswer((), "E_TYPE_UNKNOWN", "there is no such type"))
    return {
        "hermes": [hermes.encode(one) for one in said],
        "requests": [hermes.encode(one) for one in requests],
        "answers": [hermes.encode(one) for one in answers],
        "types": [hermes.encode_types(chain), hermes.encode_types(chain[:1])],
    }


def heard() -> dict[str, list[bytes]]:
    """Payloads that each decoder received in runs without faults."""
    ears = Heard()
    for choices in NETWORKS:
        world = World(draw(SHORT, **choices), ears.trace)
        world.people()
        world.until(world.now + START_MS)
        world.converge("at the start")
        world.judge()
        if choices["tracking"] != "none":
            world.trace_everything()
    return {name: list(payloads) for name, payloads in ears.payloads.items()} | typed()
