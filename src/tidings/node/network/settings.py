"""Settings of a broker's place in a network."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidings.errors import UsageError
from tidings.kernel.forwarder import NetworkShape
from tidings.node.network.held_copies import EmptyStoreOptions
from tidings.node.network.pan_links import PanSettings
from tidings.overlay.effects import Router
from tidings.overlay.link.greeting import Greeting
from tidings.overlay.link.machine import LinkOptions
from tidings.routing.bdrp.interests import InterestEncoding
from tidings.routing.bdrp.scheme import BdrpOptions
from tidings.routing.control.flood import FloodOptions
from tidings.routing.covering.policies import POLICIES
from tidings.routing.covering.selective import SelectiveOptions
from tidings.routing.hermes import HermesOptions
from tidings.routing.registry import SCHEMES, SchemeKind

Dials: TypeAlias = tuple[tuple[str, Router | None], ...]
UNICASTS = ("link-state", "distance-vector")
UNSYNCHRONISED = ("hold", "refuse", "confirm")


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Must be the same everywhere: network, unicast, scheme, encoding, hops_max, and under Hermes the interval of
    refreshes. The rest may differ from broker to broker."""

    router: Router
    network: str = "tidings"
    dials: Dials = ()  # address, and the router expected there
    unicast: str = "link-state"
    scheme: str = "bdrp"
    encoding: InterestEncoding = field(default_factory=InterestEncoding)
    broadcast_above: int = 0
    hops_max: int = 32
    costs: Mapping[Router, int] = field(default_factory=dict)  # of links; others cost their measured latency in 0.1 ms
    authenticate: bool = False  # ask the driver whether a peer is who it says
    backlog_bytes_max: int = 8 << 20  # of one link
    push_back: bool = False  # publishers at other brokers wait for slow subscribers and full links here
    far_bytes_max: int = 64 << 20  # of other brokers that a full queue takes until these have heard of it
    in_vain_max: float = 1.0  # share of copies; beyond it what is encoded and to blame is advertised exactly
    window_bytes: int = 1 << 20  # of persistent messages that a peer has not acknowledged
    link: LinkOptions = field(default_factory=LinkOptions)
    flood: FloodOptions = field(default_factory=FloodOptions)
    bdrp: BdrpOptions = field(default_factory=BdrpOptions)
    policy: str = "selective"  # of covering: what becomes of covered subscriptions
    advertise: tuple[str, ...] = (">",)  # of covering: topics that clients of this broker may publish to
    merge: bool = False  # of covering: what clients of this broker ask for, joined where the union is one filter
    merge_in_vain_max: float = 0.0  # of covering: share of what a merged filter lets through
    cover_advertisements: bool = False  # of covering: neighbours are not told of advertisements that others cover
    selective: SelectiveOptions = field(default_factory=SelectiveOptions)  # of covering with that policy
    awaits_peers: bool = False  # other brokers are expected, so one that knows none has yet to hear of them
    unsynchronised: str = "confirm"  # what becomes of persistent messages until then: hold, refuse, confirm
    hermes: HermesOptions = field(default_factory=HermesOptions)
    empty_store: EmptyStoreOptions = field(default_factory=EmptyStoreOptions)
    pan: PanSettings | None = None  # links are made as Pan decides; None: only those of `dials`

    def __post_init__(self) -> None:
        if not 0 < self.router < 2**32:
            raise UsageError("E_ROUTER", f"{self.router} is not a router's number: 1 to {2**32 - 1}")
        if self.unicast not in UNICASTS:
            raise UsageError("E_UNICAST", f"there is no unicast protocol {self.unicast!r}")
        if self.scheme not in SCHEMES:
            raise UsageError("E_SCHEME", f"there is no routing scheme {self.scheme!r}")
        if self.kind.needs_map and self.unicast != "link-state":
            raise UsageError("E_SCHEME", f"{self.scheme} needs the map that only link-state unicast has")
        if self.kind.typed and self.pan is None:
            raise UsageError("E_SCHEME", f"{self.scheme} needs the overlay pan")
        if self.encoding.keyless and self.scheme != "bdrp":
            raise UsageError("E_SCHEME", f"under {self.scheme} every broker must know interests: only bdrp can relay")
        if self.unsynchronised not in UNSYNCHRONISED:
            raise UsageError("E_UNSYNCHRONISED", f"{self.unsynchronised} is not one of {', '.join(UNSYNCHRONISED)}")
        if self.policy not in POLICIES:
            raise UsageError("E_COVERING_POLICY", f"{self.policy} is not one of {', '.join(POLICIES)}")

    @property
    def kind(self) -> SchemeKind:
        return SCHEMES[self.scheme]

    def greeting(self, incarnation: int) -> Greeting:
        same = [
            ("hops_max", str(self.hops_max)),
            ("overlay", "static" if self.pan is None else "pan"),
            ("scheme", self.scheme),
            ("unicast", self.unicast),
            *self.encoding.parameters(),
        ]
        if self.kind.typed:  # who says things again less often would be forgotten by the others meanwhile
            same.append(("refresh_ms", f"{self.hermes.refresh_ms:g}"))
        return Greeting(self.network, self.router, incarnation, parameters=tuple(sorted(same)))

    def shape(self) -> NetworkShape:
        encoding = self.encoding.encoding
        return NetworkShape(
            self.router,
            self.kind.by_neighbour,
            self.kind.carries,
            self.broadcast_above,
            self.hops_max,
            self.backlog_bytes_max,
            self.far_bytes_max if self.push_back else 0,
            self.encoding.vectors,
            encoding.bits,
            encoding.hashes,
            encoding.key,
            self.encoding.graded,
        )
