"""Applies `--join` and `--found` to a configuration: the broker becomes a member of a self-arranging network."""

import ipaddress
from dataclasses import replace

from tidings.broker.config.rules import Checker
from tidings.broker.config.tables import PROTOCOLS, Configuration
from tidings.broker.links.addresses import is_address
from tidings.errors import ConfigError

NETWORK = "tidings"


def joining(configuration: Configuration, address: str, *, bare: bool, routing: str = "") -> Configuration:
    """The configuration of a broker that joins at this address; empty: that begins a network. `routing`: the scheme, if
    not the configured one. `bare`: there is no file, so ports must not collide, and on a loopback address peers need
    no proof of identity."""
    network = replace(
        configuration.network, name=configuration.network.name or NETWORK, overlay="pan", join=_checked(address)
    )
    if routing:
        network = replace(network, routing=routing)
    if bare and address:  # another broker is likely to be on this machine
        network = replace(network, port=0)
        configuration = replace(configuration, metrics=replace(configuration.metrics, port=0))
    if not (network.secret_file or network.certificate or network.insecure):
        if not (_loopback(network.host) and (not address or _loopback(address.rpartition(":")[0]))):
            remedy = "write a [network] table with secret_file, or certificate and ca, into a configuration file"
            raise ConfigError([f"--join: peers would not be authenticated; {remedy}"])
        network = replace(network, insecure=True)
    joined = replace(configuration, network=network)
    if problems := [str(problem) for problem in Checker(joined, PROTOCOLS).problems()]:
        raise ConfigError(problems)  # a network that arranges itself asks for more than the file was checked for
    return joined


def _checked(address: str) -> str:
    if address and not is_address(address):
        raise ConfigError([f"--join: {address!r} is not host:port, as in 10.0.0.5:7301"])
    return address


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
