"""Builds the fields of SUBSCRIBE from the arguments of `subscribe`."""

from tidings.client.argument_checks import address, flag, text
from tidings.errors import UsageError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.values import Value

WAITS = ("broker", "network")


def subscribe_fields(
    destination: str | Destination | DestinationPattern,
    *,
    type: str,
    selector: str,
    ack: str,
    durable: str | bool,
    shared: str,
    policy: str,
    no_local: bool,
    exclusive: bool,
    wait: str,
) -> dict[str, Value]:
    """The fields of SUBSCRIBE; raises UsageError for a wrong argument."""
    if durable is True:
        if not shared:
            raise UsageError("E_SUBSCRIBE_NAME", "durable=True needs shared='name'; or give durable a name")
        durable = shared
    return {
        "destination": address("destination", destination),
        "type": text("type", type),
        "selector": text("selector", selector),
        "ack": text("ack", ack),
        "durable": text("durable", durable or ""),
        "shared": text("shared", shared),
        "policy": text("policy", policy),
        "no_local": flag("no_local", no_local),
        "exclusive": flag("exclusive", exclusive),
        "wait": _wait(wait),
    }


def _wait(wait: str) -> str:
    if wait not in WAITS:
        raise UsageError("E_SUBSCRIBE_WAIT", f"wait must be one of {', '.join(WAITS)}, not {wait!r}")
    return wait
