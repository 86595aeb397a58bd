"""A running broker as calibration addresses it: where, by which protocol, as which user, and how its CPU is read."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tidings.errors import UsageError
from tidings.lab.calibration.amqp_wire import AmqpWire
from tidings.lab.calibration.meters import CpuMeter
from tidings.lab.calibration.mqtt_wire import MqttWire
from tidings.lab.calibration.wires import ClientAccount, NativeWire, StompWire, WireClient

CLIENTS: Mapping[str, Callable[[ClientAccount], WireClient]] = MappingProxyType(
    {"native": NativeWire, "stomp": StompWire, "amqp": AmqpWire, "mqtt": MqttWire}
)
METRICS_PORT = 8700


@dataclass(frozen=True, slots=True)
class CalibrationTarget:
    address: tuple[str, int]
    protocol: str
    meter: CpuMeter
    account: ClientAccount = ClientAccount()  # noqa: RUF009 - frozen
    tls: ssl.SSLContext | None = None

    def client(self) -> WireClient:
        return CLIENTS[self.protocol](self.account)


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT; brackets around an IPv6 address.

    >>> parse_address("[::1]:61613")
    ('::1', 61613)
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise UsageError("E_LAB_ADDRESS", f"give the broker as HOST:PORT, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_protocol(protocol: str, *, persistent: bool) -> None:
    if protocol not in CLIENTS:
        raise UsageError("E_LAB_PROTOCOL", f"protocol is one of {', '.join(CLIENTS)}, not {protocol!r}")
    if persistent and protocol == "mqtt":
        raise UsageError(
            "E_LAB_PROTOCOL", "persistent messages are calibrated over native, stomp or amqp, not over mqtt"
        )
