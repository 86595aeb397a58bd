"""Operations on the broker: status, capacity, connections, users, configuration, traces."""

import json
import re
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from tidings.broker.management.call import Call
from tidings.errors import UsageError
from tidings.model.message_id import MessageId
from tidings.node.requests import EndConnection, FindMessages, Trace
from tidings.tracking.draw.jaeger import to_jaeger
from tidings.tracking.query.key_codec import FoundMessages, to_dict
from tidings.tracking.query.key_codec import from_json as found_from_json
from tidings.tracking.query.path import Path
from tidings.tracking.query.path_json import from_json
from tidings.tracking.recording.key_notes import TRACE_CONTEXT
from tidings.tracking.recording.recorder import TIME_MAX_MS

JAEGER_MESSAGES_MAX = 100  # of one trace
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


async def status(call: Call) -> dict[str, Any]:
    return {"version": version("tidings"), **call.part("overview")}


async def capacity(call: Call) -> dict[str, Any]:
    return {"capacity": call.part("overview")["capacity"]}


async def connections(call: Call) -> dict[str, Any]:
    return call.part("connections")


async def close_connection(call: Call) -> dict[str, Any]:
    call.check_administer()
    number = call.values["number"]
    if number not in call.control.view().clients.connections:  # also one of this interface, as that of this request
        raise UsageError("E_CONNECTION_UNKNOWN", f"there is no connection {number}")
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
    """Of a message, or of all that have this trace id in their traceparent."""
    message, everywhere = MessageId.parse(call.values["id"]), call.values["everywhere"]
    path = await _path(call, message, everywhere)
    if to_jaeger([path])["data"]:
        return to_jaeger([path])
    found = await _messages(call, FindMessages(0, TRACE_CONTEXT, str(message), count=JAEGER_MESSAGES_MAX))
    return to_jaeger([await _path(call, one, everywhere) for one in found.messages], str(message))


async def _path(call: Call, message: MessageId, everywhere: bool) -> Path:
    done = await call.client.ask(lambda receipt: Trace(receipt, message, everywhere))
    return from_json(str(done.fields["path"]))


async def find_messages(call: Call) -> dict[str, Any]:
    name, _, value = str(call.values["key"]).partition("=")
    span = int(call.values["since_ms"]), int(call.values["until_ms"]) or TIME_MAX_MS - 1
    return to_dict(await _messages(call, FindMessages(0, name, value, *span, int(call.values["count"]))))


async def _messages(call: Call, request: FindMessages) -> FoundMessages:
    done = await call.client.ask(lambda receipt: replace(request, receipt=receipt))
    return found_from_json(str(done.fields["found"]))
