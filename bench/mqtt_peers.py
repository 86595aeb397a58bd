"""The servers that `bench.mqtt` measures, each in a process of its own: this broker, in memory, and Mosquitto."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.broker_child import broker_child
from tidings.broker.connections.client_listeners import ListenerSettings
from tidings.errors import UsageError
from tidings.node.settings import NodeSettings
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.session import MqttNativeSession, MqttSession

HOST = "127.0.0.1"
SECONDS = 30.0
MOSQUITTO = "/usr/sbin/mosquitto"  # Debian's place, which is not in every user's PATH
# No limits that would drop messages; nothing is kept on disk.
CONFIGURATION = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_inflight_messages 0
max_queued_messages 0
set_tcp_nodelay true
log_type error
"""


@dataclass(frozen=True, slots=True)
class MqttPeer:
    name: str
    pid: int
    port: int


def mqtt_listener() -> ListenerSettings:
    clients = MqttClients()
    return ListenerSettings(
        MqttNativeSession, port=0, make_gateway=lambda caller: MqttSession(clients, caller), protocol="mqtt"
    )


@contextmanager
def tidings_peer() -> Iterator[MqttPeer]:
    with broker_child(settings=NodeSettings(last_values=True), listener=mqtt_listener) as child:
        yield MqttPeer("Tidings", child.pid, child.port)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


@contextmanager
def mosquitto_peer() -> Iterator[MqttPeer]:
    command = shutil.which("mosquitto") or MOSQUITTO
    if not Path(command).exists():
        raise UsageError("E_NO_MOSQUITTO", "mosquitto is not installed: apt-get install mosquitto")
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "mosquitto.conf"
        configuration.write_text(CONFIGURATION.format(port=port))
        process = subprocess.Popen([command, "-c", configuration], stderr=subprocess.DEVNULL)
        try:
            _wait(lambda: socket.create_connection((HOST, port)).close())
            yield MqttPeer("Mosquitto", process.pid, port)
        finally:
            process.kill()
            process.wait()


def _wait(attempt: Callable[[], None]) -> None:
    """Until the attempt succeeds."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            attempt()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return
