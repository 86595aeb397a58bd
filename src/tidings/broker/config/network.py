"""The configuration tables [network] and [[network.peers]], and the settings built from them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tidings.broker.config.schema_reader import setting
from tidings.broker.links.links import GATHER_MS, SECRET_BYTES_MIN, LinkSettings, Peers
from tidings.broker.security.tls import link_contexts
from tidings.errors import ConfigError
from tidings.kernel.matrix import BITS_MAX
from tidings.matching.categories import PlainGrade
from tidings.matching.encoding import HASHES_MAX, Encoding
from tidings.matching.graded import GradedGrade
from tidings.node.network.held_copies import EmptyStoreOptions, EmptyStorePolicy
from tidings.node.network.pan_links import PanSettings
from tidings.node.network.settings import UNICASTS, UNSYNCHRONISED, NetworkSettings
from tidings.overlay.link.machine import LinkOptions
from tidings.routing.bdrp.interests import InterestEncoding, key_proof
from tidings.routing.bdrp.scheme import BdrpOptions
from tidings.routing.covering.policies import POLICIES
from tidings.routing.covering.selective import SelectiveOptions
from tidings.routing.hermes import HermesOptions
from tidings.routing.registry import SCHEMES
from tidings.routing.unicast.protocol import COST_MAX

OVERLAYS = ("static", "pan")
CONGESTIONS = ("drop", "push-back")
ENCODINGS = ("graded", "elements", "vectors", "graded-vectors")
_ENCODING, _LINK = Encoding(), LinkOptions()
_NETWORK = NetworkSettings(router=1)
_SELECTIVE = SelectiveOptions()


@dataclass(frozen=True, slots=True)
class PeerTable:
    address: str = setting(
        "",
        "host:port to dial, or a list of the addresses of processes that stand in for each other, tried in turn; "
        "empty: the peer dials, and this table only describes it",
        reload=True,
        several=True,
    )
    router: int = setting(0, "its broker.id; 0: any broker that answers", minimum=0, maximum=0xFFFF_FFFF, reload=True)
    certificate_name: str = setting("", "the common name of its certificate; empty: broker-<id>", reload=True)
    delay_ms: float = setting(
        0.0,
        "artificial delay of output to this peer, to try out a wide-area network on one machine",
        minimum=0,
        maximum=60_000,
        reload=True,
    )
    bandwidth_bytes_s: int = setting(
        0,
        "bandwidth of the link in each direction; the console shows the load as a share of it; 0: not known",
        minimum=0,
        reload=True,
    )
    cost: int = setting(
        0,
        "cost of the link in routing; 0: its measured latency in units of 0.1 ms",
        minimum=0,
        maximum=COST_MAX,
        reload=True,
    )


@dataclass(frozen=True, slots=True)
class NetworkTable:
    name: str = setting("", "the network that this broker belongs to; empty: none")
    accept: bool = setting(True, "accept links from other brokers; false: this broker only dials")
    host: str = setting("127.0.0.1", "the address on which links are accepted")
    port: int = setting(7301, "the port for links; 0: chosen by the system", minimum=0, maximum=65535)
    secret_file: str = setting(
        "", f"a file with the network's shared secret, at least {SECRET_BYTES_MIN} bytes; peers prove that they know it"
    )
    certificate: str = setting(
        "",
        "this broker's certificate for links (PEM): links then use TLS and peers must present theirs; switching it on "
        "or off takes a restart",
        reload=True,
        switch=True,
    )
    key: str = setting("", "its private key (PEM); empty: the key is in the certificate's file", reload=True)
    ca: str = setting("", "the authority that signs brokers' certificates (PEM)", reload=True, switch=True)
    insecure: bool = setting(False, "without secret and certificates: accept links from anyone that can reach the port")
    overlay: str = setting(
        "static",
        "how links are chosen: static: by [[network.peers]]; pan: by the brokers themselves; the same on every broker",
        choices=OVERLAYS,
    )
    join: str = setting(
        "", "with pan: host:port of the links of any broker of the network; empty: this is the first broker"
    )
    address: str = setting("", "with pan: host:port at which other brokers reach this one; empty: host and port")
    unicast: str = setting(_NETWORK.unicast, "the unicast routing protocol; the same on every broker", choices=UNICASTS)
    routing: str = setting(_NETWORK.scheme, "the routing scheme; the same on every broker", choices=tuple(SCHEMES))
    policy: str = setting(
        _NETWORK.policy, "with covering: how covered subscriptions are handled", choices=tuple(POLICIES)
    )
    advertise: tuple[str, ...] = setting(
        lambda: _NETWORK.advertise, "with covering: topic patterns that clients of this broker may publish to"
    )
    merge: bool = setting(
        _NETWORK.merge, "with covering: merge subscriptions of this broker whose union is a single filter"
    )
    merge_in_vain_max: float = setting(
        _NETWORK.merge_in_vain_max,
        "with merge: share of what a merged filter lets through that may be in vain, so that filters are merged whose "
        "union is none; 0: only perfect mergers",
        minimum=0,
        maximum=0.9,
    )
    cover_advertisements: bool = setting(
        _NETWORK.cover_advertisements, "with covering: do not tell neighbours of advertisements that others cover"
    )
    pruning_phi: float = setting(
        _SELECTIVE.phi,
        "with the policy selective: similarity of traffic from which a subscription is preserved instead of replaced; "
        "1 less it bounds the share of publications in vain",
        minimum=0,
        maximum=1,
    )
    pruning_count_small: int = setting(
        _SELECTIVE.count_small,
        "likewise: nothing is preserved if no publication met more brokers with other subscribers to it",
        minimum=0,
        maximum=1 << 20,
    )
    pruning_window_ms: float = setting(
        _SELECTIVE.window_age_ms, "likewise: the age to which deliveries are remembered", minimum=1, maximum=1e10
    )
    pruning_window_size: int = setting(
        _SELECTIVE.window_size_max, "likewise: the most deliveries that are remembered", minimum=1, maximum=1 << 30
    )
    pruning_bucket_depth: float = setting(
        _SELECTIVE.bucket_depth,
        "likewise: publications in vain in a row after which a preserved subscription goes",
        minimum=0,
        maximum=1e9,
    )
    refresh_ms: float = setting(
        _NETWORK.hermes.refresh_ms,
        "with hermes: interval at which brokers repeat their interests; the same on every broker",
        minimum=500,
        maximum=6e5,
    )
    encoding: str = setting("graded", "encoding of interests; the same on every broker", choices=ENCODINGS)
    encoding_bits: int = setting(_ENCODING.bits, "bits of a vector, a multiple of 64", minimum=64, maximum=BITS_MAX)
    encoding_hashes: int = setting(
        _ENCODING.hashes, "hash functions per element of a vector", minimum=1, maximum=HASHES_MAX
    )
    encoding_pieces_max: int = setting(
        GradedGrade().pieces_max, "pieces of a range, with graded encodings", minimum=1, maximum=64
    )
    encoding_alternatives_max: int = setting(
        _ENCODING.alternatives_max,
        "rows into which one conjunction is expanded, for example for the values of IN; beyond that it is widened",
        minimum=1,
        maximum=4096,
    )
    encoding_exact: bool = setting(
        True,
        "advertise subscriptions by their exact filters; false: everything is encoded, as in the B-DRP paper, and "
        "messages come in vain where that loses something",
    )
    in_vain_max: float = setting(
        _NETWORK.in_vain_max,
        "with encoding_exact = false: share of the copies from other brokers that may come in vain; above it the "
        "subscriptions to blame are advertised by their exact filters. 1: no bound",
        minimum=0,
        maximum=1,
    )
    encoding_key_file: str = setting(
        "",
        f"a file whose bytes, {SECRET_BYTES_MIN} or more, key the encoding: without it interests cannot be read",
    )
    relay_only: bool = setting(
        False, "run without the encoding key: forwards for other brokers, but its own clients reach no other broker"
    )
    broadcast_above: int = setting(
        _NETWORK.broadcast_above,
        "broadcast a message with more destinations than this; 0: never",
        minimum=0,
        maximum=65536,
    )
    hops_max: int = setting(
        _NETWORK.hops_max,
        "maximum number of links that a message crosses; the same on every broker: linked brokers that differ warn",
        minimum=1,
        maximum=255,
    )
    heartbeat_ms: float = setting(
        _LINK.heartbeat_ms,
        "interval between heartbeats; after six without an answer a link is down",
        minimum=10,
        maximum=6e5,
    )
    redial_ms_max: float = setting(
        _LINK.backoff_max_ms, "maximum interval between two connection attempts", minimum=10, maximum=6e5
    )
    gather_ms: float = setting(
        GATHER_MS,
        "maximum time that messages on a busy link wait to be sent together; 0: not at all",
        minimum=0,
        maximum=1000,
    )
    backlog_bytes_max: int = setting(
        _NETWORK.backlog_bytes_max,
        "bytes queued for one link before publishers are throttled",
        minimum=1 << 16,
        maximum=1 << 40,
    )
    congestion: str = setting(
        "drop",
        "messages that are not persistent, for a full link or a slow subscriber with policy push-back: drop: those of "
        "other brokers are dropped and counted; push-back: publishers there wait, along the whole path",
        choices=CONGESTIONS,
    )
    far_bytes_max: int = setting(
        _NETWORK.far_bytes_max,
        "with congestion push-back: bytes that a full queue takes of other brokers until their publishers wait; beyond "
        "that they are dropped and counted",
        minimum=1 << 16,
        maximum=1 << 40,
    )
    window_bytes: int = setting(
        _NETWORK.window_bytes,
        "unacknowledged persistent messages in flight to one peer, in bytes",
        minimum=1 << 10,
        maximum=1 << 40,
    )
    unsynchronised: str = setting(
        "hold",
        "persistent messages until a broker with an empty store has learned its network's interests: hold: stored, and "
        "sent then; refuse: answered with E_NOT_SYNCHRONISED; confirm: confirmed, though nobody elsewhere gets them",
        choices=UNSYNCHRONISED,
    )
    coalesce_ms: float = setting(
        _NETWORK.bdrp.coalesce_ms, "changes of interests within this time are sent together", minimum=0, maximum=60_000
    )
    retain_ms: float = setting(
        _NETWORK.bdrp.retain_ms,
        "how long an unreachable broker is remembered; after that, persistent messages waiting for it are dropped",
        minimum=0,
        maximum=1e10,
    )
    empty_store: str = setting(
        _NETWORK.empty_store.policy.value,
        "what a broker whose store is new does with messages that other brokers kept for it",
        choices=tuple(policy.value for policy in EmptyStorePolicy),
    )
    empty_store_ms: float = setting(
        _NETWORK.empty_store.wait_ms,
        "with empty_store = wait: how long they are held while durable subscribers come back",
        minimum=0,
        maximum=1e10,
    )
    peers: tuple[PeerTable, ...] = setting(tuple, "other brokers of the network, one table per link")

    def settings(self, router: int) -> NetworkSettings:
        beat = self.heartbeat_ms
        return NetworkSettings(
            router,
            self.name,
            tuple((peer.address, peer.router or None) for peer in self.peers if peer.address),
            self.unicast,
            self.routing,
            self._encoding(),
            self.broadcast_above,
            self.hops_max,
            {peer.router: peer.cost for peer in self.peers if peer.router and peer.cost},
            backlog_bytes_max=self.backlog_bytes_max,
            push_back=self.congestion == "push-back",
            far_bytes_max=self.far_bytes_max,
            window_bytes=self.window_bytes,
            link=LinkOptions(beat, 2.5 * beat, 6 * beat, backoff_max_ms=self.redial_ms_max),
            bdrp=BdrpOptions(self.coalesce_ms, self.retain_ms),
            in_vain_max=self.in_vain_max,
            merge_in_vain_max=self.merge_in_vain_max,
            policy=self.policy,
            advertise=self.advertise,
            merge=self.merge,
            cover_advertisements=self.cover_advertisements,
            selective=SelectiveOptions(
                self.pruning_phi,
                self.pruning_count_small,
                self.pruning_window_ms,
                self.pruning_window_size,
                self.pruning_bucket_depth,
            ),
            awaits_peers=bool(self.peers or self.join),
            unsynchronised=self.unsynchronised,
            hermes=HermesOptions(self.refresh_ms, 3.5 * self.refresh_ms, settle_ms=2 * self.refresh_ms),
            empty_store=EmptyStoreOptions(EmptyStorePolicy(self.empty_store), self.empty_store_ms),
            pan=PanSettings(self.join) if self.overlay == "pan" else None,
        )

    def _encoding(self) -> InterestEncoding:
        grade = GradedGrade(self.encoding_pieces_max) if self.encoding.startswith("graded") else PlainGrade()
        # A digest, so that the file may hold any bytes; the greeting compares keys without showing them.
        data = _secret("network.encoding_key_file", self.encoding_key_file)
        key = int.from_bytes(hashlib.sha256(data).digest()[:8], "little") if data else 0
        alternatives_max = self.encoding_alternatives_max
        encoding = Encoding(self.encoding_bits, self.encoding_hashes, key, grade, alternatives_max)
        proof = key_proof(data, self._network_secret())
        vectors, exact = "vectors" in self.encoding, self.encoding_exact
        return InterestEncoding(encoding, vectors, keyless=self.relay_only, key_proof=proof, exact=exact)

    def _network_secret(self) -> bytes:
        return _secret("network.secret_file", self.secret_file).strip()

    def links(self) -> LinkSettings:
        secret = self._network_secret()
        accept, dial = link_contexts(self.certificate, self.key, self.ca) if self.certificate else (None, None)
        return LinkSettings(
            self.host,
            self.port if self.accept else None,
            secret,
            accept,
            dial,
            {peer.router: peer.certificate_name for peer in self.peers if peer.certificate_name},
            certificates=bool(self.certificate),
            delays_ms={peer.router: peer.delay_ms for peer in self.peers if peer.delay_ms},
            bandwidths_bytes_s={one.router: one.bandwidth_bytes_s for one in self.peers if one.bandwidth_bytes_s},
            gather_ms=self.gather_ms,
            insecure=self.insecure,
            address=self.address,
        )


def peers_of(table: NetworkTable, router: int) -> Peers | None:
    """Settings of the broker's network; None: it has none. A ConfigError names a file that cannot be used."""
    return Peers(table.settings(router), table.links()) if table.name else None


def _secret(key: str, name: str) -> bytes:
    """Content of a secret file, which must be long enough not to be guessed; empty without a file."""
    data = _content(key, name) if name else b""
    if name and (size := len(data.strip())) < SECRET_BYTES_MIN:
        problem = f"{key}: {name} has {size} bytes, fewer than {SECRET_BYTES_MIN}"
        raise ConfigError([f"{problem}; make one with: openssl rand -hex 32"])
    return data


def _content(key: str, name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise ConfigError([f"{key}: {name} cannot be read ({error.strerror}); give a readable file"]) from None
