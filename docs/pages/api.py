"""The reference of the Python API: what `tidings` exports, with signatures and docstrings."""

import inspect
from collections.abc import Iterator
from typing import Any

import tidings
from tidings.client import sync
from tidings.client.answers import Receipt
from tidings.client.queue import Browsed, Queue
from tidings.client.retained import Page, Retained
from tidings.tracking.path import Hop, Path

CLASSES: list[Any] = [
    tidings.Client,
    tidings.Subscription,
    tidings.Delivery,
    tidings.Transaction,
    Queue,
    Retained,
    Receipt,
    Browsed,
    Page,
    Path,
    Hop,
    tidings.Selector,
    tidings.Message,
    tidings.Destination,
]
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


def about_class(one: Any) -> Iterator[str]:
    yield f"## {one.__name__}"
    yield f"`{one.__module__}.{one.__qualname__}`"
    yield document(one)
    for name, member in sorted(vars(one).items()):
        if name.startswith("_"):
            continue
        if isinstance(member, property) and member.fget is not None:
            yield f"**`{name}`** {document(member.fget)}".rstrip()
        elif inspect.isfunction(inspect.unwrap(getattr(member, "__func__", member))) and member.__doc__:
            yield from function(f"{one.__name__}.{name}", getattr(member, "__func__", member), level=3)


def function(name: str, one: Any, level: int = 2) -> Iterator[str]:
    keyword = "async def" if inspect.iscoroutinefunction(one) else "def"
    yield f"{'#' * level} {name}"
    yield f"```text\n{keyword} {name.rpartition('.')[2]}{signature(one)}\n```"
    yield document(one)


def signature(one: Any) -> str:
    found = inspect.signature(one)
    text = str(found).replace("typing.", "")
    if len(text) < 90:
        return text
    inside = ",\n".join(f"    {parameter}" for parameter in found.parameters.values())
    result = "" if found.return_annotation is inspect.Signature.empty else f" -> {_name(found.return_annotation)}"
    return f"(\n{inside},\n){result}"


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def document(one: Any) -> str:
    """Its docstring; those of records that Python wrote itself say nothing."""
    text = inspect.cleandoc(one.__doc__ or "")
    return "" if text.startswith(f"{getattr(one, '__name__', '')}(") else text


def first(one: Any) -> str:
    return document(one).partition("\n\n")[0].replace("\n", " ")
