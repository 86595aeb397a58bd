"""The reference of the Python API: what `tidings` exports, with signatures and docstrings.

A name without an underscore is for users, unless it stands in `INTERNAL`: what the parts of the client ask of each other.
"""

import inspect
from collections.abc import Iterator
from typing import Any

from docs.pages import members

import tidings
from tidings.client import sync
from tidings.client.advertisements import Advertisement
from tidings.client.connection.answers import Receipt
from tidings.client.queue import Browsed, Queue
from tidings.client.retained import RetainedPage, RetainedSubscription
from tidings.model.event_type import EventType
from tidings.model.message_id import MessageId
from tidings.tracking.query.path import Hop, Path
from tidings.tracking.trace_answer import Statement

CLASSES: list[Any] = [
    tidings.Client,
    tidings.Subscription,
    tidings.Delivery,
    tidings.Transaction,
    Queue,
    RetainedSubscription,
    Advertisement,
    Receipt,
    Browsed,
    RetainedPage,
    Path,
    Hop,
    Statement,
    EventType,
    MessageId,
    tidings.Selector,
    tidings.Message,
    tidings.Destination,
]
INTERNAL: dict[type, frozenset[str]] = {
    tidings.Client: frozenset(
        [
            "advertised_again",
            "ask",
            "ask_retained",
            "ask_session",
            "begin",
            "check_session",
            "commit",
            "ended",
            "exchange",
            "forked",
            "generation",
            "leave_session",
            "numbers",
            "pages",
            "ready",
            "replies_again",
            "rollback",
            "take_session",
            "types_advertised_again",
            "withdraw",
        ]
    ),
    tidings.Subscription: frozenset(
        [
            "active",
            "deliver",
            "disconnected",
            "end",
            "finish",
            "leave",
            "moved",
            "no_local",
            "number",
            "plain",
            "request",
            "request_everywhere",
            "retry_unfinished",
            "return_seen",
            "settle",
            "settled",
            "window",
        ]
    ),
    tidings.Delivery: frozenset({"generation", "need_tag", "tag"}),
    tidings.Transaction: frozenset({"check", "left", "lost", "session", "use"}),
    RetainedSubscription: frozenset({"make"}),
    Advertisement: frozenset({"number", "request"}),
    Receipt: frozenset({"confirmation"}),
    tidings.Selector: frozenset({"tree"}),
}
ERRORS: list[Any] = [
    tidings.TidingsError,
    tidings.UsageError,
    tidings.SelectorError,
    tidings.SecurityError,
    tidings.LimitError,
    tidings.RemoteError,
    tidings.ConnectionLostError,
]


def page() -> str:
    parts = [
        "# Python API",
        "For asyncio. `tidings.sync.connect` gives the same, blocking: the same methods without `await`.",
        *function("tidings.connect", tidings.connect),
        *function("tidings.sync.connect", sync.connect),
    ]
    for one in CLASSES:
        parts += about_class(one)
    parts.append("## Errors")
    for error in ERRORS:
        parts.append(f"**`tidings.{error.__name__}`** ({error.__mro__[1].__name__}). {first(error)}")
    return "\n\n".join(parts) + "\n"


def about_class(one: type) -> Iterator[str]:
    hidden = INTERNAL.get(one, frozenset())
    yield f"## {one.__name__}"
    yield f"`{one.__module__}.{one.__qualname__}`"
    if about := document(one):
        yield about
    computed = members.properties(one)
    for name, type, meaning in members.attributes(one):
        if name not in hidden | computed.keys():
            yield " ".join(filter(None, (f"**`{name}{type and f': {type}'}`**", meaning)))
    for name, member in computed.items():
        if name not in hidden:
            kind = _name(inspect.signature(member).return_annotation)
            yield f"**`{name}: {kind}`** {document(member)}".rstrip()
    for name, member in members.methods(one).items():
        if name not in hidden:
            yield from function(f"{one.__name__}.{name}", member, level=3)


def function(name: str, one: Any, level: int = 2) -> Iterator[str]:
    keyword = "async def" if inspect.iscoroutinefunction(one) else "def"
    yield f"{'#' * level} {name}"
    yield f"```text\n{keyword} {name.rpartition('.')[2]}{signature(one)}\n```"
    if about := document(one):
        yield about


def signature(one: Any) -> str:
    found = inspect.signature(one)
    text = str(found).replace("typing.", "")
    if len(text) < 90:
        return text
    inside = ",\n".join(f"    {parameter}" for parameter in _parameters(found))
    result = "" if found.return_annotation is inspect.Signature.empty else f" -> {_name(found.return_annotation)}"
    return f"(\n{inside},\n){result}"


def _parameters(found: inspect.Signature) -> Iterator[str]:
    """With the star before those that must be named, if no parameter of its own says it."""
    marked = False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not marked:
            yield "*"
        marked = marked or parameter.kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        yield str(parameter).replace("typing.", "")


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def document(one: Any) -> str:
    """Its docstring; those of records that Python wrote itself say nothing."""
    text = inspect.cleandoc(one.__doc__ or "")
    return "" if text.startswith(f"{getattr(one, '__name__', '')}(") else text


def first(one: Any) -> str:
    return document(one).partition("\n\n")[0].replace("\n", " ")
