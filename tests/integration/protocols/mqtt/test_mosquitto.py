"""MQTT with Mosquitto's command-line clients (Debian: mosquitto-clients)."""

import subprocess

import pytest

from tidings.client import sync
from tidings.testing.local_broker import BrokerThread

SECONDS = 60


def command(name: str, broker: BrokerThread, version: str, *arguments: str) -> list[str]:
    return [name, "-h", "127.0.0.1", "-p", str(broker.mqtt_port), "-V", version, *arguments]


@pytest.mark.parametrize("version", ["311", "5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mosquitto_pub(broker: BrokerThread, version: str, qos: str) -> None:
    with sync.connect(broker.url) as native:
        got = native.subscribe("mosquitto.pub")
        run = command("mosquitto_pub", broker, version, "-q", qos, "-t", "mosquitto/pub", "-m", "hello")
        subprocess.run(run, check=True, timeout=SECONDS)
        delivery = got.receive(SECONDS)
        assert delivery is not None
        assert (delivery.body, delivery.message.persistent) == (b"hello", qos != "0")


@pytest.mark.parametrize("version", ["311", "5"])
def test_mosquitto_sub(broker: BrokerThread, version: str) -> None:
    run = command(
        "mosquitto_sub", broker, version, "-q", "2", "-t", "mosquitto/+/?n>1", "-C", "2", "-d", "-F", "%t %q %p"
    )
    process = subprocess.Popen(["stdbuf", "-oL", *run], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, sync.connect(broker.url) as native:
        for line in process.stdout:
            if "Subscribed" in line:
                break
        for number in range(1, 4):
            native.publish(f"mosquitto.{number}", {"n": number}, b"%d" % number, persistent=True)
        shown = [line.strip() for line in process.stdout if line.startswith("mosquitto/")]
    assert process.returncode == 0
    assert shown == ["mosquitto/2 2 2", "mosquitto/3 2 3"]
