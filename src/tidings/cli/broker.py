"""`tidings broker`: run a broker, or check its configuration."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tidings.broker import process
from tidings.broker.config.tables import Configuration, ListenerTable
from tidings.broker.logs import note
from tidings.broker.startup import StartupOptions, prepare
from tidings.broker.tuning.capacity_monitor import CapacityMonitor
from tidings.broker.tuning.capacity_observer import Observer
from tidings.cli.json_text import found_json
from tidings.cli.queue.management import Json, ManagementAccess, manages
from tidings.extras import install_command, installed
from tidings.protocols.amqp.session import AmqpSession
from tidings.protocols.http.session import HttpSession
from tidings.protocols.mqtt.clients import MqttClients
from tidings.protocols.mqtt.session import MqttNativeSession, MqttSession
from tidings.protocols.mqtt.websocket import MqttWebSocketSession
from tidings.protocols.native.session import NativeSession
from tidings.protocols.session import Caller, Gateway
from tidings.protocols.stomp.session import StompSession
from tidings.protocols.websocket.frames import WebSocketLayer
from tidings.routing.registry import SCHEMES

log = logging.getLogger("tidings.process")


def amqp(configuration: Configuration, _: ListenerTable) -> Callable[[Caller], Gateway]:
    return partial(AmqpSession, plain_is_queue=configuration.amqp.plain_address == "queue")


def mqtt(_: Configuration, __: ListenerTable) -> Callable[[Caller], Gateway]:
    return partial(MqttSession, MQTT_CLIENTS)


def mqtt_websocket(_: Configuration, listener: ListenerTable) -> Callable[[Caller], Gateway]:
    return partial(MqttWebSocketSession, partial(MqttSession, MQTT_CLIENTS), listener.origins)


def http(_: Configuration, listener: ListenerTable) -> Callable[[Caller], Gateway]:
    return partial(HttpSession, listener.origins)


MQTT_CLIENTS = MqttClients()  # of all listeners of this process
SESSIONS: process.Sessions = {
    "native": NativeSession,
    "stomp": StompSession,
    "websocket": StompSession,
    "amqp": NativeSession,
    "mqtt": MqttNativeSession,
    "mqtt-websocket": MqttNativeSession,
    "http": NativeSession,
}
LAYERS: process.Layers = {"websocket": WebSocketLayer}
GATEWAYS: process.Gateways = {"amqp": amqp, "mqtt": mqtt, "mqtt-websocket": mqtt_websocket, "http": http}


def _capacity_monitor() -> Observer | None:
    """None: SciPy, which fits the models, is not installed."""
    if not installed("scipy"):
        note(log, logging.INFO, "capacity is not estimated: SciPy is not installed", install=install_command("scipy"))
        return None
    return CapacityMonitor()


group = typer.Typer(invoke_without_command=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="broker")


@group.callback()
def broker(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="The configuration file; without one, the defaults.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Check the configuration and exit.")] = False,
    data: Annotated[str | None, typer.Option(help="The data directory, instead of the configured one.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="The first listener's port, instead of the configured one; without a file, the only listener.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="The port of metrics and health, instead of the configured one; 0: chosen by the system.",
        ),
    ] = None,
    join: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Join the network of the broker at this address.")
    ] = None,
    found: Annotated[bool, typer.Option("--found", help="Start a new network, which others can join.")] = False,
    routing: Annotated[
        str, typer.Option(help=f"With --join and --found: the network's routing scheme: {', '.join(SCHEMES)}.")
    ] = "",
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="Of several processes for one store: serve if none does, else wait and take over."
        ),
    ] = False,
) -> None:
    """Run a broker until SIGTERM; SIGHUP reloads configuration, users and certificates.

    Example: tidings broker --config broker.toml
    """
    if context.invoked_subcommand is not None:
        return
    if join is not None and found:
        raise typer.BadParameter("--join and --found exclude each other", param_hint="--found")
    if join == "":
        raise typer.BadParameter("it is empty; give host:port, or start a network with --found", param_hint="--join")
    if routing and (routing not in SCHEMES or (join is None and not found)):
        wrong = "it applies to --join and --found only" if routing in SCHEMES else f"one of {', '.join(SCHEMES)}"
        raise typer.BadParameter(wrong, param_hint="--routing")
    options = StartupOptions(config, data, port, "" if found else join, routing, metrics_port, standby)
    if check:
        _check(options)
    else:
        raise typer.Exit(process.run(options, SESSIONS, _capacity_monitor, LAYERS, GATEWAYS))


@group.command("switch-over")
@manages
def switch_over(json: Json = False, *, access: ManagementAccess) -> None:
    """Let a standby take over from a running broker, which becomes a standby itself.

    Example: tidings broker switch-over --url http://127.0.0.1:8700
    """
    found = access.open().ask("POST", "broker", "switch-over", body={})
    typer.echo(found_json(found) if json else "the broker finishes what is written; a standby takes over")


def _check(options: StartupOptions) -> None:
    """Say what a broker with these options would do."""
    prepared = prepare(options, tuple(SESSIONS))
    for listener in prepared.configuration.listeners:
        kind = f"{listener.protocol} with TLS" if listener.tls else listener.protocol
        typer.echo(f"listens on {listener.host} port {listener.port} ({kind})")
    if prepared.peers is not None:
        typer.echo(_network(prepared.configuration, len(prepared.peers.network.dials)))
    if prepared.configuration.network.overlay == "pan":
        number = "chosen at the first start" if prepared.drawn else prepared.configuration.broker.id
        typer.echo(f"broker id: {number}")
    typer.echo(
        "no users configured: every client has full access"
        if prepared.users is None
        else f"{len(prepared.users)} users"
    )
    typer.echo(f"{options.config or 'the defaults'}: ok")


def _network(configuration: Configuration, dialled: int) -> str:
    """One line about the network of this configuration."""
    network = configuration.network
    parts = [f"links on {network.host} port {network.port}" if network.accept else "accepts no links"]
    if network.overlay == "pan":
        parts.append(f"joins at {network.join}" if network.join else "starts the network")
    if dialled or network.overlay != "pan":
        parts.append(f"{dialled} peers to dial")
    return f"network {network.name} ({network.routing}): {', '.join(parts)}"
