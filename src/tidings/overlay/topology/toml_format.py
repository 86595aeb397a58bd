"""A topology as a plain dictionary and as TOML text. Reading and writing files is the caller's.

    nodes = [1, 2, "paris"]          # optional: nodes without links, or a wanted order
    latency_ms = 5                   # optional defaults for every link
    bandwidth_bytes_s = 1000000
    [[links]]
    between = [1, "paris"]
    latency_ms = 12.5

>>> graph = from_toml('links = [{between = [1, "paris"], latency_ms = 12.5}]')
>>> to_dict(graph)
{'nodes': [1, 'paris'], 'links': [{'between': [1, 'paris'], 'latency_ms': 12.5}]}
"""

import json
import tomllib
from typing import Any

from tidings.errors import UsageError
from tidings.overlay.topology.graph import Graph, Node

NAME_LENGTH_MAX = 100
_TOP = {"nodes", "links", "areas", "latency_ms", "bandwidth_bytes_s"}
_LINK = {"between", "latency_ms", "bandwidth_bytes_s"}


def to_dict(graph: Graph) -> dict[str, Any]:
    links = []
    for edge in graph.edges():
        link: dict[str, Any] = {"between": [edge.a, edge.b], "latency_ms": edge.latency_ms}
        if edge.bandwidth_bytes_s is not None:
            link["bandwidth_bytes_s"] = edge.bandwidth_bytes_s
        links.append(link)
    found: dict[str, Any] = {"nodes": list(graph), "links": links}
    if graph.areas:
        found["areas"] = [graph.areas.get(node, 0) for node in graph]
    return found


def from_dict(data: dict[str, Any]) -> Graph:
    _known(data, _TOP, "the topology")
    graph = Graph()
    for node in _list(data, "nodes"):
        graph.add_node(_node(node))
    for position, link in enumerate(_list(data, "links")):
        if not isinstance(link, dict):
            raise UsageError("E_TOPOLOGY", f"link {position} is not a table")
        _known(link, _LINK, f"link {position}")
        ends = link.get("between")
        if not isinstance(ends, list) or len(ends) != 2:
            raise UsageError("E_TOPOLOGY", f"link {position}: between must name two nodes")
        latency = _number(link.get("latency_ms", data.get("latency_ms", 1.0)), "latency_ms")
        bandwidth = link.get("bandwidth_bytes_s", data.get("bandwidth_bytes_s"))
        graph.add(
            _node(ends[0]),
            _node(ends[1]),
            latency,
            None if bandwidth is None else _number(bandwidth, "bandwidth_bytes_s"),
        )
    areas = _list(data, "areas")
    if areas:
        if len(areas) != len(graph) or not all(type(area) is int for area in areas):
            raise UsageError("E_TOPOLOGY", "areas must have one whole number for each node")
        graph.areas = dict(zip(graph, areas, strict=True))
    return graph


def to_toml(graph: Graph) -> str:
    data = to_dict(graph)
    lines = [f"nodes = {_toml(data['nodes'])}"]
    if "areas" in data:
        lines.append(f"areas = {_toml(data['areas'])}")
    for link in data["links"]:
        lines += ["", "[[links]]", *(f"{name} = {_toml(value)}" for name, value in link.items())]
    return "\n".join(lines) + "\n"


def from_toml(text: str) -> Graph:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError("E_TOPOLOGY", str(error)) from None
    return from_dict(data)


def _toml(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace(
            "\x7f", "\\u007f"
        )  # otherwise a JSON string is a TOML basic string
    return repr(value)


def _known(data: dict[str, Any], names: set[str], where: str) -> None:
    for name in data:
        if name not in names:
            raise UsageError("E_TOPOLOGY", f"{where} has no field {name!r}; it may have {', '.join(sorted(names))}")


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name, [])
    if not isinstance(value, list):
        raise UsageError("E_TOPOLOGY", f"{name} must be a list")
    return value


def _node(value: object) -> Node:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UsageError("E_TOPOLOGY", f"a node is a whole number or a name, not {value!r}")
    if isinstance(value, str) and not _is_name(value):
        wanted = f"1 to {NAME_LENGTH_MAX} printable characters without / and \\, of which the first is no full stop"
        raise UsageError("E_TOPOLOGY", f"{value!r} is not a valid node name; use {wanted}")
    return value


def _is_name(text: str) -> bool:
    """A node's name is also that of its files: it must not lead elsewhere."""
    if not 0 < len(text) <= NAME_LENGTH_MAX or text.startswith("."):
        return False
    return text.isprintable() and not set(text) & {"/", "\\"}


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError("E_TOPOLOGY", f"{name} must be a number, not {value!r}")
    return float(value)
