"""Operations on the broker's place in its network: peers, other brokers, leaving, explanations."""

import json
from typing import Any

from tidings.broker.config.network import PeerTable
from tidings.broker.management.call import Call
from tidings.errors import UsageError
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message


async def peers(call: Call) -> dict[str, Any]:
    call.check_monitor()
    found = call.control.membership.peers()
    return {"total": len(found), "items": found}


async def add_peer(call: Call) -> dict[str, Any]:
    call.check_administer()
    values = call.values
    peer = PeerTable(
        address=values["address"],
        router=values["router"],
        certificate_name=values["certificate_name"],
        cost=values["cost"],
    )
    await call.control.membership.add_peer(peer)
    return {"added": peer.address}


async def remove_peer(call: Call) -> dict[str, Any]:
    call.check_administer()
    await call.control.membership.remove_peer(call.values["peer"])
    return {"removed": call.values["peer"]}


async def forget_broker(call: Call) -> dict[str, Any]:
    call.check_administer()
    return call.control.membership.forget(call.values["router"], call.values["queue"])


async def release_held(call: Call) -> dict[str, Any]:
    call.check_administer()
    return call.control.membership.release_held()


async def leave(call: Call) -> dict[str, Any]:
    call.check_administer()
    return call.control.membership.leave(call.values["seconds"])


async def leaving(call: Call) -> dict[str, Any]:
    call.check_monitor()
    return call.control.membership.leaving()


async def explain(call: Call) -> dict[str, Any]:
    call.check_monitor()
    try:
        attributes = json.loads(call.values["attributes"])
    except (ValueError, RecursionError):
        attributes = None
    if not isinstance(attributes, dict) or any(isinstance(one, dict | list | None) for one in attributes.values()):
        raise UsageError("E_API_PARAMETER", "attributes must be a JSON object of texts, numbers and booleans")
    message = encode_message(Message(Destination.parse(call.values["destination"]), attributes))
    return call.control.view().engine.explain(message)


async def explain_selector(call: Call) -> dict[str, Any]:
    call.check_monitor()
    return call.control.view().engine.explain_selector(call.values["destination"], call.values["selector"])


async def routes(call: Call) -> dict[str, Any]:
    return call.part("routing")


async def interests(call: Call) -> dict[str, Any]:
    return call.part("interests")


async def covering(call: Call) -> dict[str, Any]:
    return call.part("covering")
