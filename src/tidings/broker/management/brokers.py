"""Operations on the broker: status, capacity, destinations, connections, users, configuration, traces."""

import json
from importlib.metadata import version
from typing import Any

from tidings.broker.management.call import Call
from tidings.broker.security.user_guard import UserGuard
from tidings.errors import UsageError
from tidings.kernel.codec import encode_message
from tidings.model.destination import Destination
from tidings.model.message import Message
from tidings.model.message_id import MessageId
from tidings.node.inputs import ForgetBroker, ReleaseHeld
from tidings.node.requests import Trace
from tidings.tracking.draw.jaeger import to_jaeger
from tidings.tracking.query.path_json import from_json


async def status(call: Call) -> dict[str, Any]:
    return {"version": version("tidings"), **call.part("overview")}


async def capacity(call: Call) -> dict[str, Any]:
    return {"capacity": call.part("overview")["capacity"]}


async def destinations(call: Call) -> dict[str, Any]:
    return call.part("destinations")


async def traffic(call: Call) -> dict[str, Any]:
    return call.part("traffic")


async def connections(call: Call) -> dict[str, Any]:
    return call.part("connections")


async def close_connection(call: Call) -> dict[str, Any]:
    call.check_administer()
    number = call.values["number"]
    if number not in call.control.view().clients.connections:
        raise UsageError("E_CONNECTION_UNKNOWN", f"there is no connection {number}")
    call.control.end_client(number, "E_CLOSED_BY_ADMIN", "the connection was closed by an administrator")
    return {"closed": number}


async def users(call: Call) -> dict[str, Any]:
    call.check_monitor()
    guard = call.control.guard()
    known = sorted(guard.users.by_name.items()) if isinstance(guard, UserGuard) else []
    items = [
        {"name": name, "groups": sorted(user.groups), "password": bool(user.password)}
        for name, user in known
        if call.values["containing"] in name
    ]
    offset, limit = call.values["offset"], call.values["limit"]
    return {"total": len(items), "items": items[offset : offset + limit]}


async def check_configuration(call: Call) -> dict[str, Any]:
    call.check_administer()
    problems = await call.control.check()
    return {"valid": not problems, "problems": problems}


async def reload_configuration(call: Call) -> dict[str, Any]:
    call.check_administer()
    problems = await call.control.reload()
    return {"reloaded": not problems, "problems": problems}


async def forget_broker(call: Call) -> dict[str, Any]:
    call.check_administer()
    router = call.values["router"]
    network = call.control.view().engine.network()
    if network is None or (router not in network.interests and router not in network.awaited):
        raise UsageError("E_BROKER_UNKNOWN", f"this broker remembers nothing of broker {router}")
    if router in network.routes:
        raise UsageError("E_BROKER_REACHABLE", f"broker {router} can be reached: stop it first")
    call.control.order(ForgetBroker(router))
    after = call.control.view().engine.network()
    assert after is not None
    return {"forgotten": router, "dropped": after.copies_abandoned - network.copies_abandoned}


async def release_held(call: Call) -> dict[str, Any]:
    call.check_administer()
    network = call.control.view().engine.network()
    if network is None or not network.copies_held:
        raise UsageError("E_NOTHING_HELD", "this broker holds no messages since its store was replaced")
    call.control.order(ReleaseHeld())
    return {"released": network.copies_held}


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


async def trace(call: Call) -> dict[str, Any]:
    message, everywhere = MessageId.parse(call.values["id"]), call.values["everywhere"]
    done = await call.client.ask(lambda receipt: Trace(receipt, message, everywhere))
    path: dict[str, Any] = json.loads(str(done.fields["path"]))
    return path


async def jaeger_trace(call: Call) -> dict[str, Any]:
    message, everywhere = MessageId.parse(call.values["id"]), call.values["everywhere"]
    done = await call.client.ask(lambda receipt: Trace(receipt, message, everywhere))
    return to_jaeger(from_json(str(done.fields["path"])))
