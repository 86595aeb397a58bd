"""Operations on the broker: status, capacity, connections, users, configuration, traces."""

import json
import re
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from tidings.broker.management.call import Call
from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.node.requests import EndConnection, Trace
from tidings.tracking.draw.jaeger import to_jaeger
from tidings.tracking.query.path_json import from_json

FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


async def status(call: Call) -> dict[str, Any]:
    return {"version": version("tidings"), **call.part("overview")}


async def capacity(call: Call) -> dict[str, Any]:
    return {"capacity": call.part("overview")["capacity"]}


async def connections(call: Call) -> dict[str, Any]:
    return call.part("connections")


async def close_connection(call: Call) -> dict[str, Any]:
    number = call.values["number"]
    await call.client.ask(lambda receipt: EndConnection(receipt, number))
    return {"closed": number}


async def users(call: Call) -> dict[str, Any]:
    return call.part("users")


async def access(call: Call) -> dict[str, Any]:
    return call.part("access")


async def quotas(call: Call) -> dict[str, Any]:
    return call.part("quotas")


async def check_configuration(call: Call) -> dict[str, Any]:
    call.check_administer()
    problems = await call.control.check()
    return {"valid": not problems, "problems": problems}


async def reload_configuration(call: Call) -> dict[str, Any]:
    call.check_administer()
    problems = await call.control.reload()
    return {"reloaded": not problems, "problems": problems}


async def switch_over(call: Call) -> dict[str, Any]:
    call.check_administer()
    call.control.switch_over()
    return {"switching": True}


async def back_up(call: Call) -> dict[str, Any]:
    call.check_administer()
    name = str(call.values["name"])
    if not FILE_NAME.fullmatch(name):
        raise UsageError("E_BACKUP_NAME", f"{name!r} is no plain file name; use letters, digits, . - and _")
    file = await call.control.back_up(name)
    return {"file": str(file), "bytes": file.stat().st_size}


async def trace(call: Call) -> dict[str, Any]:
    message, everywhere = MessageId.parse(call.values["id"]), call.values["everywhere"]
    about = (str(call.values[name]) for name in ("why", "destination", "attributes"))
    request = Trace(0, message, everywhere, *about)
    done = await call.client.ask(lambda receipt: replace(request, receipt=receipt))
    path: dict[str, Any] = json.loads(str(done.fields["path"]))
    return path


async def jaeger_trace(call: Call) -> dict[str, Any]:
    message, everywhere = MessageId.parse(call.values["id"]), call.values["everywhere"]
    done = await call.client.ask(lambda receipt: Trace(receipt, message, everywhere))
    return to_jaeger(from_json(str(done.fields["path"])))
