"""`tidings net`: runs a network of brokers on this machine."""

import time
import tomllib
from dataclasses import fields
from enum import Enum
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from tidings.broker.config.network import ENCODINGS, NetworkTable
from tidings.cli.experiments import real_network
from tidings.cli.json_text import found_json
from tidings.cli.network import members, questions
from tidings.errors import TidingsError, UsageError
from tidings.localnet.member import Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.node.network.settings import UNICASTS
from tidings.overlay.topology import generate as shapes
from tidings.overlay.topology.draw import to_dot, to_text
from tidings.overlay.topology.graph import Graph
from tidings.overlay.topology.toml_format import from_toml, to_toml
from tidings.routing.registry import SCHEMES
from tidings.text_files import read_text

FOLDER = Path("out/net")
SIZE_MAX = 10_000  # brokers of a topology: more do not fit into the memory of one machine
FULL_MAX = 1_000  # of a full mesh
MEMBERS_OWN = ("host", "port", "address", "join", "peers")
Folder = Annotated[Path, typer.Option("--folder", help="The folder of the network: stores, logs, configuration.")]
app = typer.Typer(no_args_is_help=True, help="Run a network of brokers on this machine, from one topology file.")
app.add_typer(real_network.app, name="experiment")
members.register(app)
questions.register(app)


SIZE, STUB_SIZE, SYSTEMS_MAX = 4, 1000, 10  # brokers, where none are given; autonomous systems


class TopologyKind(Enum):
    LINE = "line"
    RING = "ring"
    STAR = "star"
    FULL = "full"
    SQUARE = "square+diagonal"
    TREE = "tree"
    WAXMAN = "waxman"
    BARABASI_ALBERT = "barabasi-albert"
    TRANSIT_STUB = "transit-stub"
    EIGHT = "eight"
    LARGE = "large"


OWN_SIZES = {TopologyKind.SQUARE: 4, TopologyKind.EIGHT: 8, TopologyKind.LARGE: 42}


def register(to: typer.Typer) -> None:
    to.add_typer(app, name="net")


@app.command()
def start(
    topology: Annotated[Path, typer.Argument(help="A topology in TOML, as `tidings net generate` writes it.")],
    folder: Folder = FOLDER,
    port: Annotated[int, typer.Option(help="Port of the first broker; the other ports follow it.")] = 7400,
    routing: Annotated[str, typer.Option(help=f"The scheme: {', '.join(SCHEMES)}.")] = "bdrp",
    policy: Annotated[
        str, typer.Option(help="Policy of covering: none, active, lazy, packing or selective.")
    ] = "selective",
    encoding: Annotated[str, typer.Option(help=f"Encoding of interests: {', '.join(ENCODINGS)}.")] = "graded",
    exact: Annotated[bool, typer.Option(help="Advertise exact filters; otherwise all is encoded.")] = True,
    unicast: Annotated[str, typer.Option(help=f"Unicast protocol: {', '.join(UNICASTS)}.")] = "link-state",
    broadcast_above: Annotated[int, typer.Option(min=0, help="Broadcast above this many destinations; 0: never.")] = 0,
    merge: Annotated[bool, typer.Option("--merge", help="With covering: merge subscriptions of a broker.")] = False,
    advertise: Annotated[
        list[str] | None, typer.Option(help="With covering: topics that clients may publish to; repeatable.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other key of [network], as in hops_max=16; repeatable."),
    ] = None,
    delays: Annotated[bool, typer.Option(help="Delay links as the topology says.")] = False,
    namespaces: Annotated[
        bool, typer.Option(help="Use network namespaces and the topology's bandwidths (needs root).")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait until all brokers are connected.")] = 20.0,
) -> None:
    """Start a network, one process per broker. Under hermes brokers choose their own links, not those of the topology.

    Example: tidings net generate square+diagonal > square.toml && tidings net start square.toml
    """
    way = Routing(
        routing,
        unicast,
        encoding,
        exact,
        policy,
        merge,
        tuple(advertise or (">",)),
        broadcast_above,
        settings=dict(map(_setting, setting or ())),
    )
    options = LocalOptions(port=port, routing=way, delays=delays, namespaces=namespaces)
    network = LocalNetwork.create(folder, from_toml(read_text(topology, "E_TOPOLOGY")), options)
    network.start()
    deadline = time.monotonic() + wait
    while not network.settled() and not network.ended() and time.monotonic() < deadline:
        time.sleep(0.1)
    typer.echo(network.draw())
    if ended := network.ended():
        name, last_line = next(iter(ended.items()))
        raise TidingsError("E_NET_ENDED", f"broker {name} has ended ({last_line or 'it logged nothing'}); see {folder}")
    if wait and not network.settled():
        raise TidingsError("E_NET_UNSETTLED", f"the brokers are not all connected yet; see the logs in {folder}")


@app.command()
def show(
    folder: Folder = FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="JSON: the network status of each broker.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="The topology for Graphviz.")] = False,
) -> None:
    """Draw the network with the state of its brokers.

    Example: tidings net show --json
    """
    network = LocalNetwork.load(folder)
    if dot:
        typer.echo(to_dot(network.graph), nl=False)
    else:
        typer.echo(found_json(network.status(), indent=1) if as_json else network.draw())


@app.command()
def stop(
    name: Annotated[str, typer.Argument(help="One broker; default: all.")] = "",
    folder: Folder = FOLDER,
    kill: Annotated[bool, typer.Option("--kill", help="Kill it, as a power failure would.")] = False,
) -> None:
    """Stop the network, or one broker of it.

    Example: tidings net stop 3 --kill && tidings net restart 3
    """
    LocalNetwork.load(folder).stop(name or None, kill=kill)


@app.command()
def restart(name: Annotated[str, typer.Argument(help="The broker.")], folder: Folder = FOLDER) -> None:
    """Start a stopped broker again.

    Example: tidings net restart 3
    """
    LocalNetwork.load(folder).start(name)


@app.command()
def generate(
    kind: Annotated[TopologyKind, typer.Argument(help="The shape.")],
    size: Annotated[
        int | None, typer.Argument(min=1, help="Number of brokers; default: 4, or that of the shape.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of random shapes.")] = 1,
    draw: Annotated[bool, typer.Option("--draw", help="Draw it instead of writing TOML.")] = False,
) -> None:
    """Generate a topology.

    Example: tidings net generate waxman 12 --seed 3 > topology.toml
    """
    graph = make(kind, size, Random(seed))
    typer.echo(to_text(graph) if draw else to_toml(graph), nl=draw)


def _setting(text: str) -> tuple[str, Any]:
    """A key of [network] and its value as in TOML; a value that is not TOML is text."""
    name, equals, value = text.partition("=")
    if not equals or name not in {one.name for one in fields(NetworkTable)}:
        raise UsageError("E_NET_SET", f"{text!r} is not a key of [network] with a value, as in hops_max=16")
    if name in MEMBERS_OWN:
        raise UsageError("E_NET_SET", f"{name} differs from broker to broker and follows from the topology")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value


def make(kind: TopologyKind, size: int | None, rng: Random) -> Graph:
    own = OWN_SIZES.get(kind)
    if own is not None and size not in (None, own):
        raise UsageError("E_GRAPH_SIZE", f"{kind.value} has {own} brokers, not {size}; choose another shape")
    return _make(kind, size or STUB_SIZE if kind is TopologyKind.TRANSIT_STUB else size or SIZE, rng)


def _make(kind: TopologyKind, size: int, rng: Random) -> Graph:
    most = FULL_MAX if kind is TopologyKind.FULL else SIZE_MAX
    if size > most:
        raise UsageError("E_GRAPH_SIZE", f"{size} brokers are too many; {kind.value} has at most {most}")
    match kind:
        case TopologyKind.LINE:
            return shapes.line(size)
        case TopologyKind.RING:
            return shapes.ring(size)
        case TopologyKind.STAR:
            return shapes.star(size)
        case TopologyKind.FULL:
            return shapes.full(size)
        case TopologyKind.SQUARE:
            return shapes.square_diagonal()
        case TopologyKind.TREE:
            return shapes.random_tree(size, rng)
        case TopologyKind.WAXMAN:
            return shapes.waxman(size, rng)
        case TopologyKind.BARABASI_ALBERT:
            return shapes.barabasi_albert(size, rng)
        case TopologyKind.TRANSIT_STUB:
            systems = next(count for count in range(min(SYSTEMS_MAX, size), 0, -1) if size % count == 0)
            return shapes.transit_stub(rng, systems, size // systems)
        case TopologyKind.EIGHT:
            return shapes.eight_brokers()
        case TopologyKind.LARGE:
            return shapes.large_network()
