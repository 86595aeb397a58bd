"""Generates the blocking client, `tidings.client.sync`, from the asynchronous classes.

    python -m docs.pages.blocking_client        # writes src/tidings/client/sync.py

Each class of `BLOCKING` gets a blocking class of the same name with the same public members (those that `api.INTERNAL`
does not list): a coroutine becomes a call that waits, an asynchronous iterator an iterator, and what it returns a
blocking object. Deliveries and receipts, which users get many of, are subclasses; the others hold the asynchronous one.
"""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docs
from docs.pages import api, members

import tidings
from tidings.client import factory
from tidings.client.advertisements import Advertisement
from tidings.client.connection.answers import Receipt
from tidings.client.queue import Queue
from tidings.client.retained import RetainedSubscription

TARGET = Path(docs.__path__[0]).parent / "src" / "tidings" / "client" / "sync.py"
DERIVED: tuple[type, ...] = (Receipt, tidings.Delivery)
HELD: tuple[type, ...] = (
    tidings.Subscription,
    tidings.Transaction,
    RetainedSubscription,
    Queue,
    Advertisement,
    tidings.Client,
)
BLOCKING = {one.__name__: one for one in (*DERIVED, *HELD)}
# Arguments by which the parts of the client work together, and members without a blocking form.
INTERNAL_ARGUMENTS = {"session", "transaction"}
LEFT_OUT = {("Subscription", "receive_nowait"), ("Subscription", "put_back"), ("Subscription", "echo")}
LEFT_OUT |= {("Subscription", "return_seen"), ("Subscription", "lost"), ("Client", "connected")}
HEADER = '''"""The blocking client: for scripts, threads and the interactive prompt.

    with tidings.sync.connect("tidings://127.0.0.1:7300") as client:
        ticks = client.subscribe("ticks.>", selector="price > 20")
        client.publish("ticks.xyz", {"stock": "XYZ", "price": 50})
        for message in ticks: ...

Generated from the asynchronous client by docs/pages/blocking_client.py; do not edit. One event loop on a thread of its
own serves all blocking clients of the process. In a forked process those of its parent are closed (E_FORKED).
"""

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from tidings.client.bodies import Body
from tidings.client.blocking import blocking, iterate, open_client, receive, result_of
from tidings.client.client import WINDOW
from tidings.client.factory import connect as connect_async
from tidings.client.queue import Browsed
from tidings.client.retained import PAGE, RetainedPage
from tidings.errors import TidingsError
from tidings.model.destination import Destination, DestinationPattern
from tidings.model.event_type import EventType
from tidings.model.message import PRIORITY_DEFAULT, Message
from tidings.model.message_id import MessageId
from tidings.model.values import Value
from tidings.tracking.query.key_codec import FoundMessages
from tidings.tracking.query.path import Path, WhyNot
'''
BODIES = {
    ("Subscription", "receive"): "return receive(self._async, timeout, Delivery)",
    ("Client", "errors"): "return list(self._async.errors)",
}
EXTRA = {
    "Subscription": """
    def __iter__(self) -> Iterator[Delivery]:
        while (delivery := self.receive()) is not None:
            yield delivery

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
""",
    "Transaction": """
    def __enter__(self) -> "Transaction":
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        result_of(self._async.__aexit__(kind, *rest))
""",
    "Client": """
    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        result_of(self._async.__aexit__(kind, *rest))
""",
}


def source() -> str:
    """The module's text, formatted."""
    imports = sorted(f"from {one.__module__} import {name} as Async{name}" for name, one in BLOCKING.items())
    parts = [HEADER + "\n".join(imports)]
    parts += [_derived(one) for one in DERIVED]
    parts += [_held(one) for one in HELD]
    parts.append(_connect())
    text = "\n\n\n".join(parts) + "\n"
    for rule in (["check", "--select", "I,F401", "--fix-only", "--quiet"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *rule, "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _derived(one: type) -> str:
    """A subclass whose coroutines wait."""
    name = one.__name__
    lines = [f"class {name}(Async{name}):", _document(one, 4), "    __slots__ = ()"]
    for _, function in _methods(one):
        if inspect.iscoroutinefunction(function):
            tree = _tree(function)
            result = ast.unparse(tree.returns) if tree.returns is not None else "None"
            call = f"result_of(super().{tree.name}({_passed(tree)}))"
            body = f"{call}\n        return self" if result.strip("'") == name else call
            lines.append(f"    {_signature(tree, result)}  # type: ignore[override]")
            lines.append(f"{_document(function, 8)}\n        {body}\n")
    return "\n".join(lines)


def _held(one: type) -> str:
    name = one.__name__
    lines = [f"class {name}:", _document(one, 4)]
    lines.append(f"    def __init__(self, asynchronous: Async{name}) -> None:\n        self._async = asynchronous\n")
    for attribute, type_name, about in _attributes(one):
        shown = "list[TidingsError]" if (name, attribute) in BODIES else type_name
        body = BODIES.get((name, attribute), f"return self._async.{attribute}")
        text = f'        """{about[:1].upper()}{about[1:]}."""\n' if about else ""
        lines.append(f"    @property\n    def {attribute}(self) -> {shown}:\n{text}        {body}\n")
    for _, function in _methods(one):
        lines.append(_method(name, function))
    return "\n".join(lines) + EXTRA.get(name, "")


def _attributes(one: type) -> Iterator[tuple[str, str, str]]:
    hidden = api.INTERNAL.get(one, frozenset()) | {name for of, name in LEFT_OUT if of == one.__name__}
    properties = members.properties(one)
    for name, type_name, about in members.attributes(one):
        if name not in hidden | properties.keys():
            yield name, type_name or "Any", about
    for name, function in properties.items():
        if name not in hidden:
            yield (
                name,
                inspect.get_annotations(function)["return"].__name__,
                (inspect.getdoc(function) or "").rstrip("."),
            )


def _methods(one: type) -> Iterator[tuple[str, Any]]:
    hidden = api.INTERNAL.get(one, frozenset()) | {name for of, name in LEFT_OUT if of == one.__name__}
    return ((name, function) for name, function in members.methods(one).items() if name not in hidden)


def _method(of: str, function: Any) -> str:
    tree = _tree(function)
    result = ast.unparse(tree.returns) if tree.returns is not None else "None"
    call = f"self._async.{tree.name}({_passed(tree)})"
    if match := re.fullmatch(r"AsyncIterator\[(.*)\]", result):
        result, body = f"Iterator[{match[1]}]", f"return iterate({call})"
    else:
        body = _result(result, f"result_of({call})" if isinstance(tree, ast.AsyncFunctionDef) else call)
    body = BODIES.get((of, tree.name), body)
    return f"    {_signature(tree, result)}\n{_document(function, 8)}\n        {body}\n"


def _result(type_name: str, call: str) -> str:
    match type_name:
        case "None":
            return call
        case "Receipt":
            return f"got = {call}\n        return Receipt(got.message_id, got.confirmation)"
        case "Delivery":
            return f"return blocking({call}, Delivery)"
        case _ if type_name in BLOCKING:
            return f"return {type_name}({call})"
    return f"return {call}"


def _tree(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Its definition, without the arguments that users do not give."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = tree.args
    kept = [pair for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if _is_public(pair[0])]
    arguments.kwonlyargs, arguments.kw_defaults = [one for one, _ in kept], [default for _, default in kept]
    return tree


def _is_public(argument: ast.arg) -> bool:
    return argument.arg not in INTERNAL_ARGUMENTS


def _signature(tree: ast.FunctionDef | ast.AsyncFunctionDef, result: str) -> str:
    quoted = f'"{result}"' if result in BLOCKING else result
    return f"def {tree.name}({ast.unparse(tree.args)}) -> {quoted}:"


def _passed(tree: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = tree.args
    given = [one.arg for one in arguments.args if one.arg != "self"]
    given += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    given += [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]
    given += [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join(given)


def _document(of: Any, indent: int) -> str:
    text = inspect.getdoc(of) or ""
    assert text, f"{of} needs a docstring"
    text, _, more = text.partition("\n\n")
    if more:
        text += f"\n\nThe asynchronous `{of.__name__}` says more."
    text = text.replace("`async with`", "`with`").replace("await ", "").replace("For asyncio", "Blocking")
    text = text.replace("An asynchronous iterator", "An iterator").replace("The asyncio client", "The blocking client")
    end = "\n" if "\n" in text else ""
    return textwrap.indent(f'"""{text}{end}"""', " " * indent)


def _connect() -> str:
    tree = _tree(factory.connect)
    made = f"open_client(lambda: connect_async({_passed(tree)}))"
    about = "A connected client; the arguments of `tidings.connect`. Use it with `with`, or call `close`."
    return f'{_signature(tree, "Client")}\n    """{about}"""\n    return Client({made})'.replace(
        '-> "Client"', "-> Client"
    )


if __name__ == "__main__":
    text = source()
    TARGET.write_text(text)
