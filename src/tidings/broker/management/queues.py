"""Operations on queues: list, create, browse, purge, move, delete."""

from collections.abc import Callable
from typing import Any

from tidings.broker.inspection import mailbox_item
from tidings.broker.management.call import Call
from tidings.delivery.backlog import BacklogPosition
from tidings.delivery.mailbox import MailboxKind
from tidings.errors import UsageError
from tidings.kernel.codec import decode_message
from tidings.model.destination import Destination, split_prefix
from tidings.model.message_json import message_to_object
from tidings.node.requests import Browse, CreateQueue, DeleteQueue, Move, Purge, Request

SUBSCRIPTION = 1  # number under which browsed messages are delivered
KINDS = {MailboxKind.QUEUE, MailboxKind.TEMPORARY}


def _name(text: str) -> str:
    queue, name = split_prefix(text, plain_is_queue=True)
    if not queue:
        raise UsageError("E_DESTINATION_PREFIX", f"{text[:80]!r} is a topic, not a queue", position=0)
    return str(Destination(name, True))


async def find(call: Call) -> dict[str, Any]:
    call.check_monitor()
    mailboxes = call.control.view().engine.mailboxes.values()
    named = call.values["containing"]
    engine = call.control.view().engine
    items = [mailbox_item(one) | engine.home_of(one) for one in mailboxes if one.kind in KINDS and named in one.name]
    return call.page(items, lambda item: int(item["messages"]))


async def show(call: Call) -> dict[str, Any]:
    call.check_monitor()
    name = _name(call.values["queue"])
    mailbox = call.control.view().engine.mailboxes.get(name)
    if mailbox is None or mailbox.kind not in KINDS:
        raise UsageError("E_QUEUE_UNKNOWN", f"there is no {name}")
    return mailbox_item(mailbox) | call.control.view().engine.home_of(mailbox)


async def policies(call: Call) -> dict[str, Any]:
    return call.part("policies")


async def create(call: Call) -> dict[str, Any]:
    name = _name(call.values["name"])
    done = await call.client.ask(lambda receipt: CreateQueue(receipt, name))
    return {"queue": name, "created": done.fields["created"]}


async def delete(call: Call) -> dict[str, Any]:
    name, force = _name(call.values["queue"]), call.values["force"]
    done = await call.client.ask(lambda receipt: DeleteQueue(receipt, name, force))
    return {"queue": name, "count": done.fields["count"]}


async def browse(call: Call) -> dict[str, Any]:
    values, name = call.values, _name(call.values["queue"])
    after = _position(values["after"])
    done = await call.client.ask(
        lambda receipt: Browse(receipt, SUBSCRIPTION, name, values["selector"], after, values["limit"])
    )
    items = [
        {"tag": one.tag, **message_to_object(decode_message(one.message), one.attempt)}
        for one in await call.client.messages()
    ]
    seq, priority = int(done.fields["seq"]), int(done.fields["priority"])
    return {"items": items, "more": done.fields["more"], "next": f"{seq}.{priority}"}


async def purge(call: Call) -> dict[str, Any]:
    name, tags = _name(call.values["queue"]), tuple(call.values["messages"])
    return {"count": await _in_pages(call, lambda receipt: Purge(receipt, name, tags))}


async def move(call: Call) -> dict[str, Any]:
    name, target, tags = _name(call.values["queue"]), _name(call.values["target"]), tuple(call.values["messages"])
    return {"count": await _in_pages(call, lambda receipt: Move(receipt, name, target, tags), once=bool(tags))}


async def _in_pages(call: Call, make: Callable[[int], Request], *, once: bool = False) -> int:
    """Ask until nothing is left; returns the sum of the counts."""
    count = 0
    while True:
        done = await call.client.ask(make)
        count += int(done.fields["count"])
        if once or not done.fields["more"]:
            return count


def _position(text: str) -> BacklogPosition:
    seq, _, priority = (text or "0.0").partition(".")
    if not (seq.isascii() and seq.isdigit() and priority.isascii() and priority.isdigit() and int(priority) <= 9):
        raise UsageError("E_API_PARAMETER", "query parameter 'after' must be the value of `next` of the page before")
    return BacklogPosition(min(int(seq), (1 << 63) - 1), int(priority))
