"""The OpenAPI 3.1 document of the management API, generated from the table of operations."""

from importlib.metadata import version
from typing import Any

from tidings.broker.management.operations import OPERATIONS, PREFIX, Operation

ERROR = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("code", "reason", "remedy")},
    "required": ["code", "reason", "remedy"],
    "additionalProperties": False,
}
REFUSALS = {
    "400": "Invalid request.",
    "401": "Authentication failed or is missing.",
    "403": "The user lacks the right, or the request came from another web origin.",
    "404": "Unknown path or object.",
    "405": "Method not allowed.",
    "409": "Conflict with the current state, such as a queue in use.",
    "413": "Request body too large.",
    "415": "The content type must be application/json.",
    "429": "A limit was reached; try again later.",
    "503": "The broker cannot do that at present.",
}


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    own = {"operationId": "openapi", "summary": "This document.", "security": []}
    paths["/openapi.json"] = {"get": {**own, "responses": {"200": _answer({"type": "object"}, "The document.")}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidings management API", "version": version("tidings")},
        "servers": [{"url": PREFIX}],
        "security": [{"basic": []}, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": {"Error": ERROR},
        },
    }


def _operation(one: Operation) -> dict[str, Any]:
    result = {
        "type": "object",
        "required": list(one.returns),
        "properties": {name: _LISTS.get(name, {}) for name in one.returns},
    }
    error = {"$ref": "#/components/schemas/Error"}
    described: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "description": f"Right: {one.right}.",
        "responses": {"200": _answer(result, "Done.")}
        | {status: _answer(error, meaning) for status, meaning in REFUSALS.items()},
    }
    outside = [
        {
            "name": parameter.name,
            "in": parameter.place,
            "description": parameter.meaning,
            "required": parameter.required,
            "schema": parameter.schema(),
        }
        for parameter in one.parameters
        if parameter.place != "body"
    ]
    if outside:
        described["parameters"] = outside
    if one.method == "POST":
        described["requestBody"] = _body(one)
    return described


_LISTS: dict[str, dict[str, Any]] = {"items": {"type": "array"}, "problems": {"type": "array"}}


def _body(one: Operation) -> dict[str, Any]:
    fields = [parameter for parameter in one.parameters if parameter.place == "body"]
    schema = {
        "type": "object",
        "properties": {field.name: {**field.schema(), "description": field.meaning} for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(schema: dict[str, Any], meaning: str) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": schema}}}
