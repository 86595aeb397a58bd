"""A network out of configuration files: `tidings broker` with [network]."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

from hardening.support.certificates import Authority
from hardening.support.links import eventually

from tidings.client import connect
from tidings.testing.broker_process import BrokerProcess


def network(authority: Authority, directory: Path, router: int, more: str = "") -> str:
    certificate = authority.sign(f"site-{router}", f"{router}.pem")
    (directory / "secret").write_text("a secret of this network")
    return (
        f"[broker]\nid = {router}\n[network]\nname = 'test'\nport = 0\nheartbeat_ms = 200\nredial_ms_max = 300\n"
        f"secret_file = '{directory / 'secret'}'\ncertificate = '{certificate}'\nca = '{authority.path}'\n{more}\n"
    )


def test_brokers_linked_by_certificates_pass_messages_on(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("1", "2")]
    for folder in folders:
        folder.mkdir()
    authority = Authority(tmp_path)
    one = BrokerProcess(folders[0], network(authority, tmp_path, 1, "peers = [{router=2, certificate_name='site-2'}]"))
    with one:
        port = one.events("links")[-1]["port"]
        peer = f"peers = [{{address='127.0.0.1:{port}', router=1, certificate_name='site-1'}}]"
        with BrokerProcess(folders[1], network(authority, tmp_path, 2, peer)) as two:

            async def check() -> None:
                async with connect(one.url) as reader, connect(two.url) as writer:
                    ticks = await reader.subscribe("ticks.>")
                    await eventually(lambda: json.loads(two.get("/network"))["interests"].get("1") == 1)
                    await writer.publish("ticks.a", {"n": 1}, persistent=True)
                    delivery = await ticks.receive(20.0)
                    assert delivery is not None
                    assert delivery.properties["n"] == 1

            asyncio.run(check())
            seen = json.loads(two.get("/network"))
            assert (seen["router"], seen["network"], seen["routes"]) == (2, "test", {"1": 1})
            assert 'tidings_link_waiting_bytes{peer="1"} 0' in two.get("/metrics")
            assert 'tidings_copies_total{fate="sent"} 1' in two.get("/metrics")
            assert two.stop() == 0


def test_brokers_that_differ_in_their_files_by_an_address_form_a_network_and_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret of this network")
    more = f"[network]\nname = 'events'\noverlay = 'pan'\nport = 0\nsecret_file = '{tmp_path / 'secret'}'\n"
    folders = [tmp_path / name for name in ("1", "2")]
    for folder in folders:
        folder.mkdir()

    def router(broker: BrokerProcess) -> int:
        return int(json.loads(broker.get("/network"))["router"])

    with BrokerProcess(folders[0], more) as one:
        join = f"join = '127.0.0.1:{one.events('links')[-1]['port']}'\n"
        with BrokerProcess(folders[1], more + join) as two:
            numbers = [router(one), router(two)]
            asyncio.run(eventually(lambda: str(numbers[0]) in json.loads(two.get("/network"))["routes"]))
            two.signal(signal.SIGHUP)
            two.wait_for("reloaded")
            assert two.events("change takes effect after a restart") == []
            assert two.stop() == 0
        with BrokerProcess(folders[1], more + join) as two:
            assert [router(one), router(two)] == numbers


def test_the_check_says_what_network_it_would_join(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret of this network")
    config = tmp_path / "broker.toml"
    config.write_text("[network]\nname = 'n'\nsecret_file = 'secret'\npeers = [{address='10.0.0.1:7301'}]\n")
    command = [sys.executable, "-m", "tidings.cli", "broker", "--check", "--config", str(config)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert "network n (bdrp): links on 127.0.0.1 port 7301, 1 peers to dial" in done.stdout
    (tmp_path / "secret").unlink()
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "network.secret_file" in done.stderr
