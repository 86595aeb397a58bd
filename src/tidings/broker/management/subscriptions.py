"""Operations on subscriptions: list them, list and remove durable ones."""

from typing import Any

from tidings.broker.management.call import Call
from tidings.delivery.mailbox import Mailbox, MailboxKind
from tidings.errors import UsageError
from tidings.node.clients.subscription_plan import durable_parts
from tidings.node.requests import Forget

KINDS = {MailboxKind.DURABLE, MailboxKind.SHARED_DURABLE}


async def find(call: Call) -> dict[str, Any]:
    return call.part("subscriptions")


async def durables(call: Call) -> dict[str, Any]:
    call.check_monitor()
    engine = call.control.view().engine
    there = [one for one in engine.mailboxes.values() if one.kind in KINDS and call.values["containing"] in one.name]
    items = [_durable(one) | {"home": engine.home_of(one)["home"]} for one in there]
    return call.page(items, lambda item: int(item["waiting"]))


def _durable(mailbox: Mailbox) -> dict[str, Any]:
    shared = mailbox.kind is MailboxKind.SHARED_DURABLE
    owner, name = ("", mailbox.name.partition(":")[2]) if shared else durable_parts(mailbox.name)
    waiting, subscribers = len(mailbox.backlog), len(mailbox.consumers)
    return {"owner": owner, "name": name, "shared": shared, "waiting": waiting, "subscribers": subscribers}


async def remove(call: Call) -> dict[str, Any]:
    name, owner, shared = call.values["name"], call.values["owner"], call.values["shared"]
    if shared == bool(owner):
        raise UsageError("E_API_PARAMETER", "give either the owner, or shared=true")
    call.check_administer()
    await call.client.ask(lambda receipt: Forget(receipt, name, shared, owner=None if shared else owner))
    return {"removed": name}
