"""Administrative requests of clients as the audit log names them."""

from collections.abc import Mapping
from typing import TypeAlias

from tidings.node.requests import (
    AddType,
    CreateQueue,
    DeleteQueue,
    EndConnection,
    Forget,
    Move,
    Purge,
    RemoveType,
    Request,
)

Action: TypeAlias = tuple[str, Mapping[str, object]]


def action_of(request: Request) -> Action | None:
    """The action and what it applies to; None: a request that only concerns its client."""
    action: Action | None = None
    if isinstance(request, CreateQueue):
        action = "create queue", {"queue": request.queue}
    elif isinstance(request, DeleteQueue):
        action = "delete queue", {"queue": request.queue, "force": request.force}
    elif isinstance(request, EndConnection):
        action = "close connection", {"number": request.connection}
    elif isinstance(request, Purge):
        tags = {"messages": len(request.tags)} if request.tags else {}
        action = "purge queue", {"queue": request.queue, **tags}
    elif isinstance(request, Move):
        action = "move messages", {"queue": request.queue, "target": request.target}
    elif isinstance(request, Forget) and request.owner is not None and not request.look:
        action = "delete durable subscription", {"name": request.durable, "client": request.owner}
    elif isinstance(request, AddType):
        action = "add event type", {"type": request.event_type.name}
    elif isinstance(request, RemoveType):
        action = "remove event type", {"type": request.name}
    return action
