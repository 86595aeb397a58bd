"""ActiveMQ's own network of brokers, to compare with: one broker a namespace, joined by duplex network connectors.

Debian's package, a heap of 256 MB each, advisories on (its network needs them), no persistence: the experiments send
messages that are not persistent. Its brokers pass a message to every broker with a consumer of the topic, whatever
the consumers' selectors say.
"""

from pathlib import Path

from tidings.errors import UsageError
from tidings.lab import activemq

HEAP, MEMORY_MB = "256m", 180


def command(folder: Path, name: str, port: int, link_port: int, dials: list[str]) -> list[str]:
    """Writes the configuration of one broker; returns what starts it. `dials` are addresses of others' link ports."""
    if not activemq.JAR.exists():
        raise UsageError("E_NO_ACTIVEMQ", "ActiveMQ is not installed: apt-get install activemq, or leave it out")
    here = folder / f"activemq-{name}"
    here.mkdir()
    ports = {"stomp": port, "openwire": link_port}
    setup = activemq.ActiveMQSetup(f"broker-{name}", ports, HEAP, MEMORY_MB, links=dials, linked=True, log_level="INFO")
    return activemq.command(here, setup)
