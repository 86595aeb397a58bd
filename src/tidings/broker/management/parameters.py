"""Parameters of management operations: one definition for validation and for the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from tidings.errors import UsageError

Values: TypeAlias = dict[str, Any]
INTEGER_MAX = (1 << 63) - 1
PRINTABLE = r"^( |[^\p{C}\p{Z}])*$"  # ECMA-262: no control characters
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    place: str  # "path", "query" or "body"
    kind: str  # "string", "integer", "boolean" or "integers"
    meaning: str
    default: object = None  # None: it is required
    minimum: int = 0
    maximum: int = INTEGER_MAX
    length_max: int = 1000
    pattern: str = PRINTABLE  # of a string; for the document, the operation checks it

    @property
    def required(self) -> bool:
        return self.default is None

    def schema(self) -> dict[str, Any]:
        match self.kind:
            case "string":
                schema: dict[str, Any] = {"type": "string", "maxLength": self.length_max, "pattern": self.pattern}
                if self.required:
                    schema["minLength"] = 1
            case "integer":
                schema = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
            case "boolean":
                schema = {"type": "boolean"}
            case _:
                items = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
                schema = {"type": "array", "items": items, "maxItems": self.length_max}
        default = list(self.default) if isinstance(self.default, tuple) else self.default
        return schema if self.required else {**schema, "default": default}

    def of_text(self, text: str) -> object:
        """The value of a path segment or query parameter."""
        if self.kind == "boolean":
            if text not in _BOOLEANS:
                raise self._error("must be true or false")
            return _BOOLEANS[text]
        if self.kind == "integer":
            digits = text.removeprefix("-")
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
                raise self._error("must be an integer")
            return self.of_json(int(text))
        return self.of_json(text)

    def of_json(self, value: object) -> object:
        match self.kind:
            case "string":
                if not isinstance(value, str) or len(value) > self.length_max or (self.required and not value):
                    raise self._error(f"must be a string of {int(self.required)} to {self.length_max} characters")
                if any(not character.isprintable() for character in value):
                    raise self._error("must not contain control characters")
            case "boolean":
                if not isinstance(value, bool):
                    raise self._error("must be true or false")
            case "integer":
                self._check_integer(value)
            case _:
                if not isinstance(value, list) or len(value) > self.length_max:
                    raise self._error(f"must be a list of at most {self.length_max} integers")
                for one in value:
                    self._check_integer(one)
        return value

    def _check_integer(self, value: object) -> None:
        if type(value) is not int or not self.minimum <= value <= self.maximum:
            raise self._error(f"must be an integer from {self.minimum} to {self.maximum}")

    def _error(self, problem: str) -> UsageError:
        return UsageError("E_API_PARAMETER", f"{self.place} parameter {self.name!r} {problem}")


def validated(parameters: tuple[Parameter, ...], path: Mapping[str, str], query: str, body: object) -> Values:
    """The values of all parameters; a UsageError names the first that is missing, unknown or invalid."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict", max_num_fields=50)
    except ValueError as error:
        raise UsageError("E_API_PARAMETER", f"malformed query: {error}") from None
    by_place: dict[str, Mapping[str, object]] = {"path": path, "query": dict(pairs)}
    if len(by_place["query"]) < len(pairs):
        raise UsageError("E_API_PARAMETER", "a query parameter is given more than once")
    if not isinstance(body, dict):
        raise UsageError("E_API_BODY", "the body must be a JSON object")
    by_place["body"] = body
    values: Values = {}
    for place, found in by_place.items():
        known = {one.name: one for one in parameters if one.place == place}
        for name in found:
            if name not in known:
                names = ", ".join(known) or "none"
                raise UsageError("E_API_PARAMETER", f"unknown {place} parameter {name[:100]!r}; known: {names}")
        for name, one in known.items():
            if name in found:
                value = found[name]
                values[name] = one.of_json(value) if place == "body" else one.of_text(str(value))
            elif one.required:
                raise UsageError("E_API_PARAMETER", f"{place} parameter {name!r} is missing")
            else:
                values[name] = one.default
    return values
