"""How to listen for each protocol that a configuration may name."""

import ssl
from functools import partial

from tidings.broker.config_tables import Configuration
from tidings.broker.listening import Listener
from tidings.broker.process import Protocol
from tidings.protocols.amqp import AmqpSession
from tidings.protocols.native import NativeSession


def native(_: Configuration, host: str, port: int, tls: ssl.SSLContext | None) -> Listener:
    return Listener(NativeSession, host, port, tls)


def amqp(configuration: Configuration, host: str, port: int, tls: ssl.SSLContext | None) -> Listener:
    gateway = partial(AmqpSession, plain_is_queue=configuration.amqp.plain_address == "queue")
    return Listener(NativeSession, host, port, tls, gateway, "amqp")


PROTOCOLS: dict[str, Protocol] = {"native": native, "amqp": amqp}
