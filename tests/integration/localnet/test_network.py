"""Real processes: a network from a topology file, messages across it, a broker killed under load and returned."""

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hardening.support.links import eventually, free_ports

from tidings.broker.config import load as config
from tidings.broker.config.network import PeerTable
from tidings.cli.terminated import terminated
from tidings.client import connect
from tidings.client.client import Client
from tidings.errors import UsageError
from tidings.localnet import member
from tidings.localnet.member import SECRET, Member, Routing
from tidings.localnet.network import LocalNetwork, LocalOptions
from tidings.overlay.topology.generate import line, square_diagonal
from tidings.overlay.topology.graph import Graph
from tidings.overlay.topology.toml_format import from_toml, to_toml


class Running:
    def __init__(
        self, folder: Path, graph: Graph, routing: str = "bdrp", *, delays: bool = False, heartbeat_ms: float = 300
    ) -> None:
        options = LocalOptions(
            port=free_ports(3 * len(graph))[0], routing=Routing(routing, heartbeat_ms=heartbeat_ms), delays=delays
        )
        self.network = LocalNetwork.create(folder, graph, options)

    async def __aenter__(self) -> LocalNetwork:
        self.network.start()
        await eventually(self.network.settled, 40)
        return self.network

    async def __aexit__(self, *_: object) -> None:
        self.network.stop(kill=True)


def url(network: LocalNetwork, name: str) -> str:
    return network.members[name].url()


def interested(network: LocalNetwork, router: int) -> bool:
    """Whether all the others have heard of the router's interests."""
    return all(
        one["sees"] is not None and (one["router"] == router or one["sees"]["interests"].get(str(router)))
        for one in network.status().values()
    )


def entries(network: LocalNetwork) -> list[int]:
    """How many subscriptions each broker has in its table, under covering."""
    return [0 if one["sees"] is None else one["sees"]["scheme"]["entries"] for one in network.status().values()]


async def numbers(client: Client, count: int) -> list[int]:
    audit = await client.subscribe("ticks.>", durable="audit")
    got: list[int] = []
    while len(got) < count:
        delivery = await audit.receive(30.0)
        assert delivery is not None, f"{len(got)} of {count} came"
        got.append(int(delivery.properties["n"]))
    extra = await audit.receive(0.3)
    assert extra is None
    return sorted(got)


@pytest.mark.parametrize("routing", ["bdrp", "covering"])
def test_messages_cross_a_square_once(tmp_path: Path, routing: str) -> None:
    async def check() -> None:
        async with Running(tmp_path, square_diagonal(), routing) as network:
            clients = {name: await connect(url(network, name)) for name in network.members}
            subscriptions = {name: await client.subscribe("ticks.>") for name, client in clients.items()}
            for router in (1, 2, 3, 4):
                await eventually(lambda router=router: interested(network, router), 30)  # type: ignore[misc]
            if routing == "covering":  # the others' subscriptions, one for each neighbour on the tree, and its own
                await eventually(lambda: sum(entries(network)) == 3 * 2 + 4, 30)
            for n in range(50):
                await clients[str(n % 4 + 1)].publish("ticks.a", {"n": n}, persistent=n % 2 == 0)
            for subscription in subscriptions.values():
                got = []
                for _ in range(50):
                    delivery = await subscription.receive(20.0)
                    assert delivery is not None
                    got.append(int(delivery.properties["n"]))
                assert sorted(got) == list(range(50))
                assert await subscription.receive(0.1) is None
            assert "running" not in network.draw()
            for client in clients.values():
                await client.close()

    asyncio.run(check())


@pytest.mark.parametrize("routing", ["bdrp", "covering"])
def test_many_subscriptions_at_once_cost_no_link(tmp_path: Path, routing: str) -> None:
    """In ascending order, which an index that is not balanced would make a chain of."""
    count = 3000

    async def check() -> None:
        async with Running(tmp_path, line(3), routing, heartbeat_ms=2000) as network:
            near, far = [await connect(url(network, name)) for name in ("1", "3")]
            await asyncio.gather(*(near.subscribe("ticks.>", selector=f"acct = {n}") for n in range(count)))
            last = await near.subscribe("ticks.>", selector="acct = 7")

            async def heard() -> bool:
                await far.publish("ticks.a", {"acct": 7})
                return await last.receive(0.1) is not None

            while not await heard():
                pass
            if routing == "covering":
                await eventually(lambda: entries(network)[2] == count, 60)
            for name in network.members:
                log = (network.folder / f"{name}.log").read_text()
                lost = [line for line in log.splitlines() if "LINK_DOWN" in line and "Connection refused" not in line]
                assert lost == [], "refused are only dials of a broker that is still starting"
                assert log.count("LINK_UP") == (2 if name == "2" else 1)
            for client in (near, far):
                await client.close()

    asyncio.run(check())


def test_killing_the_broker_between_loses_no_persistent_message(tmp_path: Path) -> None:
    async def publish(writer: Client, first: int, last: int) -> None:
        receipts = [await writer.publish("ticks.a", {"n": n}, persistent=True) for n in range(first, last)]
        for receipt in receipts:
            await receipt.confirmed()

    async def check() -> None:
        async with Running(tmp_path, line(3)) as network:
            async with connect(url(network, "3"), client_id="reader") as reader:
                await reader.subscribe("ticks.>", durable="audit")
                await eventually(lambda: interested(network, 3), 30)
            async with connect(url(network, "1")) as writer:
                await publish(writer, 0, 100)
                network.stop("2", kill=True)
                await publish(writer, 100, 200)
                network.stop("3", kill=True)
                network.start("2")
                await publish(writer, 200, 300)
                network.start("3")
            await eventually(network.settled, 40)
            async with connect(url(network, "3"), client_id="reader") as reader:
                assert await numbers(reader, 300) == list(range(300))

    asyncio.run(check())


def test_links_take_as_long_as_the_topology_says_and_their_bandwidth_is_told(tmp_path: Path) -> None:
    graph = Graph()
    graph.add("paris", "oslo", latency_ms=40.0, bandwidth_bytes_s=1e6)

    def measured(network: LocalNetwork, what: str = "latency_ms") -> list[float]:
        seen = [one["sees"] for one in network.status().values()]
        return [link[what] for one in seen if one for link in one["links"].values()]

    async def check() -> None:
        async with Running(tmp_path, graph, delays=True) as network:
            await eventually(lambda: len(measured(network)) == 2 and min(measured(network)) >= 40.0, 60)
            assert measured(network, "bandwidth_bytes_s") == [1_000_000, 1_000_000]

    asyncio.run(check())


def test_namespaces_and_delays_are_planned(tmp_path: Path) -> None:
    graph = Graph()
    graph.add("paris", "oslo", latency_ms=15.0, bandwidth_bytes_s=1e6)
    network = LocalNetwork.create(tmp_path, graph, LocalOptions(port=7300, delays=True, namespaces=True))
    assert network.plan is not None
    assert any("tbf rate 8000000bit" in command for command in network.plan.commands)
    paris, oslo = (config.load(tmp_path / f"{name}.toml").network for name in ("paris", "oslo"))
    assert paris.peers == (
        PeerTable(f"{network.plan.address('oslo', 'paris')}:7301", 2, delay_ms=15.0, bandwidth_bytes_s=1_000_000),
    )
    assert oslo.peers == (PeerTable("", 1, delay_ms=15.0, bandwidth_bytes_s=1_000_000),)
    assert "paris: down" in network.draw()


def test_a_signal_in_the_midst_of_a_start_leaves_no_process_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = LocalNetwork.create(tmp_path, line(2), LocalOptions(port=free_ports(6)[0]))
    spawn = network._spawn

    def interrupted(member: Member) -> int:
        pid = spawn(member)
        signal.raise_signal(signal.SIGTERM)
        return pid

    monkeypatch.setattr(network, "_spawn", interrupted)
    try:
        with terminated(), pytest.raises(KeyboardInterrupt):
            network.start()
        assert list(network.alive().values()) == [True, False]
    finally:
        network.stop(kill=True)
    assert not any(network.alive().values())


def test_a_member_that_hangs_is_told_from_one_that_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = LocalNetwork.create(tmp_path, line(1), LocalOptions(port=free_ports(3)[0]))
    monkeypatch.setattr(network, "alive", lambda: {"1": True})
    monkeypatch.setattr(member, "STATUS_SECONDS", 0.1)
    assert "1: starting, tidings://" in network.draw()
    one = network.members["1"]
    with socket.create_server((one.host, one.http_port)):  # as of a process that was stopped: nobody reads
        assert "1: does not answer, tidings://" in network.draw()
        assert one.status() is None


def test_a_folder_has_one_network_and_names_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="E_NET_NONE"):
        LocalNetwork.load(tmp_path)
    network = LocalNetwork.create(tmp_path, line(2), LocalOptions(port=free_ports(6)[0]))
    assert LocalNetwork.load(tmp_path).members == network.members
    dialled = [config.load(tmp_path / f"{name}.toml").network.peers for name in network.members]
    assert dialled == [(PeerTable(f"127.0.0.1:{network.members['2'].link_port}", 2),), ()]
    assert "1: down" in network.draw()
    with pytest.raises(UsageError, match="E_NET_MEMBER"):
        network.start("3")
    assert (tmp_path / SECRET).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("E_NET_PORT", {"port": 65534}),
        ("E_NET_PORT", {"port": 0}),
        ("E_NET_OVERLAY", {"routing": Routing("hermes"), "delays": True}),
        ("E_NET_OVERLAY", {"routing": Routing("hermes"), "namespaces": True}),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    tmp_path: Path, code: str, options: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match=code):
        LocalNetwork.create(tmp_path / "net", line(2), LocalOptions(**options))  # type: ignore[arg-type]
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize("wrong", [{"routing": "x"}, {"policy": "x"}, {"encoding": "x"}, {"unicast": "x"}])
def test_routing_that_does_not_exist(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="E_NET_ROUTING"):
        Routing(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [("topology", 1), ("1", 1), ("a", "a.toml"), ("processes.json", 1)])
def test_names_whose_files_would_be_the_same(tmp_path: Path, names: tuple[str | int, str | int]) -> None:
    graph = Graph()
    graph.add(*names)
    with pytest.raises(UsageError, match="E_NET_NAME"):
        LocalNetwork.create(tmp_path, graph, LocalOptions(port=7300))


def test_a_folder_with_files_that_cannot_be_read_is_taken_anew(tmp_path: Path) -> None:
    LocalNetwork.create(tmp_path, line(2), LocalOptions(port=7300))
    (tmp_path / "1.toml").write_text("[network]\nport = 99999")
    with pytest.raises(UsageError, match="E_NET_NONE"):
        LocalNetwork.load(tmp_path)
    LocalNetwork.create(tmp_path, line(2), LocalOptions(port=7300))
    assert len(LocalNetwork.load(tmp_path).members) == 2


def test_under_hermes_brokers_find_each_other(tmp_path: Path) -> None:
    async def check() -> None:
        async with Running(tmp_path, line(3), "hermes") as network:
            joins = [config.load(tmp_path / f"{name}.toml").network.join for name in network.members]
            first = f"127.0.0.1:{network.members['1'].link_port}"
            assert joins == ["", first, first]
            assert not network.ended()

    asyncio.run(check())


def test_a_member_that_ends_at_once_is_noticed_with_its_last_words(tmp_path: Path) -> None:
    network = LocalNetwork.create(tmp_path, line(2), LocalOptions(port=free_ports(6)[0]))
    (tmp_path / SECRET).write_text("short")
    try:
        network.start("1")
        asyncio.run(eventually(lambda: bool(network.ended()), 40))
        assert list(network.ended()) == ["1"]
        assert "has 5 bytes" in network.ended()["1"]
    finally:
        network.stop(kill=True)


def test_the_command_line_starts_shows_and_stops_it(tmp_path: Path) -> None:
    def tidings(*arguments: str, within: Path = tmp_path) -> str:
        command = [sys.executable, "-c", "from tidings.cli import main; main()", "net", *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=90, cwd=within)
        return done.stdout

    topology = tmp_path / "line.toml"
    topology.write_text(tidings("generate", "line", "2"))
    folder = ("--folder", "net")
    try:
        shown = tidings("start", str(topology), *folder, "--port", str(free_ports(6)[0]))
        assert "└── 2" in shown
        assert shown.count("1 links, 1 routes") == 2
        assert '"running": true' in tidings("show", "--json", *folder)
        tidings("stop", "2", "--kill", *folder)
        assert "2: down" in tidings("show", *folder)
        tidings("restart", "2", *folder)
    finally:
        tidings("stop", "--folder", ".", within=tmp_path / "net")
    assert tidings("show", *folder).count("down") == 2
    assert tidings("show", "--dot", *folder).startswith("graph")


def test_the_command_line_takes_every_key_of_the_table_and_respects_sizes(tmp_path: Path) -> None:
    def tidings(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tidings.cli", "net", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for arguments, size in ((["transit-stub", "12"], 12), (["line", "1"], 1), (["square+diagonal"], 4), (["line"], 4)):
        assert len(from_toml(tidings("generate", *arguments).stdout)) == size
    assert "E_GRAPH_SIZE: square+diagonal has 4 brokers, not 7" in tidings("generate", "square+diagonal", "7").stderr
    topology, net = tmp_path / "one.toml", tmp_path / "net"
    topology.write_text(to_toml(line(1)))
    start = ("start", str(topology), "--folder", str(net), "--port", str(free_ports(3)[0]))
    for wrong, code in (
        ("hops", "E_NET_SET"),
        ("port=1", "E_NET_SET"),
        ("hops_max=300", "300 is out of range"),
    ):
        refused = tidings(*start, "--set", wrong)
        assert (refused.returncode != 0, code in refused.stderr) == (True, True), refused.stderr
        assert not net.exists()
    try:
        done = tidings(*start, "--set", "hops_max=7", "--set", 'unsynchronised="refuse"', "--set", "empty_store=hold")
        assert done.returncode == 0, done.stderr
        made = config.load(net / "1.toml").network
        assert (made.hops_max, made.unsynchronised, made.empty_store) == (7, "refuse", "hold")
    finally:
        LocalNetwork.load(net).stop(kill=True)
